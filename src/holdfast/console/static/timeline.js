"use strict";
// Walking a session's timeline: the arrow keys, Home and End go from step to step, E to the next trouble. The address
// keeps the step (`#at-14`). A live update writes the page anew, so the step is marked again after each.
(() => {
  const steps = () => [...document.querySelectorAll("[data-step]")];
  const usual = () => document.querySelector(".step.usual")?.id || "at-0";
  const current = () => {
    const id = location.hash.slice(1);
    return /^at-\d+$/.test(id) && document.getElementById(id) ? id : usual();
  };

  function show() {
    const id = current(), all = steps();
    for (const one of all) {
      const isHere = one.dataset.step === id.slice(3);
      if (isHere) one.setAttribute("aria-current", "step"); else one.removeAttribute("aria-current");
      one.setAttribute("tabindex", isHere ? "0" : "-1");
    }
    for (const one of document.querySelectorAll(".step")) one.classList.toggle("here", one.id === id);
    const words = document.getElementById("tl-at");
    if (words) words.textContent = `step ${Number(id.slice(3)) + 1} of ${all.length}`;
  }

  function go(n, focus) {
    const all = steps(), target = all[Math.max(0, Math.min(all.length - 1, n))];
    if (!target) return;
    history.replaceState(history.state, "", `#at-${target.dataset.step}`);  // leaves the page where it is
    show();
    if (focus) target.focus({ preventScroll: true });
    target.querySelector(".hit").scrollIntoView({ block: "nearest", inline: "nearest" });
  }

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
    if (event.target.closest("input, textarea, select, pre") || !document.querySelector("[data-timeline]")) return;
    const here = Number(current().slice(3)), last = steps().length - 1;
    const trouble = () => {
      const found = steps().filter((one) => one.classList.contains("trouble")).map((one) => Number(one.dataset.step));
      return found.find((n) => n > here) ?? found[0] ?? here;
    };
    const target = { ArrowLeft: here - 1, ArrowRight: here + 1, Home: 0, End: last }[event.key];
    if (target === undefined && event.key !== "e" && event.key !== "E") return;
    event.preventDefault();
    go(target ?? trouble(), Boolean(document.activeElement?.closest("[data-timeline]")));
  });
  document.addEventListener("click", (event) => {
    const link = event.target.closest('a[href^="#at-"]');
    if (!link) return;
    event.preventDefault();
    go(Number(link.getAttribute("href").slice(4)), link.hasAttribute("data-step"));
  });
  addEventListener("hashchange", show);
  document.addEventListener("holdfast:changed", show);
  show();
})();
