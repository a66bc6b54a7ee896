"""Time, memory and size of the page of a whole grid.

    python -m benchmarks.report [--figures]

Rows are simulated for the grid of IRF's Section 3: documents of 3 to 6 segments in all orders (167,
42, 9 and 14 sets), six languages alone and 20 mixed plans, which is 104 families of documents and
1.9 million rows. The page is made by `fairspan report` in a process of its own, from the log on
disk.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from itertools import permutations
from pathlib import Path

import numpy as np
import polars as pl

from fairspan.runs.entries import as_json
from fairspan.runs.header import CorpusInfo, Header, ModelInfo, Timings
from fairspan.runs.writer import LogWriter
from fairspan.studies.audit.options import AuditOptions
from fairspan.studies.audit.rows import SCHEMA

SETS = {3: 167, 4: 42, 5: 9, 6: 14}
LANGUAGES = ("en", "zh", "de", "it", "ko", "hi")
PLANS = [(one, one) for one in LANGUAGES] + [
    (lead, later) for later in ("en", "de", "hi", "zh") for lead in LANGUAGES if lead != later
]


@dataclass(frozen=True, slots=True)
class Cost:
    """What it took to make a page."""

    seconds: float
    cpu_seconds: float
    gibibytes: float
    megabytes: float


def simulated_family(
    n: int, sets: int, plan: tuple[str, str], rng: np.random.Generator
) -> pl.DataFrame:
    """The rows of one family of documents: a segment's own value, a gain for position 1, and
    noise."""
    lead, later = plan
    orders = np.array(list(permutations(range(n))))
    number = np.repeat(np.arange(sets), len(orders) * n)
    order = np.tile(np.repeat(np.arange(len(orders)), n), sets)
    position = np.tile(np.arange(1, n + 1), sets * len(orders))
    segment = orders[order, position - 1] + number * n
    shift = np.where(position == 1, LANGUAGES.index(lead), LANGUAGES.index(later))
    value = (
        0.6
        + rng.normal(0, 0.05, sets * n)[segment]
        + 0.15 * (position == 1)
        + rng.normal(0, 0.03, len(position))
    )
    name = f"n{n}/{lead}:{later}/set"
    rows = pl.DataFrame(
        {
            "set": number,
            "order": order,
            "position": position,
            "segment": pl.Series(segment).cast(pl.String),
            # A segment has one length in each language.
            "tokens": 1000 + (segment * 7919 + shift * 3001) % 1000,
            "value": value,
        }
    )
    document = pl.concat_str(pl.lit(name), pl.col("set"), pl.lit("/order"), pl.col("order"))
    plan_name = lead if lead == later else f"{lead}:{later}"
    constant = {"treatment": "plain", "measure": "representation", "n": n, "plan": plan_name}
    rows = rows.with_columns(document.alias("document"))
    rows = rows.with_columns(pl.lit(value).alias(key) for key, value in constant.items())
    empty = [pl.lit(None).alias(key) for key in SCHEMA if key not in rows.columns]
    return rows.with_columns(empty).select(pl.col(key).cast(kind) for key, kind in SCHEMA.items())


def write_grid(folder: Path) -> Path:
    """The log of a simulated run of the whole grid."""
    rng = np.random.default_rng(0)
    rows = pl.concat(
        [simulated_family(n, sets, plan, rng) for n, sets in SETS.items() for plan in PLANS]
    )
    options = AuditOptions(treatments=["plain"], inference="z")
    header = Header(
        verb="audit",
        run="grid",
        model=ModelInfo("simulated", "none"),
        corpus=CorpusInfo("simulated", "none", LANGUAGES),
        plans=tuple(rows["plan"].unique(maintain_order=True)),
        documents=rows["document"].n_unique(),
        spec=options.asked,
        analysis=as_json(options.analysis),
    )
    writer = LogWriter(folder, header)
    writer.add(rows)
    writer.finish("complete", Timings())
    return folder


# The largest memory of a process as its parent sees it includes the parent's own, from before the
# program started.
CHILD = """
import resource, sys, time
from pathlib import Path
from fairspan.cli import app
app(sys.argv[1:])
status = Path("/proc/self/status")
lines = status.read_text().splitlines() if status.exists() else []
peak = next((int(line.split()[1]) for line in lines if line.startswith("VmHWM")), None)
print(peak or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time())
"""


def page_cost(run: Path, out: Path, *options: str) -> Cost:
    """Make the page in a new process and see what that took."""
    start = time.perf_counter()
    command = [sys.executable, "-c", CHILD, "report", str(run), "--out", str(out), *options]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    kibibytes, cpu = done.stdout.splitlines()[-1].split()
    seconds = time.perf_counter() - start
    return Cost(seconds, float(cpu), int(kibibytes) / 2**20, out.stat().st_size / 1e6)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--figures", action="store_true", help="draw all figures and write all tables as well"
    )
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        run, out = Path(folder) / "run", Path(folder) / "page.html"
        write_grid(run)
        options = ["--figures", f"{folder}/f", "--tables", f"{folder}/t"] if chosen.figures else []
        cost = page_cost(run, out, *options)
    print(f"{len(PLANS) * len(SETS)} families of documents")
    print(
        f"{cost.seconds:.1f} s ({cost.cpu_seconds:.1f} s of CPU), {cost.gibibytes:.2f} GiB, "
        f"{cost.megabytes:.1f} MB"
    )
    print("target: under 20 s, 1 GiB and 5 MB")


if __name__ == "__main__":
    main()
