// Draws the charts of a page. `vegaEmbed` is in the bundle that these lines become a part of.
const panelWidth = 260;
const axisWidth = 75;
const widest = 620;
const draw = async (figure) => {
  const specification = JSON.parse(document.querySelector(`script[data-of="${figure.dataset.chart}"]`).textContent);
  const room = figure.clientWidth;
  figure.dataset.drawn = room;
  const panels = specification.concat;
  specification.columns = Math.max(1, Math.min(specification.columns, Math.floor(room / panelWidth)));
  for (const panel of panels) panel.width = Math.min(widest, room / specification.columns - axisWidth);
  // The page's policy lets no text become code, so expressions are interpreted.
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  const options = { actions: false, ast: true, renderer: "svg", tooltip: { theme: dark ? "dark" : "light" } };
  const box = document.createElement("div");
  figure.replaceChildren(box);
  await vegaEmbed(box, specification, options);
};
const watch = new ResizeObserver((entries) => {
  for (const { target } of entries) {
    if (target.clientWidth && Number(target.dataset.drawn) !== target.clientWidth) draw(target);
  }
});
for (const figure of document.querySelectorAll("[data-chart]")) watch.observe(figure);
