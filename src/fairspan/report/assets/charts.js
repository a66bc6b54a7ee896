"use strict";
// Places what the page's data say: every number, word and tick comes from there.
(() => {
  const SVG = "http://www.w3.org/2000/svg";
  const LEFT = 44, RIGHT = 8, TOP = 30;
  const COLOURS = 7;
  const tip = document.getElementById("tip");

  const make = (parent, tag, attributes = {}, text = null) => {
    const node = document.createElementNS(SVG, tag);
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    if (text !== null) node.textContent = text;
    parent.append(node);
    return node;
  };
  const colour = (series) => (series.number < 0 ? "var(--soft)" : `var(--s${series.number % COLOURS})`);
  const y = (chart, value) => {
    const [low, high] = chart.domain;
    return TOP + ((high - value) / (high - low)) * (chart.height - TOP - chart.bottom);
  };

  const element = (parent, className, text = "", style = "") => {
    const node = document.createElement("div");
    node.className = className;
    node.textContent = text;
    node.style.cssText = style;
    parent.append(node);
    return node;
  };
  // A label that is too long for its place is cut.
  const fit = (node, room) => {
    const [text, length] = [[...node.textContent], node.getComputedTextLength()];
    if (length > room) node.textContent = `${text.slice(0, Math.max(1, Math.floor((text.length * room) / length) - 1)).join("")}…`;
  };

  // One tooltip shows the mark under the pointer or the keyboard focus.
  const tell = (node, text) => {
    node.setAttribute("aria-label", text.replaceAll("\n", "; "));
    const show = () => {
      tip.textContent = text;
      tip.hidden = false;
      const box = node.getBoundingClientRect();
      const own = tip.getBoundingClientRect();
      const left = Math.min(Math.max(8, box.left + box.width / 2 - own.width / 2), innerWidth - own.width - 8);
      const above = box.top - own.height - 8;
      tip.style.left = `${left}px`;
      tip.style.top = `${above > 8 ? above : box.bottom + 8}px`;
    };
    const hide = () => { tip.hidden = true; };
    node.onmouseenter = node.onfocus = show;
    node.onmouseleave = node.onblur = hide;
  };
  document.addEventListener("keydown", (event) => { if (event.key === "Escape") tip.hidden = true; });

  // One stop for the tab key in each chart; the arrows go from mark to mark.
  const makeReachable = (svg) => {
    const marks = [...svg.querySelectorAll("[data-mark]")];
    marks.forEach((mark, place) => {
      mark.setAttribute("tabindex", place === 0 ? "0" : "-1");
      mark.setAttribute("role", "img");
      mark.onkeydown = (event) => {
        const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
        if (step === undefined) return;
        event.preventDefault();
        const next = marks[(place + step + marks.length) % marks.length];
        marks.forEach((one) => one.setAttribute("tabindex", one === next ? "0" : "-1"));
        next.focus();
      };
    });
  };

  const drawFrame = (svg, chart) => {
    const axis = make(svg, "g", { class: "axis", "aria-hidden": "true" });
    if (chart.band) {
      const [low, high] = chart.band.map((value) => y(chart, value));
      make(axis, "rect", { class: "band", x: LEFT, width: chart.width - LEFT - RIGHT, y: high, height: low - high });
    }
    for (const tick of chart.ticks) {
      const at = y(chart, tick.v);
      make(axis, "line", { class: tick.v === 0 ? "zero" : "grid", x1: LEFT, x2: chart.width - RIGHT, y1: at, y2: at });
      make(axis, "text", { x: LEFT - 6, y: at + 4, "text-anchor": "end" }, tick.shown);
    }
    make(axis, "text", { x: LEFT + (chart.width - LEFT - RIGHT) / 2, y: chart.height - 6, "text-anchor": "middle" },
      chart.x_label);
    if (chart.y_label !== chart.title) make(axis, "text", { x: 0, y: 12 }, chart.y_label);
    if (chart.reference !== null) {
      const at = y(chart, chart.reference);
      make(axis, "line", { class: "ghost", x1: LEFT, x2: chart.width - RIGHT, y1: at, y2: at });
    }
    return axis;
  };

  const whisker = (parent, chart, point, x, attributes) => {
    if (point.lo === null || point.hi === null) return;
    const [low, high] = [y(chart, point.lo), y(chart, point.hi)];
    make(parent, "path", { class: "whisker", ...attributes, d: `M${x - 3} ${high}h6M${x} ${high}V${low}M${x - 3} ${low}h6` });
  };

  // A chart without the chosen treatment shows all that it has.
  const shownOf = (chart, chosen) => {
    const measured = chart.series.some((one) => one.number === chosen);
    return chart.series.filter((one) => !measured || one.number < 0 || one.number === chosen);
  };

  const drawBars = (svg, chart, chosen) => {
    const axis = drawFrame(svg, chart);
    const count = chart.labels.length;
    const slot = (chart.width - LEFT - RIGHT) / count;
    const shown = shownOf(chart, chosen);
    const first = chart.series[0];
    const width = (slot * 0.72) / Math.max(1, shown.length);
    const longest = Math.max(0, ...chart.labels.map((label) => label.length));
    const every = longest > 5 ? 1 : Math.max(1, Math.ceil((longest * 6.5 + 4) / slot));
    chart.labels.forEach((label, place) => {
      const left = LEFT + slot * place;
      const under = chart.height - chart.bottom;
      const middle = { x: left + slot / 2, "text-anchor": "middle" };
      if (place % every === 0) fit(make(axis, "text", { ...middle, y: under + 15 }, label), slot * every - 2);
      if (chart.strip.length) {
        const { v: size, shown: written } = chart.strip[place];
        const length = slot * 0.72 * (size / chart.strip_most);
        make(axis, "rect", { class: "tokens", x: left + slot / 2 - length / 2, width: length, y: under + 21, height: 14,
          "data-tokens": size });
        if (place % every === 0) make(axis, "text", { ...middle, y: under + 32 }, written);
        if (place === 0) make(axis, "text", { x: LEFT - 6, y: under + 32, "text-anchor": "end" }, "tokens");
      }
    });
    const bars = make(svg, "g");
    const ghosts = make(svg, "g", { "aria-hidden": "true" });
    const values = make(svg, "g", { "aria-hidden": "true" });
    shown.forEach((series, row) => {
      series.points.forEach((point, place) => {
        if (point === null) return;
        const left = LEFT + slot * place + slot * 0.14 + width * row;
        const [foot, top] = [y(chart, 0), y(chart, point.v)];
        const group = make(bars, "g", { "data-mark": "", "data-series": series.name, "data-place": place,
          "data-value": point.v });
        if (chart.dots) {
          whisker(group, chart, point, left + width / 2, { style: `stroke: ${colour(series)}` });
          make(group, "circle", { class: "mark", cx: left + width / 2, cy: top, r: 4, fill: colour(series) });
        } else {
          make(group, "rect", { class: "mark", x: left + width * 0.03, width: width * 0.94, y: Math.min(foot, top),
            height: Math.max(0.5, Math.abs(foot - top)), fill: colour(series), rx: 1.5 });
          whisker(group, chart, point, left + width / 2, {});
        }
        tell(group, point.told);
        // Below the axis, the number stands below the bar.
        const down = point.v < 0;
        let over = y(chart, down ? Math.min(point.lo ?? point.v, point.v) : Math.max(point.hi ?? point.v, point.v));
        const before = shown.length > 1 || series === first ? null : first.points[place] ?? null;
        if (before !== null) {
          const at = y(chart, before.v);
          make(ghosts, "line", { class: "ghost", x1: left - slot * 0.06, x2: left + width + slot * 0.06, y1: at, y2: at,
            "data-before": before.v });
          if (!down && at > over - 18 && at < over) over = at;
          if (down && at < over + 18 && at > over) over = at;
        }
        if (shown.length === 1 || width > 30) {
          make(values, "text", { class: "value", x: left + width / 2, y: down ? over + 13 : over - 5,
            "text-anchor": "middle" }, point.shown);
        }
      });
    });
  };

  const drawLines = (svg, chart, chosen) => {
    const axis = drawFrame(svg, chart);
    const x = (place) => LEFT + 14 + chart.places[place] * (chart.width - LEFT - RIGHT - 28);
    const wide = 12 + 6.5 * Math.max(...chart.labels.map((label) => label.length));
    const every = Math.max(1, Math.ceil((chart.labels.length * wide) / (chart.width - LEFT - RIGHT)));
    chart.labels.forEach((label, place) => {
      if (place % every) return;
      make(axis, "text", { x: x(place), y: chart.height - chart.bottom + 15, "text-anchor": "middle" }, label);
    });
    if (chart.edge) {
      const at = LEFT + 14 + chart.edge[0] * (chart.width - LEFT - RIGHT - 28);
      make(axis, "line", { class: "ghost", "stroke-dasharray": "2 3", x1: at, x2: at, y1: y(chart, chart.domain[1]), y2: y(chart, chart.domain[0]) });
      make(axis, "text", { x: at, y: TOP - 5, "text-anchor": chart.edge[0] < 0.5 ? "start" : "end" }, chart.edge[1]);
    }
    const measured = chart.series.some((series) => series.number === chosen);
    const treated = Math.max(...chart.series.map((series) => series.number));
    for (const series of chart.series) {
      // A little apart, so that intervals can be told from each other.
      const apart = (series.number < 0 ? 0 : series.number - treated / 2) * (series.dashed ? 0 : 3);
      const faded = measured && series.number >= 0 && series.number !== chosen;
      const layer = make(svg, "g", { opacity: faded ? 0.25 : 1 });
      const known = series.points.map((point, place) => [point, place]).filter(([point]) => point !== null);
      // Nothing is drawn across an unknown point.
      const path = known.map(([point, place], k) =>
        `${k && known[k - 1][1] === place - 1 ? "L" : "M"}${x(place) + apart} ${y(chart, point.v)}`).join("");
      make(layer, "path", { d: path, fill: "none", stroke: colour(series), "stroke-width": 2,
        "stroke-dasharray": series.dashed ? "5 4" : "none" });
      for (const [point, place] of known) {
        const mark = make(layer, "g", { "data-mark": "", "data-series": series.name, "data-place": place,
          "data-value": point.v });
        whisker(mark, chart, point, x(place) + apart, { style: `stroke: ${colour(series)}` });
        make(mark, "circle", { class: "mark", cx: x(place) + apart, cy: y(chart, point.v), r: series.dashed ? 2.5 : 4,
          fill: colour(series) });
        tell(mark, point.told);
      }
    }
  };

  // Horizontal bars are no SVG: their labels may take several lines.
  const drawRows = (parent, chart) => {
    const [low, high] = chart.domain;
    const at = (value) => (100 * (value - low)) / (high - low);
    const [series] = chart.series;
    chart.labels.forEach((label, place) => {
      const point = series.points[place];
      element(parent, "row-label", label);
      const track = element(parent, "row-track");
      const numbers = element(parent, "row-number", point === null ? "–" : point.shown);
      if (point !== null) {
        const mark = element(track, "mark", "",
          `left:${at(Math.min(0, point.v))}%;width:${at(Math.max(0, point.v)) - at(Math.min(0, point.v))}%;background:${colour(series)}`);
        Object.assign(mark.dataset, { mark: "", series: series.name, place, value: point.v });
        if (point.lo !== null && point.hi !== null) {
          element(track, "row-reach", "", `left:${at(point.lo)}%;width:${at(point.hi) - at(point.lo)}%`);
        }
        if (point.note) element(numbers, "soft", point.note);
        tell(mark, point.told);
      }
      if (low < 0) element(track, "row-zero", "", `left:${at(0)}%`);
      const before = chart.before[place] ?? null;
      if (before !== null) element(track, "row-before", "", `left:${at(before.v)}%`).dataset.before = before.v;
      if (chart.reference !== null) element(track, "row-reference", "", `left:${at(chart.reference)}%`);
    });
    element(parent, "row-axis", chart.y_label);
  };

  const addLegend = (figure, chart, chosen) => {
    const list = document.createElement("ul");
    list.className = "legend";
    const entry = (style, text) => {
      const item = document.createElement("li");
      const swatch = document.createElement("span");
      swatch.className = "swatch";
      swatch.style.cssText = style;
      item.append(swatch, text);
      list.append(item);
    };
    const dashed = (text) => entry("border-top:2px dashed var(--ink);border-radius:0;height:0;width:1.5rem", text);
    if (chart.kind === "rows") {
      if (chart.before.length) entry("background:var(--ink);width:3px", chart.first);
      if (chart.reference !== null) dashed(chart.dashes);
      if (list.children.length) figure.append(list);
      return;
    }
    if (chart.kind === "bars" && shownOf(chart, chosen).length === 1) {
      const [first, now] = [chart.series[0], shownOf(chart, chosen)[0]];
      if (now === first) return;
      entry(`background:${colour(now)}`, now.name);
      dashed(first.name);
      figure.append(list);
      return;
    }
    const solid = chart.series.filter((series) => !series.dashed);
    for (const series of solid) entry(`background:${colour(series)}`, series.name);
    if (solid.length < chart.series.length || chart.reference !== null) dashed(chart.dashes);
    figure.append(list);
  };

  const charts = [...document.querySelectorAll("[data-chart]")].map((figure) => {
    const data = document.querySelector(`script[data-of="${figure.dataset.chart}"]`);
    return { figure, chart: JSON.parse(data.textContent), run: figure.dataset.chart.split("-")[0], drawn: 0 };
  });

  const draw = (one, chosen) => {
    const { figure, chart } = one;
    figure.querySelectorAll(".drawn, .legend").forEach((node) => node.remove());
    one.drawn = figure.clientWidth;
    chart.width = Math.max(220, figure.querySelector("figcaption").clientWidth);
    chart.height = chart.width > 520 ? 320 : 250;
    chart.bottom = chart.strip.length ? 60 : 40;
    const named = { role: "group", "aria-label": `${chart.title}: ${chart.y_label} by ${chart.x_label}` };
    const drawn = chart.kind === "rows" ? element(figure, "drawn rows")
      : make(figure, "svg", { class: "drawn", viewBox: `0 0 ${chart.width} ${chart.height}` });
    for (const [name, value] of Object.entries(named)) drawn.setAttribute(name, value);
    ({ bars: drawBars, lines: drawLines, rows: drawRows })[chart.kind](drawn, chart, chosen);
    if (chart.kind === "bars" && drawn.querySelector("[data-mark]") === null) {
      make(drawn, "text", { x: chart.width / 2, y: chart.height / 2, "text-anchor": "middle" }, "not measured");
    }
    makeReachable(drawn);
    addLegend(figure, chart, chosen);
  };

  const valueOf = (value) => (value === "all" ? "all" : Number(value));
  const choose = (run, value) => {
    const chosen = valueOf(value);
    charts.filter((one) => one.run === run).forEach((one) => draw(one, chosen));
  };

  const chosenOf = (run) => document.querySelector(`input[name="switch${run}"]:checked`)?.value ?? "0";
  const runs = [...document.querySelectorAll("[data-run]")].map((node) => node.dataset.run);
  for (const run of runs) {
    choose(run, chosenOf(run));
    document.querySelector(`[data-switch="${run}"]`)?.addEventListener("change", (event) => {
      choose(run, event.target.value);
    });
  }
  // Letters keep their size: a chart whose place has another width is drawn anew.
  const watched = new ResizeObserver((entries) => {
    for (const { target } of entries) {
      const one = charts.find(({ figure }) => figure === target);
      if (Math.abs(one.drawn - target.clientWidth) > 4) draw(one, valueOf(chosenOf(one.run)));
    }
  });
  charts.forEach(({ figure }) => watched.observe(figure));
  // Paper has no switch: everything is printed side by side, and every table is open.
  addEventListener("beforeprint", () => {
    runs.forEach((run) => choose(run, "all"));
    document.querySelectorAll("details").forEach((one) => { one.open = true; });
  });
  addEventListener("afterprint", () => { runs.forEach((run) => choose(run, chosenOf(run))); });

  document.querySelectorAll("[data-download]").forEach((button) => {
    button.addEventListener("click", async () => {
      const packed = document.querySelector(`script[data-file="${button.dataset.download}"]`).textContent;
      const bytes = Uint8Array.from(atob(packed), (character) => character.charCodeAt(0));
      const plain = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
      const link = document.createElement("a");
      link.href = URL.createObjectURL(await new Response(plain).blob());
      link.download = button.dataset.name;
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
    });
  });
})();
