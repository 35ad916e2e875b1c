// The form of "Choose a model": reads the fields, looks up the noise in a table, and shows what the rule answers. The rule
// itself is Python's (book/press/choice_rule.py), which book/press/choice_page.py translates into the page as chooseRule.
"use strict";
(() => {
  const data = JSON.parse(document.getElementById("choose-data").textContent);
  const form = document.getElementById("choose-form");
  const answer = document.getElementById("choose-answer");
  const code = document.getElementById("choose-code");
  const printer = document.getElementById("choose-print");
  const rule = chooseRule;

  const refuse = (field, reason) => {
    throw new Error(`${form.elements[field].closest("label").dataset.label}: ${reason}.`);
  };

  // The value of a field, in the range that its attributes name.
  function value(field) {
    const { number, yes, whole, least, most } = field.dataset;
    if (yes !== undefined) return field.value === "true";
    if (number === undefined) return field.value;
    const given = Number(field.value);
    const outside = least !== undefined && !(given >= Number(least) && given <= Number(most));
    if (outside || (whole !== undefined && !Number.isInteger(given)) || (least !== undefined && field.value.trim() === "")) {
      const [from, to] = [least, most].map((end) => Number(end).toLocaleString("en-US"));
      refuse(field.name, `it must be ${whole !== undefined ? "a whole number" : "a number"} from ${from} to ${to}`);
    }
    return given;
  }

  function problem() {
    const fields = [...form.querySelectorAll("input, select")].map((field) => [field.name, value(field)]);
    const asked = Object.fromEntries(fields);
    if (form.elements.delta.value === "") asked.delta = rule.default_delta(asked.n);
    const found = rule.derived(asked);
    const wrong = rule.refused(data, found);
    if (wrong) refuse(...wrong);
    const at = (table) => Object.entries(table).find(([delta]) => Number(delta) === asked.delta)[1][form.elements.epsilon.value];
    const multiplier = (one) => at(data.noise[asked.private][`${one.rate.toFixed(5)} ${one.steps}`]);
    return [{ ...found, sum: at(data.sums), record_sum: at(asked.private === "labels" ? data.halves : data.sums) }, multiplier];
  }

  function answered() {
    const [asked, multiplier] = problem();
    const found = rule.choose(data, asked);
    const trained = found.nearest !== null && found.nearest.steps !== null;
    const settings = trained ? rule.settings(data, asked, found.nearest, multiplier(found.nearest)) : null;
    return [rule.lines(data, asked, found, settings), rule.programs(data, asked, found, settings)];
  }

  function show() {
    let all, programs = [];
    try {
      [all, programs] = answered();
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

  // The question and its answer on a sheet of their own, which the browser prints.
  function print() {
    const fields = [...form.querySelectorAll("label")].map((label) => {
      const field = label.querySelector("input, select");
      return `${label.dataset.label}: ${field.selectedOptions?.[0].textContent ?? field.value}`;
    });
    const asked = document.createElement("p");
    asked.textContent = `${fields.join("; ")}.`;
    document.getElementById("choose-paper")?.remove();
    const paper = document.createElement("iframe");
    Object.assign(paper, { id: "choose-paper", title: "The answer, to be printed" });
    paper.style = "position: absolute; width: 0; height: 0; border: 0";
    const sheet = document.getElementById("choose-sheet").innerHTML;
    paper.srcdoc = `<!doctype html><html lang="en"><meta charset="utf-8">${sheet}${asked.outerHTML}${answer.outerHTML}${code.outerHTML}`;
    paper.addEventListener("load", () => paper.contentWindow.print());
    document.body.append(paper);
  }

  form.addEventListener("input", show);
  printer.addEventListener("click", print);
  form.addEventListener("submit", (event) => event.preventDefault());
  form.hidden = printer.hidden = false;
  show();
})();
