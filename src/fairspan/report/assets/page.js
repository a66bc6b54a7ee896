"use strict";
// A table that is wider than a narrow screen gets the names of its rows above their numbers.
(() => {
  const narrow = matchMedia("(max-width: 40rem)");
  const fit = () => {
    for (const box of document.querySelectorAll(".scroll:has(> table)")) {
      box.classList.remove("stacked");
      box.classList.toggle("stacked", narrow.matches && box.scrollWidth > box.clientWidth);
    }
  };
  addEventListener("resize", fit);
  document.addEventListener("toggle", fit, true);
  fit();
})();
// A click on a heading sorts the rows by its column, and another one turns them round.
(() => {
  const value = (row, place) => {
    const text = row.cells[place].textContent.trim();
    const number = Number.parseFloat(text.replaceAll("−", "-").replaceAll(",", ""));
    return Number.isNaN(number) ? text : number;
  };
  const compare = (a, b) =>
    typeof a === typeof b ? (typeof a === "number" ? a - b : a.localeCompare(b)) : typeof a === "number" ? -1 : 1;
  document.addEventListener("click", (event) => {
    const button = event.target.closest("thead button");
    if (!button) return;
    const heading = button.closest("th");
    const table = heading.closest("table");
    const turned = heading.getAttribute("aria-sort") === "ascending";
    const rows = [...table.querySelectorAll("tbody tr")];
    rows.sort((a, b) => compare(value(a, heading.cellIndex), value(b, heading.cellIndex)) * (turned ? -1 : 1));
    for (const other of table.querySelectorAll("[aria-sort]")) other.removeAttribute("aria-sort");
    heading.setAttribute("aria-sort", turned ? "descending" : "ascending");
    // Rows that belonged together may stand apart now: each says its names.
    for (const name of table.querySelectorAll(".again")) name.classList.remove("again");
    table.tBodies[0].append(...rows);
  });
})();
// The page carries its files compressed.
(() => {
  const save = async (button) => {
    const packed = document.querySelector(`[data-file="${button.dataset.download}"]`).textContent;
    const bytes = Uint8Array.from(atob(packed), (sign) => sign.charCodeAt(0));
    const plain = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    const link = document.createElement("a");
    link.href = URL.createObjectURL(await new Response(plain).blob());
    link.download = button.dataset.name;
    link.click();
    URL.revokeObjectURL(link.href);
  };
  for (const button of document.querySelectorAll("[data-download]")) button.addEventListener("click", () => save(button));
})();
// Paper shows what is closed on a screen.
(() => {
  let closed = [];
  addEventListener("beforeprint", () => {
    closed = [...document.querySelectorAll("details:not([open])")];
    for (const part of closed) part.open = true;
  });
  addEventListener("afterprint", () => {
    for (const part of closed) part.open = false;
  });
})();
