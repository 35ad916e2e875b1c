// What the theme leaves to the mouse, for the keyboard; and links that lead to one row of the ledger.
(() => {
  "use strict";
  // What scrolls sideways inside itself is reached by key, and only while there is something to scroll.
  const WIDE = [".bd-article pre", ".scrolls", ".claim-table", "div.math", ".bd-article .output", ".ledger"].join();

  const reach = (element) => {
    const scrolls = element.scrollWidth > element.clientWidth + 1 && getComputedStyle(element).overflowX !== "visible";
    if (scrolls && !element.hasAttribute("tabindex")) {
      element.tabIndex = 0;
      element.dataset.reached = "";
      element.setAttribute("role", "group");
      element.setAttribute("aria-label", "scrolls sideways");
    } else if (!scrolls && "reached" in element.dataset) {
      for (const name of ["tabindex", "role", "aria-label", "data-reached"]) element.removeAttribute(name);
    }
  };

  const start = () => {
    const sizes = new ResizeObserver((entries) => entries.forEach((entry) => reach(entry.target)));
    document.querySelectorAll(WIDE).forEach((element) => sizes.observe(element));

    // The theme takes the focus from a button that was pressed; whoever pressed it by key keeps the place.
    document.addEventListener("click", (event) => {
      const button = event.detail === 0 && event.target.closest?.("button");
      if (button) setTimeout(() => document.activeElement === document.body && button.focus());
    });

    // A link in the title of a solution is a link, not a click on the solution.
    document.querySelectorAll(".admonition-title a").forEach((link) => {
      link.addEventListener("click", (event) => event.stopPropagation());
    });

    // The site carries one renderer of formulas: the menu must not offer the other.
    window.MathJax?.startup?.promise?.then(() => {
      window.MathJax.startup.document?.menu?.menu?.findID?.("Settings", "Renderer")?.disable();
    });

    // ledger.html#A.thm6 shows that row.
    const search = document.querySelector(".ledger") && decodeURIComponent(location.hash.slice(1));
    if (search && /^[A-D]\./.test(search)) {
      const ask = (tries) => {
        const field = document.querySelector(".ledger input[type=search]");
        if (!field && tries) return setTimeout(ask, 100, tries - 1);
        field.value = search;
        field.dispatchEvent(new Event("input", { bubbles: true }));
      };
      ask(100);
    }
  };
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
  else start();
})();
