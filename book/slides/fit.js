// When the mathematics is set, a slide whose content is taller or wider than 1280 x 720 pixels gets a smaller font, down to 60%;
// what is still too large then scrolls. Slides that are not shown have no height, so all are laid out once, unseen, before the first is shown.
(function () {
  const least = 0.6;

  function fit(section) {
    for (let size = 1; size >= least; size -= 0.04) {
      section.style.fontSize = size === 1 ? "" : size + "em";
      if (section.scrollHeight <= section.clientHeight + 1 && section.scrollWidth <= section.clientWidth + 1) return;
    }
    section.classList.add("too-long");
    section.tabIndex = 0; // so that arrow keys scroll it
  }

  async function start() {
    // MathJax comes deferred: where its file is slow, Reveal is ready before it.
    if (document.readyState !== "complete") await new Promise((loaded) => addEventListener("load", loaded, { once: true }));
    if (window.MathJax?.startup) await MathJax.startup.promise;
    await Promise.all([...document.images].map((image) => image.decode().catch(() => {})));
    // A browser asks for a font when text in it is shown: without this, formulas of hidden slides are measured in another one.
    await Promise.all([...document.fonts].map((font) => font.load().catch(() => {})));
    const slides = document.querySelector(".reveal .slides");
    for (const section of slides.querySelectorAll(":scope > section")) {
      const { display, visibility, position } = section.style;
      Object.assign(section.style, { display: "block", visibility: "hidden", position: "absolute" });
      fit(section);
      Object.assign(section.style, { display, visibility, position });
    }
    document.documentElement.dataset.fitted = "yes";
    Reveal.layout();
  }

  if (Reveal.isReady()) start();
  else Reveal.on("ready", start);
})();
