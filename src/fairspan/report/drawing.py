"""Charts drawn by altair: one figure for notebooks, files and pages."""

from __future__ import annotations

import warnings
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairspan.errors import FairspanError, MissingExtra
from fairspan.report.chart import Chart
from fairspan.report.cleaning import cleaned
from fairspan.report.frames import to_records
from fairspan.report.text import number, with_ends

if TYPE_CHECKING:
    import altair as alt
    import polars as pl

FORMATS = (".png", ".svg", ".pdf")
# Okabe and Ito's colours, which stay apart under colour blindness; grey is for the plain model.
COLOURS = ("#8a8a8a", "#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00")
SHAPES = ("circle", "square", "triangle-up", "diamond", "triangle-down", "cross", "triangle-right")
DASHES = ([1, 0], [6, 2], [2, 2], [8, 2, 2, 2], [4, 4], [1, 2], [10, 3])
INK = "#333333"
MOST_ROWS = 100
"""Horizontal bars that a picture can show."""
# Pixels: of all panels side by side, of one panel's axis, of heights.
_WIDEST = 960
_AXIS = 75
_HEIGHT = 210
_ROW_HEIGHT = 26
_ROW_WIDTH = 300
_LONGEST_LABEL = 240
_MOST_BANDS = 3


def can_draw() -> bool:
    """Whether charts can be drawn here."""
    return find_spec("altair") is not None and find_spec("vl_convert") is not None


def require_drawing(file: Path | None = None) -> None:
    """Raise at once if a picture could not be drawn into that file later on."""
    if file is not None and file.suffix.lower() not in FORMATS:
        raise FairspanError(f"a picture is one of {', '.join(FORMATS)}, got {file.name!r}.")
    if not can_draw():
        raise MissingExtra("a picture needs altair: pip install 'fairspan[report]'.")


def draw(chart: Chart) -> alt.ConcatChart:
    """The figure of a chart: its panels side by side, with one legend."""
    require_drawing()
    import altair as alt

    chart = cleaned(chart)
    panels = chart.panels()
    # Three in a row; two if there are four, so that none is alone in the last row.
    most = 2 if chart.kind == "rows" or len(panels) == 4 else 3
    across = min(len(panels), most)
    width = (_WIDEST if across > 1 else _WIDEST * 2 / 3) / across - _AXIS
    if chart.kind == "rows":
        width = _ROW_WIDTH
    drawn = [_panel(chart, title, rows).properties(width=width) for title, rows in panels]
    title = alt.TitleParams(chart.title, subtitle=chart.subtitle)
    with warnings.catch_warnings():
        # All panels share the one choice in the legend.
        warnings.filterwarnings("ignore", "Automatically deduplicated selection parameter")
        figure = alt.concat(*drawn, columns=across, title=title, description=_description(chart))
    styled: alt.ConcatChart = figure.configure(**_house_style(INK, "sans-serif"))
    return styled


def figure_bytes(figure: alt.ConcatChart, kind: str = "svg") -> bytes:
    """A figure as PNG, SVG or PDF."""
    import vl_convert

    # Tests validate what is drawn, which takes as long as drawing it.
    specification = figure.to_json(validate=False)
    if kind == "png":
        return bytes(vl_convert.vegalite_to_png(specification, _vega_lite(), scale=2))
    if kind == "pdf":
        return bytes(vl_convert.vegalite_to_pdf(specification, _vega_lite()))
    return str(vl_convert.vegalite_to_svg(specification, _vega_lite())).encode()


def page_chart(chart: Chart, *, titled: bool) -> dict[str, Any]:
    """The specification of a chart for a page, whose colours of text follow its theme."""
    figure = draw(chart).configure(**_house_style("currentColor", "system-ui, sans-serif"))
    specification: dict[str, Any] = figure.to_dict(validate=False)
    if not titled:
        del specification["title"]
    return specification


@lru_cache(maxsize=1)
def page_script(lines: str) -> str:
    """Vega with all that it needs, and lines of JavaScript that draw the charts of a page by it."""
    import vl_convert

    return str(vl_convert.javascript_bundle(lines, _vega_lite()))


def _vega_lite() -> str:
    """The version of Vega-Lite that altair writes, such as v6.1."""
    import altair

    return ".".join(altair.SCHEMA_VERSION.split(".")[:2])


