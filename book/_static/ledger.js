// The ledger's filters and its search; what is chosen stands in the address, so that a view can be linked to.
(() => {
  "use strict";
  const MENUS = ["paper", "chapter", "sort", "verdict", "points", "order", "differs"];
  const form = document.querySelector(".ledger-menus");
  const field = form.querySelector("input[type=search]");
  const first = form.elements.first; // by the first rules: each row's verdict is that of its first rule
  const table = document.getElementById("ledger-table");
  const rows = [...table.querySelectorAll("tbody tr")];
  const count = document.querySelector(".ledger-count");
  const total = (some) => some.reduce((sum, row) => sum + Number(row.dataset.rows), 0); // a table's settings stand in one
  const plain = (text) => text.toLowerCase().replace(/\s+/g, " ").trim();
  const escaped = (text) => text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
  // "Table I" is in "Table I: MNIST" and not in "Table IV"; "A.thm" is how A.thm6 begins.
  const whole = (text) => new RegExp(`(?<![\\p{L}\\p{N}])${escaped(text)}(?![\\p{L}\\p{N}])`, "u");
  const begins = (text) => new RegExp(`(?<![\\p{L}\\p{N}])${escaped(text)}`, "u");
  const PLACE = /^(?:tables?|figures?|sections?|theorems?|lemmas?|definitions?|algorithms?|examples?|appendix|eqs?\.?) \S/;

  const texts = new Map(rows.map((row) => [row, plain(row.textContent)]));
  // Each of a table's settings has its own id.
  const ids = new Map(rows.map((row) => [row, [row, ...row.querySelectorAll("[id]")].map((e) => e.id.toLowerCase())]));
  const finds = (asked) => {
    if (!asked) return () => true;
    if (/^[a-d]\./.test(asked)) return (row) => ids.get(row).some((id) => id.startsWith(asked));
    if (PLACE.test(asked)) return (row) => whole(asked).test(plain(row.dataset.where));
    const words = asked.split(" ").map(begins);
    return (row) => words.every((word) => word.test(texts.get(row)));
  };

  const show = () => {
    const asked = plain(field.value);
    const found = finds(asked);
    const wanted = MENUS.filter((name) => form.elements[name].value);
    const key = (name) => (name === "verdict" && first.checked ? "first" : name);
    table.classList.toggle("first-rules", first.checked);
    for (const row of rows) {
      row.hidden = !(wanted.every((name) => row.dataset[key(name)] === form.elements[name].value) && found(row));
    }
    const shown = total(rows.filter((row) => !row.hidden));
    count.textContent = shown === total(rows) ? `${shown} rows` : `${shown} of ${total(rows)} rows`;
    const chosen = new URLSearchParams(wanted.map((name) => [name, form.elements[name].value]));
    if (asked) chosen.set("search", field.value);
    if (first.checked) chosen.set("rules", "first");
    try {
      history.replaceState(null, "", `${location.pathname}${chosen.size ? `?${chosen}` : ""}${location.hash}`);
    } catch { /* a page that was opened as a file may not have its address changed */ }
  };

  const asked = new URLSearchParams(location.search);
  for (const name of MENUS) form.elements[name].value = asked.get(name) ?? "";
  field.value = asked.get("search") ?? "";
  first.checked = asked.get("rules") === "first";
  form.addEventListener("input", show);
  form.addEventListener("submit", (event) => event.preventDefault());
  show();
  // ledger.html#A.thm6 shows that row, whatever else is chosen.
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  const row = target?.closest("#ledger-table tr");
  if (row) {
    row.hidden = false;
    row.querySelector("details")?.setAttribute("open", "");
    target.scrollIntoView();
  }
})();
