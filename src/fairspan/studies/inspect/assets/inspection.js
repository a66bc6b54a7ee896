"use strict";
(() => {
  const data = JSON.parse(document.getElementById("inspection").textContent);
  const all = (name) => [...document.querySelectorAll(`[${name}]`)];
  const rows = all("data-row"), segments = all("data-segment");
  const part = (row, name) => row.querySelector(`[${name}]`);
  const minus = (text) => text.replace("-", "−");
  const percent = (value) => (value === null ? "–" : minus(`${(100 * value).toFixed(1)}\u00a0%`));
  const decimal = (value) => (value === null ? "–" : minus(value.toFixed(3)));
  const heat = (share, fair) => (share === null ? 0.5 : Math.min(1, (share / fair - data.low) / (data.high - data.low)));
  const width = (share) => `${(100 * (share ?? 0)) / data.top}%`;
  let chosen = 0;

  const show = (number) => {
    chosen = number;
    const now = data.treatments[number], before = data.treatments[0];
    document.querySelector("[data-name]").textContent = now.treatment;
    document.querySelector("[data-finding]").textContent = now.finding;
    document.querySelector("[data-fair]").textContent = percent(now.fair);
    document.querySelector("[data-bars]").style.setProperty("--fair", width(now.fair));
    data.segments.forEach(({ runs }, place) => {
      const share = now.share[place], row = rows[place], fill = part(row, "data-fill");
      fill.style.width = width(share);
      fill.style.setProperty("--v", heat(share, now.fair));
      segments[place].style.setProperty("--v", heat(share, now.fair));
      part(segments[place], "data-chip").textContent = percent(share);
      part(row, "data-share").textContent = percent(share);
      part(row, "data-cosine").textContent = decimal(now.representation[place]);
      const mark = part(row, "data-before");
      mark.hidden = number === 0 || before.share[place] === null;
      mark.style.left = width(before.share[place]);
      for (const one of [row, segments[place]]) one.classList.toggle("gone", now.status[place] === "never seen");
      part(segments[place], "data-meta").textContent = now.meta[place];
      const texts = segments[place].querySelectorAll("[data-run]"), cuts = segments[place].querySelectorAll("[data-mark]");
      runs.forEach(([seen, marks], run) => {
        texts[run].classList.toggle("unseen", !seen[number]);
        cuts[run].textContent = marks[number];
        cuts[run].hidden = !marks[number];
      });
    });
  };
  for (const input of document.querySelectorAll("input[name=treatment]")) {
    input.addEventListener("change", () => show(Number(input.value)));
    // A page that is loaded again may come back with another choice.
    if (input.checked) show(Number(input.value));
  }

  const tip = document.getElementById("tip");
  const words = (place) => data.treatments.map((one) => {
    const more = [`share ${percent(one.share[place])}`, `cosine ${decimal(one.representation[place])}`];
    if (one.retention.length) more.push(`retention ${decimal(one.retention[place])}`);
    return `${one.treatment}: ${more.join(", ")}`;
  });
  const describe = (place) => {
    const { number, label } = data.segments[place], status = data.treatments[chosen].status[place];
    return [`${number} ${label}${status === "seen" ? "" : ` (${status})`}`, ...words(place)].join("\n");
  };
  const put = (x, y) => {
    const box = tip.getBoundingClientRect();
    tip.style.left = `${Math.max(8, Math.min(x + 14, innerWidth - box.width - 8))}px`;
    tip.style.top = `${y + 18 + box.height > innerHeight ? Math.max(8, y - box.height - 12) : y + 18}px`;
  };
  const light = (place, on) => {
    rows[place].classList.toggle("on", on);
    segments[place].classList.toggle("on", on);
  };
  const open = (place, x, y) => { tip.textContent = describe(place); tip.hidden = false; put(x, y); light(place, true); };
  const close = (place) => { tip.hidden = true; light(place, false); };
  for (const list of [rows, segments]) {
    list.forEach((element, place) => {
      element.addEventListener("pointermove", (event) => event.pointerType === "mouse" && open(place, event.clientX, event.clientY));
      element.addEventListener("pointerleave", () => close(place));
      element.addEventListener("focus", () => {
        if (!element.matches(":focus-visible")) return;
        const box = element.getBoundingClientRect();
        open(place, box.left, Math.max(0, Math.min(box.bottom - 12, innerHeight - 120)));
      });
      element.addEventListener("blur", () => close(place));
    });
  }
  document.addEventListener("keydown", (event) => { if (event.key === "Escape") tip.hidden = true; });
})();
