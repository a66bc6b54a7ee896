"""One document under the lens, in the terminal: a bar for each segment and treatment, and what was never seen."""

from __future__ import annotations

from rich.cells import cell_len, set_cell_size
from rich.console import Console, Group, RenderableType
from rich.text import Text

from fairspan.report.terminal import bar, line, minus
from fairspan.studies.inspect.inspection import InspectedSegment, Inspection, Reading, excerpt

# Of a line of the chart besides the name and the bar: indent, gaps, share, cosine.
_BESIDE_THE_BAR = 3 + 1 + 1 + 7 + 1 + 7
_LONGEST_NAME = 24
FAIR = "┊"


def print_inspection(console: Console, inspection: Inspection) -> None:
    """What was never seen first, then the chart, then one sentence a treatment."""
    line(console, heading(inspection))
    for warning in inspection.warnings:
        line(console, f"warning: {warning}", style="bold yellow")
    for note in inspection.notes:
        line(console, f"note: {note}", style="yellow")
    console.print()
    console.print(chart(inspection, console.width))
    for number, reading in enumerate(inspection.readings):
        text = Text(f"{reading.treatment}: ", style="bold" if number == 0 else "bold cyan")
        console.print(text + Text(f"{inspection.finding(reading)}.", style="not bold default"))
    console.print(Text(inspection.caveat, style="dim"))


def heading(inspection: Inspection) -> str:
    window = "" if inspection.window is None else f", of which the model reads {inspection.window:,}"
    return (
        f"{inspection.document} through {inspection.model}: {inspection.n} segments {inspection.borders}, "
        f"{inspection.length:,} {inspection.unit}{window if inspection.unseen else ''}"
    )


def chart(inspection: Inspection, width: int = 80) -> RenderableType:
    """Shares as bars, a block a segment and a line a treatment, all on one scale; a mark shows the fair share."""
    names = min(_LONGEST_NAME, max(cell_len(name) for name in inspection.treatments))
    longest = max(8, min(48, width - names - _BESIDE_THE_BAR))
    known = [share for reading in inspection.readings for share in reading.share if share is not None]
    unit = longest / max([inspection.fair, *known])
    fair = round(inspection.fair * unit)
    lines: list[RenderableType] = [_header(inspection.fair, 3 + names + fair, 3 + names + 1 + longest)]
    for segment in inspection.segments:
        lines.append(_title(segment, inspection.unit, width))
        for place, reading in enumerate(inspection.readings):
            lines.append(_line(reading, segment, place == 0, names, longest, unit, fair))
    return Group(*lines)


def _header(share: float, mark: int, end: int) -> Text:
    """Names of the columns, and where the fair share is."""
    label = f"fair: {share:.1%} "
    left = label.rjust(mark) + FAIR if len(label) <= mark else f"{' ' * mark}{FAIR}"
    return Text(f"{left.ljust(end)} {'share':>7} {'cosine':>7}", style="dim")


def _title(segment: InspectedSegment, unit: str, width: int) -> Text:
    """The number, the title or first words, the language, the length, and whether the model sees it."""
    facts = [f"{segment.tokens} {unit}"]
    if segment.language:
        facts.insert(0, segment.language)
    if segment.status == "cut":
        facts[-1] = f"{segment.seen} of {segment.tokens} {unit} seen"
    elif segment.status == "never seen":
        facts.append("never seen")
    right = " · ".join(facts)
    room = max(12, width - 4 - cell_len(right) - 3)
    label = segment.label
    if segment.title:
        label = f"{segment.label}: {excerpt(segment.text)}"
    if cell_len(label) > room:
        label = set_cell_size(label, room - 1).rstrip() + "…"
    text = Text(f"{segment.number:>2} ", style="bold")
    text.append(label, style="bold" if segment.status == "seen" else "dim")
    text.append(f"  {right}", style="yellow" if segment.status != "seen" else "dim")
    return text


def _line(
    reading: Reading, segment: InspectedSegment, before: bool, names: int, longest: int, unit: float, fair: int
) -> Text:
    place = segment.number - 1
    share = reading.share[place]
    style = "bright_black" if before else "cyan"
    drawn = Text(bar((share or 0.0) * unit).ljust(longest)[:longest], style=style)
    if 0 < fair <= longest:
        covered = drawn.plain[fair - 1] != " "
        drawn = Text.assemble(drawn[: fair - 1], (FAIR, f"{style} reverse" if covered else "dim"), drawn[fair:])
    name = reading.treatment
    if cell_len(name) > names:
        name = set_cell_size(name, names - 1) + "…"
    shown = "–" if share is None else f"{share:.1%}"
    return Text.assemble(
        "   ",
        (set_cell_size(name, names), "" if before else "cyan"),
        " ",
        drawn,
        f" {shown:>7} {minus(f'{reading.representation[place]:.3f}'):>7}",
    )
