// What the theme leaves to the mouse, for the keyboard; and formulas when they are needed.
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

  let reading; // of MathJax, once
  const readMathJax = (address) => reading ??= new Promise((ready) => {
    const script = document.createElement("script");
    script.src = address;
    // The site carries one renderer of formulas: the menu must not offer the other.
    script.onload = () => MathJax.startup.promise.then(() => {
      MathJax.startup.document?.menu?.menu?.findID?.("Settings", "Renderer")?.disable();
      ready();
    });
    document.head.append(script);
  });

  // Paper is white: what is printed from the dark theme is printed in the light one.
  const onPaper = () => {
    const root = document.documentElement;
    let before;
    const enter = () => {
      if (root.dataset.theme === "dark") [before, root.dataset.theme] = ["dark", "light"];
    };
    const leave = () => {
      if (before) [root.dataset.theme, before] = [before, undefined];
    };
    addEventListener("beforeprint", enter);
    addEventListener("afterprint", leave);
    matchMedia("print").addEventListener("change", (event) => (event.matches ? enter() : leave()));
  };

  // Every formula is set before a print begins that the page can hold back: by its button, or by Ctrl or Cmd and P.
  const printWhenSet = (address) => {
    const print = window.print.bind(window);
    window.print = () => readMathJax(address)
      .then(() => MathJax.startup.document.lazyTypesetAll?.()).catch(() => {}).then(print);
    document.addEventListener("keydown", (event) => {
      if (event.key.toLowerCase() !== "p" || !(event.ctrlKey || event.metaKey) || event.shiftKey || event.altKey) return;
      event.preventDefault();
      window.print();
    });
  };

  // A formula comes near, or somebody may be about to print: the Ctrl or Cmd key goes down, or the pointer leaves the
  // page for the browser's menu.
  const whenNeeded = (act) => {
    const near = new IntersectionObserver(
      (seen) => seen.some((entry) => entry.isIntersecting) && once(), { rootMargin: "1000px" });
    const mayPrint = (event) => (event.ctrlKey || event.metaKey || event.type === "mouseleave") && once();
    const once = () => {
      near.disconnect();
      document.removeEventListener("keydown", mayPrint);
      document.documentElement.removeEventListener("mouseleave", mayPrint);
      act();
    };
    document.querySelectorAll(".math").forEach((formula) => near.observe(formula));
    document.addEventListener("keydown", mayPrint);
    document.documentElement.addEventListener("mouseleave", mayPrint);
  };

  const start = () => {
    const sizes = new ResizeObserver((entries) => entries.forEach((entry) => reach(entry.target)));
    document.querySelectorAll(WIDE).forEach((element) => sizes.observe(element));

    // The theme takes the focus from a button that was pressed; whoever pressed it by key keeps the place.
    document.addEventListener("click", (event) => {
      const button = event.detail === 0 && event.target.closest?.("button");
      if (button) setTimeout(() => document.activeElement === document.body && button.focus());
    });

    // A figure opens large: as the file that it is, on a click or by key.
    document.querySelectorAll(".bd-article .drawn img, .bd-article figure img").forEach((image) => {
      if (image.closest("a")) return;
      const link = Object.assign(document.createElement("a"), { href: image.src, className: "enlarge", title: "open large" });
      image.replaceWith(link);
      link.append(image);
    });

    // What stands behind a number, such as its interval, shows for a finger and by key too.
    document.querySelectorAll(".bd-article abbr[title]").forEach((number) => { number.tabIndex = 0; });

    // A link in the title of a solution is a link, not a click on the solution.
    document.querySelectorAll(".admonition-title a").forEach((link) => {
      link.addEventListener("click", (event) => event.stopPropagation());
    });

    // A link to what is folded, such as a card, opens it.
    const unfold = () => {
      const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
      const folds = [];
      for (let at = target; at; at = at.parentElement) if (at.matches("details:not([open])")) folds.push(at);
      folds.forEach((fold) => { fold.open = true; });
      if (folds.length) target.scrollIntoView();
    };
    addEventListener("hashchange", unfold);

    const mathjax = document.querySelector("script.mathjax");
    if (mathjax) {
      whenNeeded(() => readMathJax(mathjax.src));
      printWhenSet(mathjax.src);
    }
    onPaper();
    unfold();
  };
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
  else start();
})();