def _panel(chart: Chart, title: str, rows: pl.DataFrame) -> alt.LayerChart:
    """One pair of axes with its marks."""
    import altair as alt

    base = alt.Chart().encode(
        color=_by_series(alt.Color, chart, COLOURS),
        tooltip=[
            alt.Tooltip("series:N", title=chart.by),
            alt.Tooltip("label:N", title=chart.x_title or chart.x),
            alt.Tooltip("written:N", title=_y_title(chart, title)),
            *(alt.Tooltip(f"{column}:N", title=words) for column, words in chart.told),
        ],
    )
    if chart.kind == "rows":
        layers = _bars(chart, title, rows, base)
    elif chart.kind == "dots":
        layers = _dots(chart, title, rows, base)
    else:
        layers = _lines(chart, title, rows, base)
    if len(chart.names) > 1 and chart.kind != "rows":
        chosen = alt.selection_point(name="chosen", fields=["series"], bind="legend")
        faded = alt.when(chosen).then(alt.value(1)).otherwise(alt.value(0.15))
        layers = [layer.encode(opacity=faded) for layer in layers]
        layers[0] = layers[0].add_params(chosen)
    height = _height(chart, rows)
    data = alt.InlineData(_records(chart, rows))
    panel = alt.LayerChart(layer=[*layers, *_rules(chart)], data=data)
    # A free panel has its title at its axis.
    return panel.properties(title="" if chart.free else title, height=height)


def _height(chart: Chart, rows: pl.DataFrame) -> int:
    """Pixels of a panel."""
    if chart.kind != "rows":
        return _HEIGHT
    count = rows[chart.x].n_unique()
    if count > MOST_ROWS:
        raise FairspanError(
            f"a picture shows at most {MOST_ROWS} rows, and this one would have {count}."
        )
    return _ROW_HEIGHT * count


def _records(chart: Chart, rows: pl.DataFrame) -> list[dict[str, Any]]:
    """What marks are placed by, under the same names in every chart, and what they tell."""
    low, high = chart.ends
    records = []
    for row in to_records(rows):
        ends = (row[chart.y], row.get(low), row.get(high))
        record = {
            "series": str(row[chart.by]),
            "place": str(row[chart.x]) if chart.scale == "names" else row[chart.x],
            "label": str(row[chart.label or chart.x]),
            **dict(zip(("estimate", "low", "high"), ends, strict=True)),
            "written": with_ends(*ends, form=chart.form),
        }
        record |= {column: row[column] for column, _ in chart.told}
        if chart.note:
            record["note"] = row[chart.note]
        records.append(record)
    return records


def _dots(chart: Chart, title: str, rows: pl.DataFrame, base: alt.Chart) -> list[alt.Chart]:
    """Points side by side, with their intervals as bars."""
    import altair as alt

    y, low = _numbers(chart, title, rows)
    placed = base.encode(x=_places(chart, rows), xOffset=alt.XOffset("series:N", sort=chart.names))
    intervals = placed.mark_rule(size=1.6).encode(y=low, y2="high:Q")
    points = placed.mark_point(filled=True, size=60)
    return [
        intervals.transform_filter("isValid(datum.low)"),
        points.encode(y=y, shape=_by_series(alt.Shape, chart, SHAPES)),
    ]


def _lines(chart: Chart, title: str, rows: pl.DataFrame, base: alt.Chart) -> list[alt.Chart]:
    """Points that are connected, with their intervals as bands or bars."""
    import altair as alt

    y, low = _numbers(chart, title, rows)
    placed = base.encode(x=_places(chart, rows))
    # More bands than a few hide each other.
    if len(chart.names) > _MOST_BANDS:
        intervals = placed.mark_rule(size=1.2, strokeOpacity=0.5)
    else:
        intervals = placed.mark_area(fillOpacity=0.13)
    lines = placed.mark_line(size=1.8)
    points = placed.mark_point(filled=True, size=50)
    return [
        intervals.encode(y=low, y2="high:Q").transform_filter("isValid(datum.low)"),
        lines.encode(y=y, strokeDash=_by_series(alt.StrokeDash, chart, DASHES)),
        points.encode(y=y, shape=_by_series(alt.Shape, chart, SHAPES)),
    ]


def _bars(chart: Chart, title: str, rows: pl.DataFrame, base: alt.Chart) -> list[alt.Chart]:
    """Horizontal bars with their numbers, and notes beside them."""
    import altair as alt

    low, high = chart.domain(rows)
    # Half of the panel is for the numbers.
    scale = alt.Scale(domain=[low, 2 * high - low], nice=False)
    axis = alt.Axis(format=_ticks(chart), values=[low, high], grid=False)
    labels = [str(value) for value in rows[chart.x]]
    y = alt.Y("place:N", title=None, sort=labels, axis=alt.Axis(labelLimit=_LONGEST_LABEL))
    x = alt.X("estimate:Q", title=_y_title(chart, title), scale=scale, axis=axis)
    numbers = alt.Chart().mark_text(align="right").encode(y=y)
    layers = [
        base.mark_bar(height=14).encode(x=x, y=y),
        numbers.encode(x=alt.datum(low + 1.4 * (high - low)), text="written:N"),
    ]
    if chart.note:
        layers.append(numbers.encode(x=alt.datum(2 * high - low), text="note:N"))
    return layers


