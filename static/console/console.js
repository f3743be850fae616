/* Small behaviours of the console. Everything works without them except what is live. */
(() => {
  "use strict";

  const $ = (selector, within = document) => within.querySelector(selector);
  const $$ = (selector, within = document) => [...within.querySelectorAll(selector)];
  const typing = (element) =>
    element.matches("input, textarea, select, [contenteditable]") && !element.readOnly;

  /* ---- menus, help, theme ---- */

  function toggleMenu(open) {
    const side = $("#navigation");
    side.classList.toggle("open", open);
    $("[data-menu]").setAttribute("aria-expanded", String(side.classList.contains("open")));
  }

  function openSwitcher() {
    const switcher = $("[data-switcher]");
    if (!switcher) return;
    if (getComputedStyle($("[data-menu]")).display !== "none") toggleMenu(true);
    switcher.open = true;
    ($("input", switcher) || $("ul a", switcher)).focus();
  }

  function closeAll() {
    $$("[data-switcher][open], [data-menu-popup][open]").forEach((popup) => {
      const within = popup.contains(document.activeElement);
      popup.open = false;
      if (within) $("summary", popup).focus();
    });
    if ($("#navigation.open")) toggleMenu(false);
  }

  function showHelp() {
    const help = $("#help");
    if (help && !help.open) help.showModal();
  }

  function toggleTheme() {
    const dark = document.documentElement.dataset.bsTheme === "dark";
    window.portcullisTheme.choose(dark ? "light" : "dark");
  }

  document.addEventListener("click", (event) => {
    const hit = (selector) => event.target.closest(selector);
    if (hit("[data-menu]")) toggleMenu();
    else if (hit("[data-help]")) showHelp();
    else if (hit("[data-theme-toggle]")) toggleTheme();
    else if (hit("[data-copy]")) copy(hit("[data-copy]"));
    else if (hit("[data-caret]")) goToPlace(hit("[data-caret]"));
    else {
      $$("[data-menu-popup][open]").forEach((popup) => {
        if (!popup.contains(event.target)) popup.open = false;
      });
      const side = $("#navigation.open");
      if (side && !side.contains(event.target)) toggleMenu(false);
    }
  });

  async function copy(button) {
    const text = $(button.dataset.copy).textContent.trim();
    await navigator.clipboard.writeText(text);
    const label = $("span", button);
    const before = label.textContent;
    label.textContent = "Copied";
    setTimeout(() => { label.textContent = before; }, 1500);
  }

  /* ---- keys ---- */

  let went = 0;
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") { closeAll(); return; }
    if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") {
      event.preventDefault();
      openSwitcher();
      return;
    }
    if (event.ctrlKey || event.metaKey || event.altKey || typing(event.target)) return;
    if (event.key === "/") {
      event.preventDefault();
      $("[data-search]")?.focus();
    } else if (event.key === "?") {
      showHelp();
    } else if (event.key === "g") {
      went = Date.now();
    } else if (Date.now() - went < 1500) {
      const place = $(`[data-go="${CSS.escape(event.key)}"]`);
      went = 0;
      if (place) location.href = place.href;
    }
  });

  /* ---- narrowing a list, typing a name to confirm ---- */

  document.addEventListener("input", (event) => {
    const field = event.target;
    if (field.dataset.narrow) {
      const wanted = field.value.trim().toLowerCase();
      $$(field.dataset.narrow).forEach((item) => {
        item.hidden = !item.textContent.toLowerCase().includes(wanted);
      });
    }
    if (field.dataset.confirm !== undefined) holdUntilConfirmed(field);
  });

  function holdUntilConfirmed(field) {
    $("[data-confirmed]", field.form).disabled = field.value.trim() !== field.dataset.confirm;
  }

  /* ---- times ---- */

  function length(seconds) {
    if (seconds < 60) return `${Math.round(seconds)} s`;
    if (seconds < 3600) return `${Math.round(seconds / 60)} min`;
    if (seconds < 86400) return `${Math.round(seconds / 3600)} h`;
    return `${Math.round(seconds / 86400)} d`;
  }

  const ago = (seconds) =>
    seconds < -1 ? `in ${length(-seconds)}` : seconds < 2 ? "just now" : `${length(seconds)} ago`;

  function freshenTimes() {
    const now = Date.now();
    $$("time[data-ago]").forEach((time) => {
      const text = ago((now - Date.parse(time.dateTime)) / 1000);
      if (time.textContent !== text) time.textContent = text;
    });
    showMark();
  }

  /* ---- live parts: the server says what changed, the page asks for those parts again ---- */

  const POLL_EVERY = 5000;
  const RETRY_EVERY = 30000;
  const live = { source: null, state: "waiting", confirmed: 0, poll: 0, retry: 0 };

  function showMark() {
    const mark = $("[data-live-mark]");
    if (!mark) return;
    mark.dataset.state = live.state;
    const since = live.confirmed ? `updated ${ago((Date.now() - live.confirmed) / 1000)}` : "connecting";
    const text = live.state === "lost" ? `no connection, ${since}` : since;
    const label = $("span", mark);
    if (label.textContent !== text) label.textContent = text;
    mark.title = {
      live: "Changes appear by themselves",
      polling: "Changes are asked for every 5 seconds",
      lost: "The server does not answer; this page may be old",
    }[live.state] || "";
  }

  function confirmNow(state) {
    live.state = state;
    live.confirmed = Date.now();
    showMark();
  }

  const concerns = (part, topics) =>
    topics === null || part.dataset.live.split(" ").some((topic) => topics.includes(topic));

  function refresh(topics) {
    $$("[data-live]").filter((part) => concerns(part, topics))
      .forEach((part) => window.htmx.trigger(part, "live"));
  }

  function startPolling() {
    if (live.poll) return;
    live.state = live.confirmed ? "lost" : "waiting";
    live.poll = setInterval(() => refresh(null), POLL_EVERY);
    live.retry = setTimeout(openStream, RETRY_EVERY);
    refresh(null);
  }

  function stopPolling() {
    clearInterval(live.poll);
    clearTimeout(live.retry);
    live.poll = live.retry = 0;
  }

  function closeStream() {
    live.source?.close();
    live.source = null;
    stopPolling();
  }

  function openStream() {
    closeStream();
    if (!window.EventSource) { startPolling(); return; }
    const source = new EventSource(document.body.dataset.liveUrl);
    live.source = source;
    source.addEventListener("ready", () => { stopPolling(); refresh(null); confirmNow("live"); });
    source.addEventListener("pulse", () => confirmNow("live"));
    source.addEventListener("changed", (event) => {
      confirmNow("live");
      refresh(JSON.parse(event.data).topics);
    });
    source.addEventListener("error", () => {
      // The browser retries by itself unless the server refused; meanwhile the page polls.
      if (live.source !== source) return;
      startPolling();
    });
  }

  function followVisibility() {
    // A browser holds few connections per site: a hidden page gives its own back.
    if (document.hidden) closeStream();
    else openStream();
  }

  document.addEventListener("htmx:after:request", (event) => {
    const { ctx } = event.detail;
    if (!ctx?.sourceElement?.dataset.live) return;
    if (ctx.response.status < 400) confirmNow(live.poll ? "polling" : "live");
  });
  document.addEventListener("htmx:error", (event) => {
    if (!event.detail.ctx?.sourceElement?.dataset.live) return;
    live.state = "lost";
    showMark();
  });

  /* ---- narrowing a list through the server: the address follows, so that it can be kept ---- */

  document.addEventListener("htmx:after:request", (event) => {
    const form = event.detail.ctx?.sourceElement;
    if (!form?.matches?.("form.filters") || event.detail.ctx.response.status >= 400) return;
    const wanted = new URLSearchParams(new FormData(form));
    [...wanted.keys()].forEach((name) => { if (!wanted.get(name)) wanted.delete(name); });
    const query = wanted.toString();
    history.replaceState(null, "", query ? `?${query}` : location.pathname);
  });

  /* ---- the place of a fault in an expression ---- */

  function goToPlace(button) {
    const field = $(button.dataset.caret);
    const place = $(`[data-place="${button.dataset.position}"]`, button.parentElement);
    const start = Number(button.dataset.position);
    field.focus();
    field.setSelectionRange(start, start + (place?.textContent.length || 0));
  }

  /* ---- asking before what is hard to take back ---- */

  document.addEventListener("submit", async (event) => {
    const form = event.target;
    const source = event.submitter?.dataset.ask ? event.submitter : form;
    if (!source.dataset.ask || form.dataset.asked) return;
    event.preventDefault();
    const dialog = $("#ask");
    $("[data-ask-text]", dialog).textContent = source.dataset.ask;
    $("button[data-ask-yes]", dialog).textContent = source.dataset.askYes;
    dialog.returnValue = "no";
    dialog.showModal();
    await new Promise((done) => dialog.addEventListener("close", done, { once: true }));
    if (dialog.returnValue !== "yes") return;
    form.dataset.asked = "yes";
    form.requestSubmit(event.submitter);
  });

  document.addEventListener("DOMContentLoaded", () => {
    setInterval(freshenTimes, 1000);
    $$("[data-confirm]").forEach(holdUntilConfirmed);
    if ($("[data-live]")) {
      document.addEventListener("visibilitychange", followVisibility);
      window.addEventListener("pagehide", closeStream);
      window.addEventListener("pageshow", (event) => { if (event.persisted) followVisibility(); });
      followVisibility();
    }
  });
})();
