"""Draw the newest growth table of RESULTS.md, log-log.

python -m benchmarks.plot
"""

from __future__ import annotations

import re
from pathlib import Path

from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullLocator

from benchmarks.cpu import RESULTS

OUT = Path(__file__).parents[1] / "docs" / "images" / "growth.png"
# Colours that stay apart for colour-blind readers, line styles that stay apart in grey.
STYLES = {
    "plain": ("#7a7a7a", "-", "o"),
    "pooling": ("#0072b2", "--", "s"),
    "all": ("#009e73", "-.", "^"),
    "eager": ("#d55e00", ":", "D"),
}


def read_growth(text: str) -> dict[str, list[tuple[int, float, float]]]:
    """(tokens, ms, MiB) of every path, from the last growth table of a results file."""
    table = text.rsplit("### Growth", 1)[1].split("\n#", 1)[0]
    rows = [re.split(r"\s*\|\s*", line.strip("| ")) for line in table.splitlines() if line.startswith("|")]
    head, body = rows[0], rows[2:]
    names = [cell.removesuffix(", ms") for cell in head if cell.endswith(", ms")]
    figures: dict[str, list[tuple[int, float, float]]] = {name: [] for name in names}
    for row in body:
        for number, name in enumerate(names):
            time, memory = row[1 + 2 * number], row[2 + 2 * number]
            if time != "–":
                figures[name].append((int(row[0]), float(time), float(memory)))
    return figures


def draw(figures: dict[str, list[tuple[int, float, float]]], file: Path) -> None:
    figure = Figure(figsize=(8.5, 3.6), layout="constrained")
    for axes, column, label in zip(
        figure.subplots(1, 2), (1, 2), ("ms a text", "MiB above the weights"), strict=True
    ):
        for name, points in figures.items():
            colour, line, marker = STYLES[name]
            axes.loglog(
                [p[0] for p in points],
                [p[column] for p in points],
                line,
                color=colour,
                marker=marker,
                ms=4,
                label=name,
            )
        tokens = [p[0] for p in figures["plain"]]
        axes.set_xticks(tokens, [f"{t // 1024}k" if t >= 1024 else str(t) for t in tokens])
        axes.xaxis.set_minor_locator(NullLocator())
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.set_xlabel("tokens")
        axes.set_ylabel(label)
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(alpha=0.3)
    figure.axes[0].legend(frameon=False)
    figure.savefig(file, dpi=150)


if __name__ == "__main__":
    draw(read_growth(RESULTS.read_text(encoding="utf-8")), OUT)
    print(OUT)
