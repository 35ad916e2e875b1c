// The form of "Choose a model": finds the nearest results and looks up the noise, all from the data that
// Python wrote into the page (book/press/choice_page.py). A browser test holds its lines against those of book.press.choice.
"use strict";
(() => {
  const data = JSON.parse(document.getElementById("choose-data").textContent);
  const form = document.getElementById("choose-form");
  const answer = document.getElementById("choose-answer");
  const code = document.getElementById("choose-code");
  const fixed = (value, digits) => value.toFixed(digits);
  const thousands = (value) => Math.round(value).toLocaleString("en-US");

  function problem() {
    const found = {};
    for (const field of form.querySelectorAll("input, select")) {
      const number = field.dataset.number !== undefined;
      found[field.name] = number ? Number(field.value) : field.dataset.yes !== undefined ? field.value === "true" : field.value;
      const { least, most, whole } = field.dataset;
      const outside = number && least !== undefined && !(found[field.name] >= Number(least) && found[field.name] <= Number(most));
      const broken = number && whole !== undefined && !Number.isInteger(found[field.name]);
      if (outside || broken || (number && field.tagName === "INPUT" && field.value.trim() === "")) {
        const kind = whole !== undefined ? "a whole number" : "a number";
        throw new Error(`${field.dataset.label}: it must be ${kind} from ${thousands(Number(least))} to ${thousands(Number(most))}.`);
      }
    }
    if (form.elements.delta.value === "") found.delta = Math.min(1e-5, Number(`1e-${String(found.n).length}`));
    found.constant = found.frequent_class || 100 / found.classes;
    if (found.private === "labels" && found.epsilon < data.least_labels)
      throw new Error(`For private labels ε must be at least ${data.least_labels}, of which DP-SGD gets half.`);
    if (found.delta > 1 / found.n) throw new Error(`δ must be at most 1/n = ${(1 / found.n).toExponential(1)}: choose a smaller one.`);
    if (found.frequent_class && found.frequent_class < 100 / found.classes)
      throw new Error(`Of ${found.classes} classes the most frequent one has at least ${(100 / found.classes).toPrecision(3)}%.`);
    if (found.ordinary && found.ordinary <= found.constant)
      throw new Error(`Accuracy of ordinary training: it must be above the ${found.constant.toPrecision(3)}% of a constant prediction.`);
    found.record_epsilon = found.private === "labels" ? found.epsilon / 2 : found.epsilon;
    found.delta_text = short(found.delta);
    found.sum = data.sums[found.delta_text]?.[form.elements.epsilon.value];
    found.strength = found.n / (found.classes * (found.private === "labels" ? data.halves : data.sums)[found.delta_text]?.[form.elements.epsilon.value] * Math.sqrt(found.d));
    return found;
  }

  const pure = (one) => data.pure.includes(one.method);
  const protects = (one, asked) => {
    if (one.private === "labels" && one.sigma === null) return asked.private === "labels";
    if (asked.who === "nobody") return false;
    return one.private === "labels" ? asked.private === "labels" && asked.delta > 0 : pure(one) === (asked.delta === 0);
  };
  const hasProgram = (one, asked) =>
    !data.listed.includes(one.method) && Object.entries(data.methods[one.method].only ?? {}).every(([name, value]) => asked[name] === value);
  const affordable = (one, asked) =>
    one.sigma !== null
      ? asked.sum / asked.n <= (one.sigma / one.n) * (1 + 1e-9)
      : one.private === "labels"
      ? one.epsilon <= asked.epsilon * (1 + 1e-9) && one.n <= data.as_many * asked.n
      : one.n * one.epsilon <= asked.n * (pure(one) ? asked.epsilon : asked.record_epsilon) * (1 + 1e-9);
  const distance = (asked, one) => Math.hypot(...["n", "d", "classes"].map((name) => Math.log10(asked[name] / one[name])));
  const first = (some, before) => some.reduce((best, one) => (best === null || before(one, best) ? one : best), null);
  const rising = (some) => [...some].sort((a, b) => a.epsilon - b.epsilon);
  const last = (some, key) => Object.values(Object.fromEntries(rising(some).map((one) => [one[key], one])));

  function choose(asked) {
    const alike = data.results
      .filter((one) => one.kind === asked.kind && protects(one, asked) && one.share !== null)
      .map((one) => ({ ...one, far: distance(asked, one), within: affordable(one, asked) }));
    const printed = alike.filter((one) => hasProgram(one, asked));
    if (!printed.length) return { nearest: null, method: "none", others: [], share: null };
    if (asked.kind === "table") return ofTable(asked, printed);
    const some = printed.filter((one) => one.within);
    const name = first(some.length ? some : printed, (a, b) => a.far < b.far).name;
    const own = alike.filter((one) => one.name === name);
    const within = last(own.filter((one) => one.within), "method").sort((a, b) => b.accuracy - a.accuracy);
    const best = within.filter((one) => printed.includes(one));
    const nearest = best[0] ?? first(own.filter((one) => printed.includes(one)), (a, b) => a.epsilon < b.epsilon || (a.epsilon === b.epsilon && a.accuracy > b.accuracy));
    const near = best.length && nearest.far <= data.reach;
    const rivals = alike.filter((one) => near && one.method === nearest.method && one.far <= data.reach && one.within);
    const shares = last(rivals, "name");
    const worst = first(shares, (a, b) => a.share < b.share);
    const share = worst && worst.share >= data.least ? worst.share : null;
    const reason = share !== null ? "" : nearest.far > data.reach ? "far" : best.length ? "least" : "tight";
    return { reason, nearest, method: nearest.method, others: within.filter((one) => one !== nearest), share, worst: worst?.name, count: shares.length, settings: settings(asked, nearest) };
  }

  // One method for all tables; promises by rule 6 of papers/architecture/advice_runs.py.
  function ofTable(asked, printed) {
    const within = printed.filter((one) => one.more.strength <= asked.strength * (1 + 1e-9));
    const away = (one) => Math.abs(Math.log10(one.more.strength / asked.strength));
    const nearest = first(within.length ? within : printed, (a, b) => away(a) < away(b));
    nearest.far = away(nearest);
    const strong = [...within].sort((a, b) => a.more.strength - b.more.strength).filter((one) => one.more.strength >= asked.strength / data.tables.reach);
    const kept = Object.values(Object.fromEntries(strong.map((one) => [one.name, one.kept]))).sort((a, b) => a - b);
    const found = { nearest, method: nearest.method, others: [], share: null, worst: "", count: kept.length, settings: null };
    if (kept.length < data.tables.fewest) return { ...found, reason: "unmeasured" };
    const share = Math.min(1, kept[Math.max(1, Math.floor((kept.length + 1) / data.tables.of)) - 1]);
    const middle = (kept[Math.floor((kept.length - 1) / 2)] + kept[Math.floor(kept.length / 2)]) / 2;
    if (share < data.tables.least) return { ...found, reason: "nothing" };
    return share < data.tables.agreed * middle ? { ...found, reason: "disagree" } : { ...found, share };
  }

  function settings(asked, one) {
    if (one.steps === null) return null;
    const noise = data.noise[asked.private][`${fixed(one.rate, 5)} ${one.steps}`];
    const same = data.results.filter((other) => ["name", "n", "d", "method"].every((key) => other[key] === one[key]));
    const left = same.filter((other) => other.epsilon >= one.epsilon && other.share >= data.least);
    const tuned = rising(left)[0] ?? one;
    return { ...one, learning_rate: tuned.learning_rate, tuned_at: tuned.epsilon, noise: noise[asked.delta_text][form.elements.epsilon.value], batch: Math.max(1, evenRound(one.rate * asked.n)) };
  }

  // Python rounds halves to even.
  const evenRound = (value) => (Math.abs(value % 1) === 0.5 ? 2 * Math.round(value / 2) : Math.round(value));
  // Python writes numbers below a ten-thousandth with an exponent of two digits.
  const short = (value) => (value && Math.abs(value) < 1e-4 ? value.toExponential().replace(/e-(\d)$/, "e-0$1") : `${value}`);
  const fill = (text, gaps) => text.replace(/\$([a-z_]+)/g, (_, name) => gaps[name]);

  function promise(asked, { share, worst, count, reason = "unmeasured" }) {
    if (share === null) return fill(data.says.none[reason], { worst: worst ?? "", count });
    const least = asked.ordinary ? `, which is ${fixed(asked.constant + share * (asked.ordinary - asked.constant), 1)}%` : "";
    return fill(data.says[asked.kind === "table" ? "of_tables" : "share"], { share: Math.floor(100 * share), least, worst, count });
  }

  function lines(asked) {
    const found = choose(asked);
    const own = data.methods[found.method];
    const all = [["Advice", own.says]];
    const s = found.settings;
    if (s) {
      all.push(["Clipping norm", `${s.more.clip ?? 1}`], ["Learning rate", `${s.learning_rate}, tuned on ${s.name} at ε = ${s.tuned_at}`]);
      all.push(["Batch", `${thousands(s.batch)} records on average, each drawn with probability ${fixed(s.rate, 5)}`]);
      all.push(["Noise multiplier", `${s.noise} (Rényi DP; one record added or removed)`], ["Steps", `${s.steps}`]);
    } else if (own.settings) all.push(["Settings", own.settings]);
    if (asked.private === "labels" && found.nearest?.private === "records") all.push(["Budget", data.says.half]);
    all.push(["A constant prediction", `${fixed(asked.constant, 1)}%${asked.frequent_class ? "" : data.says.alike}`]);
    all.push(["Nearest measurement", found.nearest === null ? data.says.nothing : `${found.nearest.says}; ${fixed(found.nearest.far, 2)} decades away`]);
    all.push(["Promise", promise(asked, found)]);
    const why = asked.who === "nobody" ? "nobody" : asked.delta === 0 ? "pure" : asked.kind;
    if (found.nearest === null) for (const text of data.says.why[why]) all.push(["Why", text]);
    for (const one of found.others) all.push(["Also measured there", one.says]);
    const exposed = -Math.expm1(asked.n * Math.log1p(-asked.delta));
    for (const text of own.caveats ?? []) all.push(["Caveat", text]);
    if (found.nearest && !asked.public_n) all.push(["Caveat", data.says[asked.kind === "table" && asked.delta ? "counted" : "secret_n"]]);
    if (found.nearest && asked.public_data) all.push(["Caveat", data.says.public_data]);
    if (exposed > 0.1) all.push(["Caveat", fill(data.says.exposed, { percent: fixed(100 * exposed, 0) })]);
    if (asked.epsilon > 10) all.push(["Caveat", data.says.large]);
    const { epsilon, private: of } = asked;
    const pureBudget = of === "labels" ? `epsilon=${epsilon} / 2` : `epsilon=${epsilon}`;
    const budget = of === "labels" ? `${pureBudget}, delta=${asked.delta_text} / (1 + np.exp(${epsilon} / 2))` : `${pureBudget}, delta=${asked.delta_text}`;
    const gaps = { pure: pureBudget, budget, counted: asked.public_n ? "" : ", public_n=False", classes: asked.classes, epsilon: asked.epsilon, delta: asked.delta_text, learning_rate: short((s ?? found.nearest)?.learning_rate), rate: fixed(s?.rate ?? 0, 5), batch: s?.batch, steps: s?.steps, clip: 1, noise: s?.noise, ...found.nearest?.more };
    const hidden = (library) => !asked.public_n && found.method === "rows" && library === "Opacus";
    return [all, Object.entries(own.code ?? {}).filter(([library]) => !hidden(library)).map(([library, text]) => [library, fill(text, gaps).trim()])];
  }

  function show() {
    let all, programs = [];
    try {
      [all, programs] = lines(problem());
    } catch (error) {
      all = [["Not possible", error.message]];
    }
    answer.replaceChildren(...all.flatMap(([heading, text], place) => {
      const term = document.createElement("dt"), description = document.createElement("dd");
      term.textContent = heading;
      description.textContent = text;
      description.dataset.heading = heading;
      return place && all[place - 1][0] === heading ? [description] : [term, description];
    }));
    code.replaceChildren(...programs.flatMap(([library, text]) => {
      const title = document.createElement("h3"), block = document.createElement("pre");
      title.textContent = `With ${library}`;
      block.textContent = text;
      return [title, block];
    }));
  }

  form.addEventListener("input", show);
  form.addEventListener("submit", (event) => event.preventDefault());
  form.hidden = false;
  show();
})();
