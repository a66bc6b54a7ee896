"""A study of length in the terminal: verdicts, tables by length, what the layers do, and what is suggested."""

from __future__ import annotations

from rich.console import Console, RenderableType
from rich.text import Text

from fairspan.report.terminal import folded_tables, line, minus
from fairspan.studies.collapse.spec import WORDS
from fairspan.studies.collapse.summary import Estimate, LengthSummary

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
        f"{', '.join(map(summary.name, summary.lengths))} tokens",
    )
    for note in log.notes:
        line(console, f"note: {note}", style="yellow")
    console.print()
    for name in summary.treatments:
        console.print(Text.assemble((name, "bold"), "  ", summary.verdict(name)), soft_wrap=True)
    line(console, f"suggested by geometry alone: {summary.advice()}", style="bold green")
    if summary.schedule():
        line(console, f"as a schedule, special tokens counted: temperature={_steps(summary.schedule())}")
    for sentence in (summary.fitted(), summary.theory()):
        if sentence is not None:
            line(console, sentence)
    tables = [table for measure in summary.measures for table in geometry_tables(summary, measure, console.width)]
    tables += classification_tables(summary, console.width)
    tables += spectrum_tables(summary, console.width)
    for table in tables:
        console.print()
        console.print(table)
    for sentence in bound_sentences(summary):
        line(console, sentence, style="dim")
    for table in probe_tables(summary, console.width):
        console.print()
        console.print(table)
    line(console, f"log: {log.folder}")


def _steps(schedule: list[list[float]]) -> str:
    """As a treatment takes them: [[402,0.9]]."""
    return "[" + ",".join(f"[{int(tokens)},{value:g}]" for tokens, value in schedule) + "]"


def geometry_tables(summary: LengthSummary, measure: str, width: int = 80) -> list[RenderableType]:
    """One measure by length, with what each doubling adds."""
    rows = []
    for name in [*summary.treatments, *([WORDS] if summary.value(WORDS, measure, summary.lengths[0]) else [])]:
        values = [_number(summary.value(name, measure, length)) for length in summary.lengths]
        doubling = _signed(summary.value(name, measure, None, "doubling"))
        rows.append(["raw word embeddings" if name == WORDS else name, *values, doubling])
    columns = [*map(summary.name, summary.lengths), "each doubling [95 %]"]
    return folded_tables(TITLES[measure], columns, rows, width)


def classification_tables(summary: LengthSummary, width: int = 80) -> list[RenderableType]:
    """Accuracy and entropy by length, with a star where a treatment changes them."""
    tables: list[RenderableType] = []
    titles = {"correct": "accuracy of a classifier", "entropy": "entropy of its predictions, in nats"}
    for measure, title in titles.items():
        if summary.classified(summary.baseline, measure, summary.lengths[0]) is None:
            continue
        rows = []
        for name in summary.treatments:
            cells = [name]
            for length in summary.lengths:
                change = summary.classified(name, measure, length, summary.baseline)
                star = "*" if change is not None and change.differs else ""
                cells.append(_number(summary.classified(name, measure, length)) + star)
            rows.append(cells)
        columns = list(map(summary.name, summary.lengths))
        tables += folded_tables(f"{title} by length (*: differs from {summary.baseline})", columns, rows, width)
    return tables


def spectrum_tables(summary: LengthSummary, width: int = 80) -> list[RenderableType]:
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
        shown = []
        for name, rows in found.items():
            last = rows.filter(rows["layer"] == rows["layer"].max())
            by_length = dict(last.select("length", "value").rows())
            shown.append([name, *(f"{by_length[n]:.3f}" if n in by_length else "–" for n in summary.lengths)])
        tables += folded_tables(title, list(map(summary.name, summary.lengths)), shown, width)
    return [*tables, *_layer_tables(summary, width)]


def _layer_tables(summary: LengthSummary, width: int) -> list[RenderableType]:
    rates = summary.spectrum("filter_rate", summary.baseline)
    if rates.is_empty():
        return []
    layers = sorted(rates["layer"].unique().to_list())
    rows = []
    for length in summary.lengths:
        own = dict(rates.filter(rates["length"] == length).select("layer", "value").rows())
        rows.append(
            [summary.name(length), *(minus(f"{own[layer]:+.2f}") if layer in own else "–" for layer in layers)]
        )
    title = f"{summary.baseline}: log of what each layer leaves of the differences between tokens"
    return folded_tables(title, [str(layer + 1) for layer in layers], rows, width, first="tokens \\ layer")


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


def probe_tables(summary: LengthSummary, width: int = 80) -> list[RenderableType]:
    """The cosine of two repeated words by repetitions."""
    found = {name: dict(summary.repeated(name)) for name in summary.treatments}
    times = list(found[summary.baseline])
    if not times:
        return []
    rows = [[name, *(f"{values[number]:.3f}" for number in times)] for name, values in found.items()]
    return folded_tables('cosine of "dog dog …" and "cat cat …" by repetitions', list(map(str, times)), rows, width)


def _number(found: Estimate | None) -> str:
    return "–" if found is None or found.estimate is None else minus(f"{found.estimate:.3f}")


def _signed(found: Estimate | None) -> str:
    if found is None or found.estimate is None or found.low is None or found.high is None:
        return "–"
    return minus(f"{found.estimate:+.3f} [{found.low:+.3f}, {found.high:+.3f}]")
