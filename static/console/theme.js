/* Runs before anything is drawn: chooses light or dark, so that no page flashes in the wrong one. */
(() => {
  "use strict";
  const root = document.documentElement;
  const dark = window.matchMedia("(prefers-color-scheme: dark)");

  function choice() {
    const found = document.cookie.match(/(?:^|; )theme=(light|dark)(?:;|$)/);
    return found ? found[1] : "auto";
  }

  function apply() {
    const chosen = choice();
    root.dataset.themeChoice = chosen;
    root.dataset.bsTheme = chosen === "auto" ? (dark.matches ? "dark" : "light") : chosen;
  }

  function choose(value) {
    const year = 60 * 60 * 24 * 365;
    const secure = location.protocol === "https:" ? "; secure" : "";
    document.cookie = `theme=${value}; path=/; max-age=${year}; samesite=lax${secure}`;
    apply();
  }

  dark.addEventListener("change", apply);
  apply();
  window.portcullisTheme = { choice, choose };
})();
