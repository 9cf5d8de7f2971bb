/* The script of the console. A page works as a page without it; the script keeps it current, writes times in the zone of
   the browser, opens dialogs, sends acts, and listens to keys. It asks for nothing while the page is hidden. */
"use strict";
(() => {
  const root = document.documentElement;
  const $ = (id) => document.getElementById(id);
  const all = (query, from = document) => [...from.querySelectorAll(query)];

  // --- colours: as the system, light, dark ---------------------------------------------------------------------
  const THEMES = { "": "as the system", light: "light", dark: "dark" };
  const stored = (name) => { try { return localStorage.getItem(name) || ""; } catch { return ""; } };
  const store = (name, value) => { try { localStorage.setItem(name, value); } catch { /* for this page only */ } };
  function paint(theme) {
    if (theme) root.dataset.theme = theme; else delete root.dataset.theme;
    if ($("theme")) $("theme").ariaLabel = $("theme").title = `Colours: ${THEMES[theme]}`;
  }
  paint(stored("holdfast.theme"));
  $("theme")?.addEventListener("click", () => {
    const names = Object.keys(THEMES), next = names[(names.indexOf(root.dataset.theme || "") + 1) % names.length];
    store("holdfast.theme", next);
    paint(next);
  });

  // --- times: the page has instants, the reader a zone ---------------------------------------------------------
  const clock = { hour: "2-digit", minute: "2-digit", hourCycle: "h23" };
  const format = (options) => new Intl.DateTimeFormat("en-GB", options);
  const FORMS = {
    time: format({ ...clock, second: "2-digit" }),
    milli: format({ ...clock, second: "2-digit", fractionalSecondDigits: 3 }),
    minute: format(clock),
    day: format({ ...clock, day: "numeric", month: "short" }),
    full: format({ ...clock, second: "2-digit", day: "numeric", month: "short", year: "numeric" }),
  };
  const DATE = format({ day: "numeric", month: "short", year: "numeric" });
  const zoneOf = (style) => format({ timeZoneName: style }).formatToParts(new Date()).find((part) => part.type === "timeZoneName").value;
  const offset = zoneOf("longOffset").replace("GMT", "UTC") || "UTC";
  const spelled = (at, form) => FORMS[form].format(at).replace(",", "");
  function localise(from) {
    const today = DATE.format(new Date());
    for (const one of all("time[data-at]", from)) {
      const at = new Date(Number(one.dataset.at));
      let form = one.dataset.form;
      if (form === "day" && DATE.format(at) === today) form = "time";
      else if ((form === "time" || form === "minute" || form === "milli") && DATE.format(at) !== today) form = "day";
      one.textContent = spelled(at, form);
      one.title = `${spelled(at, "full")} ${offset}`;
    }
  }
  localise(document);
  if ($("zone")) $("zone").textContent = `times local, ${offset}`;

  // --- requests ------------------------------------------------------------------------------------------------
  const csrf = () => document.querySelector('meta[name="csrf"]')?.content || "";
  async function send(path, body) {
    const headers = { "Content-Type": "application/json" };
    if (csrf()) headers["X-Holdfast-CSRF"] = csrf();
    const response = await fetch(path, { method: "POST", headers, body: body === undefined ? undefined : JSON.stringify(body) });
    const told = await response.json().catch(() => ({}));
    return { ok: response.ok, status: response.status, told };
  }
  async function part(address, kind, signal) {
    const response = await fetch(address, { headers: { "X-Holdfast-Part": kind }, signal });
    if (response.status === 401) location.reload();
    return { status: response.status, page: new DOMParser().parseFromString(await response.text(), "text/html") };
  }
  const reason = (told, status) => told.error ? `${told.error.message}. ${told.error.hint}` : `The server answered ${status}.`;

  // --- login ---------------------------------------------------------------------------------------------------
  const login = $("login");
  async function logIn(wish) {
    const { ok, status, told } = await send("/v1/login", wish).catch(() => ({ ok: false, status: 0, told: { error: { message: "The server is not there", hint: "Try again." } } }));
    if (ok) return location.reload();
    $("login-problem").textContent = reason(told, status);
    $("login-problem").hidden = false;
    $("token").focus();
  }
  if (login) {
    login.addEventListener("submit", (event) => { event.preventDefault(); logIn({ token: $("token").value.trim() }); });
    const code = /^#code=([0-9a-f]+)$/.exec(location.hash);
    if (code) {
      history.replaceState(null, "", location.pathname + location.search);
      logIn({ code: code[1] });
    }
    return;
  }
  $("logout")?.addEventListener("click", async () => { await send("/v1/logout"); location.reload(); });

  // --- changing the page in place: nothing moves that did not change ---------------------------------------------
  const keyOf = (node) => node.id || node.dataset?.key || "";
  function morph(old, fresh) {
    if (old.isEqualNode(fresh)) return;
    if (old.nodeName !== fresh.nodeName || (old.nodeType === 1 && keyOf(old) !== keyOf(fresh))) return old.replaceWith(fresh);
    if (old.nodeType !== 1) { old.data = fresh.data; return; }
    if (old === document.activeElement && old.matches("input, textarea, select")) return;
    if (old.matches("input, textarea") && old.value !== old.defaultValue) return;
    for (const { name } of [...old.attributes]) if (!fresh.hasAttribute(name) && !(name === "open" && old.matches("details"))) old.removeAttribute(name);
    for (const { name, value } of [...fresh.attributes]) if (old.getAttribute(name) !== value && !(name === "hidden" && old.hasAttribute("data-held-for"))) old.setAttribute(name, value);
    if (old.hasAttribute("data-held-for")) return;
    morphChildren(old, fresh);
  }
  function morphChildren(old, fresh) {
    const known = new Map([...old.childNodes].filter(keyOf).map((one) => [keyOf(one), one]));
    if (old.hasAttribute("data-hold") && known.size && !taking) hold(old, fresh, known);
    const keep = new Set([...fresh.childNodes].map(keyOf).filter(Boolean));
    let place = old.firstChild;
    for (const next of [...fresh.childNodes]) {
      const key = keyOf(next);
      while (place && keyOf(place) && !keep.has(keyOf(place))) { const gone = place; place = place.nextSibling; gone.remove(); }
      const match = key ? known.get(key) : place && !keyOf(place) && place.nodeName === next.nodeName ? place : null;
      if (!match) { old.insertBefore(next, place); continue; }
      if (match === place) place = place.nextSibling; else old.insertBefore(match, place);
      morph(match, next);
    }
    while (place) { const gone = place; place = place.nextSibling; if (!keep.has(keyOf(gone)) || !keyOf(gone)) gone.remove(); }
  }

  // --- new rows of a long list wait until the reader asks for them ------------------------------------------------
  let taking = false;
  function hold(old, fresh, known) {
    const rows = [...fresh.children], added = rows.filter((row) => !known.has(keyOf(row)));
    const bar = document.querySelector(`[data-held-for="${old.id}"]`);
    if (!bar || !added.length) { if (bar) bar.hidden = true; return; }
    for (const row of added) row.remove();
    for (const [key, row] of known) if (!rows.some((one) => keyOf(one) === key)) fresh.append(row.cloneNode(true));
    bar.hidden = false;
    bar.firstElementChild.textContent = added.length === 1 ? "Show 1 new" : `Show ${added.length} new`;
  }
  document.addEventListener("click", (event) => {
    const bar = event.target.closest("[data-held-for]");
    if (bar) { taking = true; bar.hidden = true; look().finally(() => { taking = false; }); }
  });

  // --- live: ask again while somebody looks; the pause grows with what a page costs --------------------------------
  const PAUSE_MS = 2000, SHARE = 40, PAUSE_MAX_MS = 15000;
  let timer = 0, asking = null, goodAt = Date.now(), isStill = false;
  async function look() {
    clearTimeout(timer);
    asking?.abort();
    const mine = asking = new AbortController(), began = performance.now();
    let pause = PAUSE_MS;
    try {
      const { status, page } = await part(location.pathname + location.search, "live", AbortSignal.any([mine.signal, AbortSignal.timeout(10000)]));
      if (mine.signal.aborted) return;
      if (status >= 500) throw new Error(status);
      localise(page);
      for (const id of ["menu", "serving", "main"]) if (page.getElementById(id)) morphChildren($(id), page.getElementById(id));
      document.title = page.title;
      told(Number(page.getElementById("stamp")?.dataset.at) || Date.now());
      pause = Math.min(PAUSE_MAX_MS, Math.max(PAUSE_MS, SHARE * (performance.now() - began)));
      document.dispatchEvent(new Event("holdfast:changed"));
    } catch (error) {
      if (mine.signal.aborted) return;
      still();
    }
    if (!document.hidden) timer = setTimeout(look, pause);
  }
  function told(at) {
    goodAt = Date.now();
    const stamp = $("stamp");
    stamp.classList.remove("still");
    stamp.querySelector("b").textContent = spelled(new Date(at), "time");
    stamp.querySelector(".live-word").textContent = "live";
    if (isStill) { isStill = false; $("said").textContent = "Live again."; root.classList.remove("frozen"); }
  }
  function still() {
    const stamp = $("stamp"), lost = Math.round((Date.now() - goodAt) / 1000);
    stamp.classList.add("still");
    stamp.querySelector(".live-word").textContent = `not live for ${lost} s`;
    if (!isStill) { isStill = true; $("said").textContent = "Not live: the server does not answer. What is shown was true then."; root.classList.add("frozen"); }
  }
  const isLive = $("stamp")?.querySelector("b");
  if (isLive) {
    $("stamp").querySelector(".live-word").textContent = "live";
    timer = setTimeout(look, PAUSE_MS);
    document.addEventListener("visibilitychange", () => { if (document.hidden) { clearTimeout(timer); asking?.abort(); } else look(); });
  }

  // --- dialogs: what would happen, then one button -----------------------------------------------------------------
  function opened(dialog) {
    document.body.append(dialog);
    dialog.addEventListener("close", () => { if (dialog.dataset.fetched) dialog.remove(); });
    dialog.showModal();
  }
  async function ask(link) {
    const { page } = await part(link.href, "dialog");
    const dialog = document.createElement("dialog");
    dialog.dataset.fetched = "yes";
    dialog.setAttribute("aria-labelledby", page.querySelector("h1, h2")?.id || "");
    localise(page);
    dialog.append(...page.getElementById("main").childNodes);
    opened(dialog);
    dialog.addEventListener("close", () => link.isConnected && link.focus());
  }
  async function act(button) {
    const box = button.closest("[data-acts], dialog, .act-box") || button.parentElement;
    const body = button.dataset.body ? JSON.parse(button.dataset.body) : undefined;
    for (const field of all("[data-field]", box)) if (field.value) body[field.dataset.field] = field.value;
    for (const one of all("button[data-act]", box)) one.disabled = true;
    const { ok, status, told } = await send(button.dataset.act, body).catch(() => ({ ok: false, status: 0, told: { error: { message: "The server is not there", hint: "Nothing is known to have changed." } } }));
    const outcome = box.querySelector("[data-outcome]");
    if (outcome) {
      outcome.hidden = false;
      outcome.className = ok ? "outcome done" : "outcome wrong";
      outcome.textContent = ok ? button.dataset.done : reason(told, status);
    }
    $("said").textContent = outcome ? outcome.textContent : "";
    for (const one of all("button[data-act]", box)) { one.disabled = false; one.hidden = ok && Boolean(one.closest("dialog")); }
    box.querySelector("[data-close]")?.focus();
    if (isLive) look();
  }
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[data-dialog]"), button = event.target.closest("button[data-act]");
    if (link && !event.ctrlKey && !event.metaKey && !event.shiftKey) { event.preventDefault(); ask(link); }
    else if (button) act(button);
    else if (event.target.closest("[data-close]")) { const dialog = event.target.closest("dialog"); if (dialog) dialog.close(); else history.back(); }
    else if (event.target.closest("[data-copy]")) copy(event.target.closest("[data-copy]"));
  });
  async function copy(button) {
    await navigator.clipboard.writeText($(button.dataset.copy).textContent);
    $("said").textContent = button.textContent = "Copied";
  }
  $("keys-button")?.addEventListener("click", () => $("keys").showModal());
  const menuButton = document.querySelector(".menu-button");
  menuButton?.addEventListener("click", () => menuButton.setAttribute("aria-expanded", String($("side").classList.toggle("open"))));

  // --- charts: what the table beneath says about the place under the pointer -------------------------------------------
  document.addEventListener("pointermove", (event) => {
    const area = event.target.closest?.("[data-chart] .area");
    for (const tip of all(".tip:not([hidden])")) if (tip.parentElement !== area) unread(tip.parentElement);
    if (area) readOut(area, event.clientX);
  });
  function unread(area) {
    area.querySelector(".tip").hidden = true;
    area.querySelector(".cross").setAttribute("visibility", "hidden");
  }
  function readOut(area, x) {
    const table = area.closest("[data-chart]").querySelector("table"), rows = all("tbody tr", table), box = area.getBoundingClientRect();
    const last = rows.length - 1, place = Math.max(0, Math.min(last, Math.round((x - box.left) / box.width * last)));
    const cells = rows[last - place].cells, names = table.tHead.rows[0].cells;
    const tip = area.querySelector(".tip"), cross = area.querySelector(".cross");
    tip.replaceChildren(...[...cells].map((cell, n) => Object.assign(document.createElement("div"), { textContent: n ? `${names[n].textContent} ${cell.textContent}` : cell.textContent })));
    tip.hidden = false;
    for (const end of ["x1", "x2"]) cross.setAttribute(end, 1000 * place / last);
    cross.setAttribute("visibility", "visible");
    const left = box.width * place / last;
    tip.style.left = `${left > box.width / 2 ? left - tip.offsetWidth - 8 : left + 8}px`;
  }

  // --- keys --------------------------------------------------------------------------------------------------------
  let pendingGo = 0;
  function walk(step) {
    const rows = all("[data-row]").filter((row) => row.offsetParent);
    const now = rows.findIndex((row) => row.contains(document.activeElement));
    const row = rows[Math.max(0, Math.min(rows.length - 1, now + step))];
    const stop = row?.querySelector("a, button, summary");
    if (stop) { stop.focus(); row.scrollIntoView({ block: "nearest" }); }
    else if (row) { row.tabIndex = -1; row.focus(); }
  }
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, textarea, select") || document.querySelector("dialog[open]")) return;
    if (pendingGo && Date.now() - pendingGo < 1500) {
      pendingGo = 0;
      const link = document.querySelector(`[data-go="${CSS.escape(event.key)}"]`);
      if (link) { event.preventDefault(); location.assign(link.href); }
    } else if (event.key === "g") pendingGo = Date.now();
    else if (event.key === "/") { event.preventDefault(); $("find").focus(); }
    else if (event.key === "?") $("keys").showModal();
    else if (event.key === "j" || event.key === "k") { event.preventDefault(); walk(event.key === "j" ? 1 : -1); }
  });
})();
