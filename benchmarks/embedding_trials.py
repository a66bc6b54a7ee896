"""What `embed` does when it is killed, run twice at once, or given a text that ends its process.

    python -m benchmarks.embedding_trials kills --count 8    # at random moments, then continued
    python -m benchmarks.embedding_trials two --count 4      # two commands on one folder
    python -m benchmarks.embedding_trials ray                # a unit whose actor always dies
    python -m benchmarks.embedding_trials memory             # peak at 10,000 and 100,000 documents

Each prints a table. The model has random weights: four layers, or one for `memory`.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from importlib.util import find_spec
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import polars as pl
from tests.builders.tiny import WORDS

import fairspan
from benchmarks.models import Shape, random_model
from fairspan.errors import FairspanError

ROWS = 3000
ROWS_PER_SHARD = 50
SHAPE = Shape("four layers, 128 wide", 4, 128, 4)


def write_documents(file: Path, count: int, most: int) -> None:
    """Texts of 4 to `most` words."""
    rng = random.Random(0)
    with file.open("w", encoding="utf-8") as opened:
        for number in range(count):
            text = " ".join(rng.choices(WORDS, k=rng.randint(4, most)))
            opened.write(json.dumps({"id": number, "text": text}) + "\n")


def write_model(folder: Path, shape: Shape) -> None:
    random_model(shape, "mean", 128).save_pretrained(str(folder), create_model_card=False)


def start(place: Path, out: str) -> subprocess.Popen[str]:
    """The command `fairspan embed` on the documents of a place."""
    command = [sys.executable, "-c", "from fairspan.cli import main; main()", "embed"]
    command += ["model", "documents.jsonl", out, "--rows-per-shard", str(ROWS_PER_SHARD)]
    command += ["--preset", "plain"]
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(command, cwd=place, **pipes)


def shards_of(folder: Path) -> dict[str, int]:
    """The shards that are there, and the inodes of their files."""
    return {file.name: file.stat().st_ino for file in folder.glob("part-*.parquet")}


def vectors_of(folder: Path) -> pl.DataFrame:
    return pl.read_parquet(folder / "part-*.parquet")


def undisturbed(place: Path) -> tuple[pl.DataFrame, float]:
    """The vectors of a run in peace, and its seconds after the manifest is written."""
    process = start(place, "undisturbed")
    await_manifest(process, place / "undisturbed")
    began = time.monotonic()
    process.communicate()
    return vectors_of(place / "undisturbed"), time.monotonic() - began


def await_manifest(process: subprocess.Popen[str], folder: Path) -> None:
    """Return when the model is loaded and embedding begins."""
    while process.poll() is None and not (folder / "fairspan-embed.json").exists():
        time.sleep(0.005)


def try_kills(place: Path, count: int) -> Iterator[Sequence[object]]:
    """Kills at random moments of a run, and whether the next one ends with the same bits."""
    yield "killed after", "shards then", "next call", "bit-identical"
    expected, seconds = undisturbed(place)
    rng = random.Random(0)
    for number in range(count):
        out = f"killed-{number}"
        moment = rng.uniform(0, seconds)
        process = start(place, out)
        await_manifest(process, place / out)
        time.sleep(moment)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        shards = shards_of(place / out)
        again = start(place, out)
        again.communicate()
        kept = shards.items() <= shards_of(place / out).items()
        same = vectors_of(place / out).equals(expected)
        ended = f"exit code {again.returncode}" + ("" if kept else ", embeds finished shards again")
        yield f"{moment:.1f} of {seconds:.1f} s", len(shards), ended, same


def try_two(place: Path, count: int) -> Iterator[Sequence[object]]:
    """Two commands on one folder, the second later by a growing share of the first one's time."""
    yield "second starts after", "exit codes", "what the second says", "shards computed twice"
    _, seconds = undisturbed(place)
    for number in range(count):
        out = f"two-{number}"
        delay = seconds * number / count
        first = start(place, out)
        if number:
            await_manifest(first, place / out)
        time.sleep(delay)
        second = start(place, out)
        inodes: dict[str, set[int]] = {}
        while first.poll() is None or second.poll() is None:
            for name, inode in shards_of(place / out).items():
                inodes.setdefault(name, set()).add(inode)
            time.sleep(0.01)
        first.communicate()
        last = (second.communicate()[1].strip().splitlines() or [""])[-1]
        twice = sum(len(files) > 1 for files in inodes.values())
        yield f"{delay:.1f} s", f"{first.returncode}, {second.returncode}", last[:70], twice


class Deadly(str):
    """A text that ends the process that receives it."""

    def __reduce__(self) -> Any:
        return os._exit, (1,)


def try_ray(place: Path, count: int) -> Iterator[Sequence[object]]:
    """A unit whose actor dies whenever it is sent there."""
    yield "call", "shards", "ends with"
    if find_spec("ray") is None:
        raise SystemExit("Ray is not installed: pip install 'fairspan[ray]'")
    from fairspan.embedding import run

    units = run.units_of

    def deadly(*arguments: Any) -> Iterator[Any]:
        for unit in units(*arguments):
            rows = [replace(row, text=Deadly(row.text)) for row in unit.rows]
            yield replace(unit, rows=rows) if unit.number == 3 else unit

    options: dict[str, Any] = {"engine": "ray", "actors": 1, "rows_per_shard": 300}
    for call, made in (("with a deadly unit", deadly), ("without it", units)):
        run.units_of = made
        try:
            result = fairspan.embed(
                str(place / "model"),
                place / "documents.jsonl",
                place / "out",
                progress=False,
                **options,
            )
            ending = result.manifest["status"]
        except FairspanError as error:
            ending = str(error)
        yield call, f"{len(shards_of(place / 'out'))} of 10", ending


def try_memory(place: Path, count: int) -> Iterator[Sequence[object]]:
    """The most that a process has in memory."""
    yield "documents", "peak MiB"
    write_model(place / "small", Shape("one layer, 64 wide", 1, 64, 2))
    for documents in (10_000, 100_000):
        file = place / f"{documents}.jsonl"
        write_documents(file, documents, 16)
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
            peak = pool.submit(peak_of, place / "small", file).result()
        yield f"{documents:,}", f"{peak:,.0f}"


def peak_of(model: Path, file: Path) -> float:
    """MiB of this process at most, when it has embedded a file."""
    fairspan.embed(str(model), file, file.with_suffix(""), calibration="plain", progress=False)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10


def main() -> None:
    trials = {"kills": try_kills, "two": try_two, "ray": try_ray, "memory": try_memory}
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=trials)
    parser.add_argument("--count", type=int, default=8)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        write_model(place / "model", SHAPE)
        write_documents(place / "documents.jsonl", ROWS, 40)
        # Rows as they come: a trial takes minutes.
        for row in trials[arguments.what](place, arguments.count):
            print(" | ".join(map(str, row)), flush=True)


if __name__ == "__main__":
    main()
