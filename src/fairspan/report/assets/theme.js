"use strict";
(() => {
  const names = { auto: "as the system", light: "light", dark: "dark" };
  const order = Object.keys(names);
  const root = document.documentElement;
  const button = document.querySelector("[data-theme-switch]");
  // A page that is opened from disk may have no storage.
  const remembered = () => { try { return localStorage.getItem("fairspan-theme"); } catch { return null; } };
  const remember = (theme) => { try { localStorage.setItem("fairspan-theme", theme); } catch { /* as above */ } };
  const show = (theme) => {
    root.dataset.theme = theme;
    button.textContent = `Theme: ${names[theme]}`;
  };
  show(order.includes(remembered()) ? remembered() : "auto");
  button.addEventListener("click", () => {
    const next = order[(order.indexOf(root.dataset.theme) + 1) % order.length];
    show(next);
    remember(next);
  });
})();
