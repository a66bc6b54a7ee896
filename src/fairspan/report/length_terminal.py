"""A study of length in the terminal: verdicts, tables by length, what the layers do, and what is suggested."""

from __future__ import annotations

from collections.abc import Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from fairspan.report.length import WORDS, Estimate, LengthSummary
from fairspan.report.terminal import line, minus

TITLES = {
    "cosine": "mean pairwise cosine: how alike different texts of one length are",
    "distance": "mean distance to the centre of the other texts",
    "rank": "effective rank: how many directions the texts really use",
}


def print_length(console: Console, summary: LengthSummary) -> None:
    """Verdicts first, then the tables."""
    log = summary.log
    lengths = log.header["lengths"]
    kind = "cut to" if log.header["paired"] else "of"
    line(
        console,
        f"{log.model} on {log.header['corpus']['name']}: {max(one['texts'] for one in lengths)} documents {kind} "
        f"{', '.join(str(length) for length in summary.lengths)} tokens",
    )
    for note in log.notes:
        line(console, f"note: {note}", style="yellow")
    console.print()
    for name in summary.treatments:
        console.print(Text.assemble((name, "bold"), "  ", summary.verdict(name)), soft_wrap=True)
    line(console, f"suggested by geometry alone: {summary.advice()}", style="bold green")
    for sentence in (summary.fitted(), summary.theory()):
        if sentence is not None:
            line(console, sentence)
    for measure in summary.measures:
        console.print()
        console.print(geometry_table(summary, measure))
    for table in classification_tables(summary):
        console.print()
        console.print(table)
    for table in spectrum_tables(summary):
        console.print()
        console.print(table)
    for sentence in bound_sentences(summary):
        line(console, sentence, style="dim")
    probe = probe_table(summary)
    if probe is not None:
        console.print()
        console.print(probe)
    line(console, f"log: {log.folder}")


def geometry_table(summary: LengthSummary, measure: str) -> RenderableType:
    """One measure by length, with what each doubling adds."""
    table = _table(TITLES[measure], [*map(str, summary.lengths), "each doubling [95 %]"])
    names = [*summary.treatments, *([WORDS] if summary.value(WORDS, measure, summary.lengths[0]) else [])]
    for name in names:
        values = [_number(summary.value(name, measure, length)) for length in summary.lengths]
        shown = "raw word embeddings" if name == WORDS else name
        table.add_row(Text(shown), *values, _signed(summary.value(name, measure, None, "doubling")))
    return table


def classification_tables(summary: LengthSummary) -> list[RenderableType]:
    """Accuracy and entropy by length, and below each what a treatment changes, with stars where 0 is outside."""
    tables: list[RenderableType] = []
    for measure, title in (
        ("correct", "accuracy of a classifier"),
        ("entropy", "entropy of its predictions, in nats"),
    ):
        if summary.classified(summary.baseline, measure, summary.lengths[0]) is None:
            continue
        table = _table(f"{title} by length (*: differs from {summary.baseline})", list(map(str, summary.lengths)))
        for name in summary.treatments:
            cells = []
            for length in summary.lengths:
                change = summary.classified(name, measure, length, summary.baseline)
                differs = change is not None and (change.above_zero or (change.high is not None and change.high < 0))
                cells.append(_number(summary.classified(name, measure, length)) + ("*" if differs else ""))
            table.add_row(Text(name), *cells)
        tables.append(table)
    return tables


def spectrum_tables(summary: LengthSummary) -> list[RenderableType]:
    """σ by length in the last layer, and the first treatment's layers one by one."""
    tables: list[RenderableType] = []
    for measure, title in (
        ("sigma_a", "σ_a of the last layer's attention: the less, the more alike it makes the tokens"),
        ("theorem_3", "Theorem 3's bound on it"),
        ("sigma_s", "σ_s, the spread of the attention scores"),
    ):
        found = {name: summary.spectrum(measure, name) for name in summary.treatments}
        if all(rows.is_empty() for rows in found.values()):
            continue
        table = _table(title, list(map(str, summary.lengths)))
        for name, rows in found.items():
            last = rows.filter(rows["layer"] == rows["layer"].max())
            by_length = dict(last.select("length", "value").rows())
            table.add_row(Text(name), *(f"{by_length[n]:.3f}" if n in by_length else "–" for n in summary.lengths))
        tables.append(table)
    layers = _layer_table(summary)
    return [*tables, layers] if layers is not None else tables


def _layer_table(summary: LengthSummary) -> RenderableType | None:
    rates = summary.spectrum("filter_rate", summary.baseline)
    if rates.is_empty():
        return None
    depth = int(rates["layer"].max())  # type: ignore[arg-type]
    title = f"{summary.baseline}: log of what each layer leaves of the differences between tokens"
    table = _table(title, [str(layer + 1) for layer in range(depth + 1)], first="tokens \\ layer")
    for length in summary.lengths:
        own = dict(rates.filter(rates["length"] == length).select("layer", "value").rows())
        table.add_row(str(length), *(minus(f"{own[layer]:+.2f}") for layer in range(depth + 1)))
    return table


def bound_sentences(summary: LengthSummary) -> list[str]:
    """Where the theorems' bounds hold on these weights, and where not."""
    sentences = []
    for quantity, bound, name in (
        ("filter_rate", "theorem_2", "Theorem 2's bound on the filter rate"),
        ("sigma_a", "theorem_3", "Theorem 3's bound on σ_a"),
    ):
        counts = [summary.exceeded(quantity, bound, treatment) for treatment in summary.treatments]
        above, total = sum(a for a, _ in counts), sum(t for _, t in counts)
        if total:
            holds = "holds in all" if not above else f"does not hold in {above} of"
            sentences.append(f"{name} {holds} {total} layers of texts that were looked into")
    return sentences


def probe_table(summary: LengthSummary) -> RenderableType | None:
    """The cosine of two repeated words by repetitions."""
    found = {name: summary.repeated(name) for name in summary.treatments}
    times = [number for number, _ in found[summary.baseline]]
    if not times:
        return None
    shown = times if len(times) <= 8 else [*times[:1], *times[-7:]]
    table = _table('cosine of "dog dog …" and "cat cat …" by repetitions', list(map(str, shown)))
    for name, pairs in found.items():
        values = dict(pairs)
        table.add_row(Text(name), *(f"{values[number]:.3f}" for number in shown))
    return table


def _table(title: str, columns: Sequence[str], first: str = "") -> Table:
    table = Table(title=Text(title), title_justify="left", box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column(first, overflow="fold", min_width=14)
    for name in columns:
        table.add_column(name, justify="right", no_wrap=True)
    return table


def _number(found: Estimate | None) -> str:
    return "–" if found is None or found.estimate is None else minus(f"{found.estimate:.3f}")


def _signed(found: Estimate | None) -> str:
    if found is None or found.estimate is None or found.low is None or found.high is None:
        return "–"
    return minus(f"{found.estimate:+.3f} [{found.low:+.3f}, {found.high:+.3f}]")
