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

  const filled = (dial, at, line) =>
    line.replace(/{(\w+)}/g, (_, name) => {
      if (name in dial.controls) return dial.controls[name][at[name]];
      const { over, texts, rows } = dial.texts[name];
      return texts[rows[over.reduce((row, control) => row * dial.controls[control].length + at[control], 0)]];
    });

  const start = async (figure) => {
    const dial = JSON.parse(figure.querySelector(".dial-data").textContent);
    const inputs = [...figure.querySelectorAll(".dial-control [name]")];
    const answer = figure.querySelector(".dial-answer");
    const show = (live) => {
      for (const part of figure.querySelectorAll(".dial-controls, .dial-charts")) part.hidden = !live;
      figure.classList.toggle("dial-live", live); // hides the picture on a screen
    };
    await loaded();
    show(true); // a chart takes its width from where it stands
    const places = figure.querySelectorAll(".dial-chart");
    let views;
    try {
      views = dial.charts.map(
        (chart, i) => new vega.View(vega.parse(chart), { renderer: "svg", container: places[i], hover: false })
      );
    } catch (error) {
      show(false);
      throw error;
    }
    const turn = () => {
      const at = Object.fromEntries(inputs.map((input) => [input.name, Number(input.value)]));
      for (const input of inputs.filter((input) => input.type === "range")) {
        const value = dial.controls[input.name][input.value];
        input.setAttribute("aria-valuetext", value);
        input.nextElementSibling.textContent = value;
      }
      const lines = dial.lines.map((line) => filled(dial, at, line)).filter((line) => line.trim());
      answer.replaceChildren(...lines.map((line) => Object.assign(document.createElement("span"), { textContent: line })));
      for (const view of views) {
        for (const [name, position] of Object.entries(at)) view.signal(name, position);
        view.runAsync();
      }
    };
    for (const input of inputs) input.addEventListener("input", turn);
    turn(); // a browser may have kept the positions of an earlier visit
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
