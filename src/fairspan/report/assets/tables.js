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