def _rules(chart: Chart) -> list[alt.Chart]:
    """What is fair, what counts as none, and how far is read."""
    import altair as alt

    rules = []
    if chart.margin is not None:
        ends = alt.Chart(alt.InlineData([{"low": -chart.margin, "high": chart.margin}]))
        rules.append(ends.mark_rect(opacity=0.15).encode(y="low:Q", y2="high:Q"))
    for mark, axis in ((chart.level, "x" if chart.kind == "rows" else "y"), (chart.edge, "x")):
        if mark is not None:
            place, words = mark
            data = alt.Chart(alt.InlineData([{"at": place, "words": words}]))
            at = {axis: alt.datum(place)}
            rules.append(data.mark_rule(strokeDash=[4, 3]).encode(**at, tooltip="words:N"))
            if chart.kind == "rows":
                continue
            if axis == "y":
                text = data.mark_text(align="right", dy=-6).encode(x=alt.value("width"))
            elif _is_right(chart, place):
                text = data.mark_text(align="right", dx=-4).encode(y=alt.value(8))
            else:
                text = data.mark_text(align="left", dx=4).encode(y=alt.value(8))
            rules.append(text.encode(**at, text="words:N"))
    return rules


def _is_right(chart: Chart, place: float) -> bool:
    """Whether a number of the axis of places is in the right half of it."""
    places = [*chart.frame[chart.x].drop_nulls(), place]
    if chart.scale == "log":
        return bool(place**2 > min(places) * max(places))
    return bool(2 * place > max(places))


def _by_series(channel: Any, chart: Chart, looks: tuple[Any, ...]) -> Any:
    """A channel that tells series apart, with one legend for all such channels."""
    import altair as alt

    names = chart.names
    looked = [looks[place % len(looks)] for place in range(len(names))]
    legend = None
    if len(names) > 1 and chart.kind != "rows":
        legend = alt.Legend(title=None, orient="bottom", columns=3, labelLimit=_LONGEST_LABEL)
    return channel(
        "series:N", sort=names, scale=alt.Scale(domain=names, range=looked), legend=legend
    )


def _places(chart: Chart, rows: pl.DataFrame) -> alt.X:
    """The axis of places: names in the order of the frame, or numbers on a logarithmic axis."""
    import altair as alt

    title = chart.x_title or chart.x
    if chart.scale != "names":
        axis = alt.Axis(format=",.3~r", labelOverlap=True, grid=False, tickCount=7)
        scale = alt.Scale(nice=False, padding=12)
        if chart.scale == "log":
            axis.values = sorted(set(chart.frame[chart.x].to_list()))
            scale = alt.Scale(type="log", base=2, nice=False, padding=12)
        return alt.X("place:Q", title=title, scale=scale, axis=axis)
    labels = [str(value) for value in rows[chart.x].unique(maintain_order=True)]
    slanted = sum(len(label) + 1 for label in labels) > 40
    axis = alt.Axis(labelAngle=-35 if slanted else 0, labelLimit=120, grid=False)
    return alt.X("place:N", title=title, sort=labels, axis=axis)


def _numbers(chart: Chart, title: str, rows: pl.DataFrame) -> tuple[alt.Y, alt.Y]:
    """The axis of numbers, for estimates and for the lower ends of their intervals."""
    import altair as alt

    axis = alt.Axis(format=_ticks(chart), tickCount=5)
    scale = alt.Scale(domain=list(chart.domain(rows)), nice=False)
    shared: dict[str, Any] = {"title": _y_title(chart, title), "axis": axis, "scale": scale}
    return alt.Y("estimate:Q", **shared), alt.Y("low:Q", **shared)


def _y_title(chart: Chart, title: str) -> str:
    return title if chart.free else chart.y_title


def _ticks(chart: Chart) -> str:
    """How d3 writes the numbers of an axis."""
    return "~%" if chart.form.endswith("%") else "~r"


def _description(chart: Chart) -> str:
    """The chart for someone who cannot see it."""
    lines = [chart.title, chart.subtitle, chart.below]
    for title, rows in chart.panels():
        for name in chart.names:
            values = [
                f"{row[chart.label or chart.x]} {number(row[chart.y], chart.form)}"
                for row in rows.filter(rows[chart.by] == name).iter_rows(named=True)
            ]
            if values:
                lines.append(": ".join(filter(None, (title, name, ", ".join(values)))))
    return ". ".join(filter(None, lines))


def _house_style(ink: str, font: str) -> dict[str, Any]:
    """The configuration of every figure: vl-convert has a sans-serif font wherever it runs."""
    text = {"labelColor": ink, "titleColor": ink}
    return {
        "font": font,
        "background": "transparent" if ink == "currentColor" else "white",
        "view": {"stroke": None},
        "axis": {
            **text,
            "domainColor": "#88888888",
            "gridColor": "#88888840",
            "tickColor": "#88888888",
            "titleFontWeight": "normal",
        },
        "legend": {**text, "symbolSize": 80, "symbolStrokeWidth": 0},
        "rule": {"color": ink},
        "text": {"color": ink, "fontSize": 11},
        "rect": {"color": "#888888"},
        "title": {
            "color": ink,
            "subtitleColor": ink,
            "anchor": "start",
            "fontSize": 13,
            "offset": 12,
        },
    }
