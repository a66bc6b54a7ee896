// Draws the charts of a page. `vegaEmbed` is in the bundle that these lines become a part of.
const widest = 620;
// Pixels that a panel needs, and those of them that are left of its marks.
const roomOf = (panel) => (isBars(panel) ? 420 : 260);
const leftOf = (panel, width) => (isBars(panel) ? labelsOf(panel, width) + 20 : 75);
const isBars = (panel) => panel.layer[0].mark.type === "bar";
// The labels of bars take up to two fifths.
const labelsOf = (panel, width) => {
  const limit = Math.min(240, 0.4 * width);
  for (const { encoding } of panel.layer) if (encoding?.y?.axis) encoding.y.axis.labelLimit = limit;
  return limit;
};
// As many names of a legend side by side as fit.
const fitLegend = (panel, room) => {
  for (const channel of panel.layer.flatMap(({ encoding }) => Object.values(encoding ?? {}))) {
    if (!channel.legend) continue;
    const longest = Math.max(...channel.scale.domain.map((name) => name.length));
    channel.legend.columns = Math.max(1, Math.min(3, Math.floor(room / (40 + Math.min(240, 7 * longest)))));
  }
};
const draw = async (figure) => {
  const specification = JSON.parse(document.querySelector(`script[data-of="${figure.dataset.chart}"]`).textContent);
  const room = figure.clientWidth;
  figure.dataset.drawn = room;
  const panels = specification.concat;
  const columns = Math.max(1, Math.min(specification.columns, Math.floor(room / roomOf(panels[0]))));
  specification.columns = columns;
  if (specification.title) specification.title.limit = room;
  for (const panel of panels) {
    panel.width = Math.min(widest, room / columns - leftOf(panel, room / columns));
    panel.title = { text: panel.title, limit: room / columns };
    fitLegend(panel, room);
  }
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
