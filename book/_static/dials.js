// The dials: native inputs turn the parameters of Vega charts. What a dial shows and says lies in its own page.
(() => {
  "use strict";
  if (window.dials) return; // a page with two dials names this file twice
  window.dials = {}; // name of each dial that runs, and its charts
  const here = document.currentScript.src;
  let library;

  // One script for all dials of a page, and only when one comes near: it is no part of what a page waits for.
  const loaded = () =>
    (library ??= new Promise((resolve, reject) => {
      const script = document.createElement("script");
      Object.assign(script, { src: new URL("vega.js", here), onload: resolve, onerror: reject });
      document.head.append(script);
    }));

  const plain = (value) => value.toLocaleString("en-US", { maximumSignificantDigits: 3 });

  // The answer: names of options, numbers as they stand, and what the first chart computed or looked up.
  const filled = (dial, at, views, line) =>
    line.replace(/{(\w+)}/g, (_, name) =>
      name in dial.controls ? dial.controls[name][at[name]]
        : name in dial.numbers ? plain(at[name]) : views[0].signal(`${name}Text`));

  // A line of the answer: words, and [words](address) as links.
  const written = (line) => {
    const span = document.createElement("span");
    for (const [i, part] of line.split(/\[([^\]]+)\]\(([^)]+)\)/).entries()) {
      if (i % 3 === 0) span.append(part);
      else if (i % 3 === 1) span.append(Object.assign(document.createElement("a"), { textContent: part }));
      else span.lastChild.href = part;
    }
    return span;
  };

  // What a mark is, beside the pointer.
  const hint = (place) => {
    const tip = place.appendChild(Object.assign(document.createElement("div"), { className: "dial-tip", hidden: true }));
    return (_, event, item, text) => {
      tip.hidden = !text;
      if (!text) return;
      tip.textContent = text;
      const box = place.getBoundingClientRect();
      tip.style.left = `${Math.max(0, Math.min(event.clientX - box.left + 12, box.width - tip.offsetWidth))}px`;
      tip.style.top = `${event.clientY - box.top + 16}px`;
    };
  };

  // Where a menu folds away, the column has its width after the window's own event: a chart then measures it again.
  const widths = new WeakMap();
  const settled = new ResizeObserver((entries) => {
    const moved = entries.filter(({ target, contentRect: { width } }) => width && widths.get(target) !== width);
    for (const { target, contentRect } of moved) widths.set(target, contentRect.width);
    if (moved.length) window.dispatchEvent(new Event("resize"));
  });

  const start = async (figure) => {
    const dial = JSON.parse(figure.querySelector(".dial-data").textContent);
    const inputs = [...figure.querySelectorAll(".dial-control [name]")];
    const answer = figure.querySelector(".dial-answer");
    const still = document.querySelectorAll(`.tag_${figure.id}`); // a figure of the page that stands for the dial
    const show = (live) => {
      for (const part of figure.querySelectorAll(".dial-controls, .dial-charts")) part.hidden = !live;
      for (const part of [figure, ...still]) part.classList.toggle("dial-live", live); // hides the picture on a screen
    };
    await loaded();
    show(true); // a chart takes its width from where it stands
    const places = figure.querySelectorAll(".dial-chart"), tooltip = hint(figure.querySelector(".dial-charts"));
    let views;
    try {
      views = dial.charts.map(
        (chart, i) => new vega.View(vega.parse(chart), { renderer: "svg", container: places[i], hover: false, tooltip })
      );
    } catch (error) {
      show(false);
      throw error;
    }
    const typed = Object.fromEntries([...figure.querySelectorAll(".dial-typed")].map((input) => [input.dataset.of, input]));
    // What an input stands for: a position, or a number of four digits; one that is typed counts as it is.
    const value = (input) => {
      const number = dial.numbers[input.name];
      if (!number) return Number(input.value);
      const own = typed[input.name];
      if (own === document.activeElement) return Math.min(number.most, Math.max(number.least, Number(own.value) || number.least));
      return Number((number.log ? 10 ** input.value : Number(input.value)).toPrecision(4));
    };
    const turn = async () => {
      const at = Object.fromEntries(inputs.map((input) => [input.name, value(input)]));
      for (const input of inputs.filter((input) => input.type === "range")) {
        const number = dial.numbers[input.name], now = at[input.name];
        input.setAttribute("aria-valuetext", number ? plain(now) : dial.controls[input.name][now]);
        const own = typed[input.name];
        if (!number) input.nextElementSibling.textContent = dial.controls[input.name][now];
        else if (own === document.activeElement) input.value = number.log ? Math.log10(now) : now;
        else own.value = now;
      }
      for (const view of views) for (const [name, now] of Object.entries(at)) view.signal(name, now);
      await Promise.all(views.map((view) => view.runAsync()));
      const lines = dial.lines.map((line) => filled(dial, at, views, line)).filter((line) => line.trim());
      answer.replaceChildren(...lines.map(written));
    };
    const pick = (_, item) => {
      if (!dial.picks.length || !dial.picks.every((name) => name in (item?.datum ?? {}))) return;
      for (const input of inputs) if (dial.picks.includes(input.name)) input.value = item.datum[input.name];
      turn();
    };
    for (const view of views) view.addEventListener("click", pick);
    for (const place of places) settled.observe(place);
    for (const input of [...inputs, ...Object.values(typed)]) input.addEventListener("input", turn);
    await turn(); // a browser may have kept the positions of an earlier visit
    window.dials[figure.id.replace("dial-", "")] = views;
  };

  const near = new IntersectionObserver(
    (entries) => {
      for (const { isIntersecting, target } of entries) {
        if (!isIntersecting) continue;
        near.unobserve(target);
        start(target).catch((error) => console.error(error)); // the picture stays
      }
    },
    { rootMargin: "600px" }
  );
  for (const figure of document.querySelectorAll("figure.dial")) near.observe(figure);
})();
