// The search page: sections that have all the words asked for, the best first, each with the place where they stand.
(() => {
  "use strict";
  const MOST = 60; // sections shown
  const AROUND = 90; // letters to either side of a word
  const plain = (text) => text.toLowerCase().normalize("NFKD").replace(/\p{M}/gu, "");
  const escaped = (text) => text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
  const begins = (word) => new RegExp(`(?<![\\p{L}\\p{N}])${escaped(word)}`, "gu");
  const count = (text, pattern) => (text.match(pattern) ?? []).length;

  const score = ([, title, , heading, text], asked, words) => {
    const [head, body, page] = [plain(heading), plain(text), plain(title)];
    let sum = 0;
    for (const word of words) {
      const hits = 8 * count(head, word) + 3 * count(page, word) + Math.min(count(body, word), 5);
      if (!hits) return 0;
      sum += hits;
    }
    if (!words.some((word) => count(`${head} ${body}`, word))) return 0; // the page's title alone is no place
    return sum + (head.includes(asked) ? 30 : 0) + (body.includes(asked) ? 10 : 0);
  };

  // The text around the first place of the phrase, else of the longest word that stands there, with every word marked.
  const excerpt = (text, asked, words) => {
    const low = plain(text).length === text.length ? plain(text) : text.toLowerCase();
    const long = words.filter((word) => word.source.length > begins("the").source.length); // more than "of" and "the"
    if (long.length) words = long;
    const phrase = low.indexOf(asked);
    const longest = [...words].sort((a, b) => b.source.length - a.source.length).map((word) => low.search(word));
    const at = phrase >= 0 ? phrase : longest.find((place) => place >= 0) ?? Infinity;
    const start = Number.isFinite(at) ? Math.max(0, at - AROUND) : 0;
    const piece = text.slice(start, start + 2 * AROUND + asked.length);
    const shown = document.createElement("p");
    let last = 0;
    const marks = words.flatMap((word) => [...piece.toLowerCase().matchAll(word)]).sort((a, b) => a.index - b.index);
    if (start) shown.append("…");
    for (const mark of marks) {
      if (mark.index < last) continue;
      shown.append(piece.slice(last, mark.index));
      last = mark.index + mark[0].length;
      shown.append(Object.assign(document.createElement("mark"), { textContent: piece.slice(mark.index, last) }));
    }
    shown.append(piece.slice(last), start + piece.length < text.length ? "…" : "");
    return shown;
  };

  const show = (asked, place) => {
    const words = plain(asked).split(/\s+/).filter(Boolean).map(begins);
    const phrase = plain(asked).trim();
    const found = SECTIONS.map((section) => [score(section, phrase, words), section])
      .filter(([points]) => points).sort(([a], [b]) => b - a);
    const note = document.createElement("p");
    note.setAttribute("role", "status");
    note.textContent = `${found.length || "No"} section${found.length === 1 ? "" : "s"} with “${asked}”. `;
    const ledger = Object.assign(document.createElement("a"), { textContent: "Search the ledger for it" });
    ledger.href = `book/ledger.html?search=${encodeURIComponent(asked)}`;
    note.append(ledger, ".");
    const list = Object.assign(document.createElement("ul"), { className: "search" });
    for (const [, [name, title, anchor, heading, text]] of found.slice(0, MOST)) {
      const item = document.createElement("li");
      const link = document.createElement("a");
      link.href = `${name}.html#${anchor}`;
      link.textContent = heading === title ? title : `${title} › ${heading}`;
      item.append(link, excerpt(text, phrase, words));
      list.append(item);
    }
    place.replaceChildren(note, list);
  };

  addEventListener("DOMContentLoaded", () => {
    const asked = new URLSearchParams(location.search).get("q")?.trim() ?? "";
    document.querySelectorAll("input[name=q]").forEach((field) => { field.value = asked; });
    if (asked) show(asked, document.getElementById("search-results"));
  });
})();
