// The form of "Choose a model": walks the chart, finds the nearest result and looks up the noise, all from the data that
// Python wrote into the page (book/press/choice_page.py). A browser test holds its lines against those of press.choice.
"use strict";
(() => {
  const data = JSON.parse(document.getElementById("choose-data").textContent);
  const form = document.getElementById("choose-form");
  const answer = document.getElementById("choose-answer");
  const LOOK = { "<": (a, b) => a < b, ">": (a, b) => a > b, "=": (a, b) => a === b, "!": (a, b) => a !== b };
  const holds = ([fact, operation, value], facts) => LOOK[operation](facts[fact], value);
  const fixed = (value, digits) => value.toFixed(digits);
  const thousands = (value) => Math.round(value).toLocaleString("en-US");

  function problem() {
    const found = {};
    for (const field of form.querySelectorAll("input, select")) {
      const number = field.dataset.number !== undefined;
      found[field.name] = number ? Number(field.value) : field.value;
      const { least, most, whole } = field.dataset;
      const outside = number && least !== undefined && !(found[field.name] >= Number(least) && found[field.name] <= Number(most));
      const broken = number && whole !== undefined && !Number.isInteger(found[field.name]);
      if (outside || broken || (number && field.value.trim() === "")) {
        const kind = whole !== undefined ? "a whole number" : "a number";
        throw new Error(`${field.dataset.label}: it must be ${kind} from ${thousands(Number(least))} to ${thousands(Number(most))}.`);
      }
    }
    found.floor = found.frequent_class || 100 / found.classes;
    if (found.private === "labels" && found.epsilon < data.least_labels)
      throw new Error(`For private labels ε must be at least ${data.least_labels}, of which DP-SGD gets half.`);
    if (found.delta > 1 / found.n) throw new Error(`δ must be at most 1/n = ${(1 / found.n).toExponential(1)}: choose a smaller one.`);
    if (found.frequent_class && found.frequent_class < 100 / found.classes)
      throw new Error(`Of ${found.classes} classes the most frequent one has at least ${(100 / found.classes).toPrecision(3)}%.`);
    if (found.accuracy_without_privacy && found.accuracy_without_privacy <= found.floor)
      throw new Error(`Accuracy without privacy: it must be above the ${found.floor.toPrecision(3)}% of a constant prediction.`);
    found.record_epsilon = found.private === "labels" ? found.epsilon / 2 : found.epsilon;
    found.n_epsilon = found.n * found.record_epsilon;
    found.exposed = -Math.expm1(found.n * Math.log1p(-found.delta));
    return found;
  }

  function walk(facts) {
    const path = [];
    let node = data.nodes[data.start];
    while (node.test) {
      const yes = holds(node.test, facts);
      path.push([node.asks, yes]);
      node = data.nodes[yes ? node.yes : node.no];
    }
    return [path, node];
  }

  const distance = (facts, one) => {
    const set = data.datasets[one.data];
    const epsilon = one.private === "labels" ? facts.epsilon : facts.record_epsilon;
    return Math.hypot(...["n", "d", "classes"].map((name) => Math.log10(facts[name] / set[name])), Math.log10(epsilon / one.epsilon));
  };

  const first = (some, before) => some.reduce((best, one) => (best === null || before(one, best) ? one : best), null);

  function choose(facts) {
    const [path, leaf] = walk(facts);
    const alike = data.results
      .filter((one) => data.datasets[one.data].kind === facts.kind && one.private === leaf.private)
      .map((one) => ({ ...one, name: data.datasets[one.data].name, far: distance(facts, one) }));
    const nearest = first(alike.filter((one) => one.family === leaf.family), (a, b) => a.far < b.far);
    const near = nearest !== null && nearest.far <= data.reach;
    const seen = {};
    const ranked = alike.filter((one) => one.far <= data.reach).sort((a, b) => a.far - b.far || (a.family !== leaf.family) - (b.family !== leaf.family));
    for (const one of ranked) (seen[one.name] ??= []).push(one);
    const others = Object.values(seen).flatMap(firstAndBetter).filter((one) => nearest === null || one.place !== nearest.place);
    let settings = null;
    if (nearest && nearest.steps) {
      const table = facts.private === "labels" ? data.label_noise : data.noise;
      const [rate, noise] = table[nearest.steps][form.elements.delta.value][form.elements.epsilon.value];
      settings = { batch: Math.max(1, evenRound(facts.n / rate)), rate, steps: nearest.steps, noise };
    }
    return { path, leaf, nearest, near, others, settings, expected: near ? expected(facts, leaf, nearest) : frequent(facts, leaf) };
  }

  // The nearest result of a data set, and the best one of another family at the same point where that is better.
  function firstAndBetter(same) {
    const rivals = same.filter((one) => one.far === same[0].far && one.family !== same[0].family && one.accuracy > same[0].accuracy);
    return rivals.length ? [same[0], first(rivals, (a, b) => a.accuracy > b.accuracy)] : [same[0]];
  }

  // Python rounds halves to even.
  const evenRound = (value) => (Math.abs(value % 1) === 0.5 ? 2 * Math.round(value / 2) : Math.round(value));

  const frequent = (facts, leaf) => (leaf.family === "constant" && facts.frequent_class ? { how: "frequent", middle: facts.frequent_class } : null);

  function expected(facts, leaf, nearest) {
    const pool = data.worst[`${facts.kind} ${leaf.private}`];
    if (!pool || !pool.foretold.includes(nearest.name)) return null;
    const errors = { ...pool.errors };
    if (nearest.share === null || !facts.accuracy_without_privacy) delete errors.share;
    const how = first(Object.keys(errors), (a, b) => errors[a] < errors[b]);
    const middle = how === "share" ? facts.floor + nearest.share * (facts.accuracy_without_privacy - facts.floor) : nearest.accuracy;
    return { how, middle, low: Math.max(0, middle - errors[how]), high: Math.min(100, middle + errors[how]) };
  }

  function told({ leaf, near, expected: one }) {
    const says = data.numbers;
    if (!one) return says[leaf.family === null ? "none" : leaf.family === "constant" ? "constant" : near ? "alone" : "far"];
    if (one.how === "frequent") return `${fixed(one.middle, 1)}%${says.frequent}`;
    const wide = one.high - one.low > data.wide ? says.wide : "";
    return `${fixed(one.middle, 1)}% [${fixed(one.low, 1)}, ${fixed(one.high, 1)}]${says[one.how]}${wide}`;
  }

  function placed({ leaf, nearest, near }) {
    if (leaf.family === "constant") return "a constant prediction needs none; models measured near stand below";
    if (nearest === null) return "none: no accuracy was frozen";
    if (!near) return `too far: ${fixed(nearest.far, 2)} decades away, and beyond ${fixed(data.reach, 2)} nothing is taken over`;
    return `${nearest.says} ${fixed(nearest.far, 2)} decades away`;
  }

  function lines(facts) {
    const found = choose(facts);
    const { leaf, settings, nearest, near, others } = found;
    const all = [["Advice", leaf.says]];
    if (settings) {
      all.push(["Batch", `${thousands(settings.batch)} records on average, each drawn with probability 1/${settings.rate}`]);
      all.push(["Steps", `${thousands(settings.steps)}, as in the nearest training of this family`]);
      all.push(["Noise multiplier", `${settings.noise} (Rényi DP; one record added or removed)`]);
      if (facts.private === "labels") all.push(["Budget", data.half]);
    }
    if (leaf.private === "labels")
      all.push(["Labels", `the first stage keeps a true label with probability ${fixed(1 / (1 + (facts.classes - 1) * Math.exp(-facts.epsilon)), 3)}`]);
    all.push(["Nearest result", placed(found)], ["Expected accuracy", told(found)]);
    for (const one of others) all.push(["Also measured near", `${one.says} ${fixed(one.far, 2)} decades away`]);
    const known = {
      ...facts, family: leaf.family ?? "none", leaf: leaf.name, counts: leaf.private, noisy: settings ? "yes" : "no",
      near: near || (nearest === null && (others.length || leaf.cites.length)) ? "yes" : "no",
    };
    for (const [tests, says] of data.caveats)
      if (tests.every((test) => holds(test, known))) all.push(["Caveat", says.replace("{exposed}", fixed(100 * facts.exposed, 0))]);
    return { all, found };
  }

  function show() {
    let all, way = "", cites = [];
    try {
      const said = lines(problem());
      all = said.all;
      way = said.found.path.map(([asks, yes]) => `${asks} ${yes ? "Yes" : "No"}.`).join(" ");
      cites = said.found.leaf.cites;
    } catch (error) {
      all = [["Not possible", error.message]];
    }
    const rows = [...all, ...(way ? [["Way through the chart", way]] : []), ...cites.map(([chapter, row, says]) => ["Rests on", `chapter ${Number(chapter)}, ${row}: ${says}`])];
    answer.replaceChildren(...rows.flatMap(([heading, text], place) => {
      const term = document.createElement("dt"), description = document.createElement("dd");
      term.textContent = heading;
      description.textContent = text;
      description.dataset.heading = heading;
      return place && rows[place - 1][0] === heading ? [description] : [term, description];
    }));
  }

  form.addEventListener("input", show);
  form.addEventListener("submit", (event) => event.preventDefault());
  form.hidden = false;
  show();
})();
