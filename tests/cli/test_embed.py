"""`fairspan embed`: what it prints, its mistakes in one line, and kills at any moment."""

from __future__ import annotations

import json
import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest
from filelock import FileLock

import fairspan
from fairspan.calibration.calibration import PRESETS
from fairspan.calibration.words import in_words
from fairspan.embedding import engines
from fairspan.embedding.shards import shard_name
from fairspan.runs.progress import Silent
from tests.builders.commands import Commands, Run, Said
from tests.builders.tiny import words

Patch = pytest.MonkeyPatch

ROWS = 400
LENGTHS = [5 + number % 90 for number in range(ROWS)]


@pytest.fixture(scope="module")
def place(place: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a model and documents, some of them bad."""
    folder = tmp_path_factory.mktemp("documents")
    (folder / "model").symlink_to(place / "model")
    texts = [words(length - 2, number) for number, length in enumerate(LENGTHS)]
    lines = [json.dumps({"id": number, "text": text}) for number, text in enumerate(texts)]
    lines[70:70] = ["not json", json.dumps({"id": 3})]
    (folder / "documents.jsonl").write_text("\n".join(lines))
    return folder


def typed(place: Path, *more: str | Path, out: str | Path = "out") -> list[str | Path]:
    few = ("--rows-per-shard", "16")
    return ["embed", place / "model", place / "documents.jsonl", out, *few, *more]


def test_what_is_printed(run: Run, place: Path, tmp_path: Path, monkeypatch: Patch) -> None:
    how = ("--preset", "plain", "--max-seq-length", "64")
    first = run(*typed(place, *how)).ok
    tokens = sum(min(64, length) for length in LENGTHS)
    assert first.out == f"out: 400 rows in 26 shards, {tokens:,} tokens; the plain model.\n"
    cut = sum(length > 64 for length in LENGTHS)
    assert f"note: {cut} texts truncated at 64 tokens." in first.err
    assert "note: 2 rows rejected: see out/rejected.jsonl." in first.err
    with monkeypatch.context() as patch:
        patch.setattr("os.access", lambda *asked: False)  # as on a read-only disk
        again = run(*typed(place, *how, "--json"))
    assert "out is complete: nothing was left to embed." in again.err
    said = json.loads(again.out)
    manifest = json.loads((tmp_path / "out" / "fairspan-embed.json").read_text())
    assert said == {"folder": "out", **manifest}
    assert said["status"] == "complete"
    single = tmp_path / "single.jsonl"
    single.write_text('{"id": "a", "text": "w1"}')
    fair = in_words(PRESETS["fair"].but(pooling="even"))
    said_of_one = f"few: 1 row in 1 shard, 3 tokens; {fair}.\n"
    assert run("embed", place / "model", single, "few").out == said_of_one


def test_rows_that_keep_their_vectors_are_counted(
    run: Run, place: Path, monkeypatch: Patch
) -> None:
    """With a model that was saved calibrated, whose plain model reads 64 tokens."""
    # Words that the tiny model knows.
    general = [words(12, n) for n in range(30)]
    monkeypatch.setattr("fairspan.model.level.general_texts", lambda: general)
    model = fairspan.load(place / "model")
    model.max_seq_length = 64
    long = fairspan.calibrate(model, "tiles-128", short_texts="leave")
    long.save_pretrained("long", create_model_card=False)
    longer = [length for length in LENGTHS if length > 64]
    documents = place / "documents.jsonl"

    def embed(out: str, *more: str) -> Said:
        return run("embed", "long", documents, out, "--only-longer-than-window", *more)

    assert embed("out").out == (
        f"out: {len(longer)} rows in 1 shard, {sum(longer):,} tokens; long texts in tiles of 128 "
        "tokens at temperature 0.8, pooled evenly.\n"
        f"{len(longer)} of 400 rows had more than 64 tokens; the other "
        f"{ROWS - len(longer)} can keep the plain model's vectors.\n"
    )
    said = json.loads(embed("out", "--json").out)
    assert said["summary"]["skipped"] == ROWS - len(longer)
    assert said["options"]["only_longer_than_window"] is True
    level = embed("level", "--preset", "fair+short_texts=leave").ok.out
    assert "can keep the plain model's vectors, made level with CommonDirection" in level


def test_mistakes_are_one_line(run: Run, place: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    not_json = "documents.jsonl, line 71: not JSON (Expecting value, character 1)."
    for options, said in (
        ("--strict", f"{not_json} Each line holds one object. Without strict such rows go"),
        ("--storage int8", "storage is float32 or float16, got 'int8'."),
        ("--vectors 0", "vectors must be a whole number of at least 1, got 0."),
        ("--rows-per-shard 0", "rows_per_shard must be a whole number of at least 1"),
        ("--device cuda:0,cuda:1", "for several GPUs set engine=ray, and how many with actors."),
        ("--preset nice", "nice"),
    ):
        run(*typed(place, *options.split())).is_one_line(said)
    assert not (tmp_path / "out" / shard_name(4)).exists(), "the shard of line 71"
    run(*typed(place, out="file")).is_one_line("file cannot be written: it is not a folder.")
    said = "cannot be read: its name must end in .jsonl"
    run("embed", place / "model", "file", "out").is_one_line(said)
    with FileLock(tmp_path / "out" / ".lock"):
        said = "another process is writing out: wait until it has finished, or choose"
        run(*typed(place)).is_one_line(said)


def test_an_interrupt_keeps_what_is_written(
    run: Run, place: Path, tmp_path: Path, monkeypatch: Patch
) -> None:
    made = engines.embed_units

    def interrupted(*given: Any, **options: Any) -> Iterator[Any]:
        for number, record in enumerate(made(*given, **options)):
            yield record
            if number == 5:
                raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(engines, "embed_units", interrupted)
        ended = run(*typed(place))
    assert (ended.code, ended.out) == (130, "")
    assert "interrupted. What was computed is kept: the same command continues" in ended.last
    assert run(*typed(place)).code == 0
    assert (tmp_path / "out" / "rejected.jsonl").read_text().count("\n") == 2
    ids = pl.read_parquet(tmp_path / "out" / "part-*.parquet")["id"].to_list()
    assert ids == [str(n) for n in range(ROWS)]


def test_rows_are_counted_batch_by_batch(place: Path, tmp_path: Path, monkeypatch: Patch) -> None:
    """One shard in batches of at most 256 tokens: the count rises long before it is written, from
    one line on."""
    heard: list[str] = []
    progress = Silent()
    monkeypatch.setattr(progress, "say", heard.append, raising=False)
    clock = iter([0.0, 10.0, *range(20, 9999)])
    time = SimpleNamespace(monotonic=lambda: next(clock))
    monkeypatch.setattr("fairspan.embedding.run.time", time)
    file, out = tmp_path / "a.jsonl", tmp_path / "out"
    file.write_text((place / "documents.jsonl").read_text().partition("not json")[0])
    fairspan.embed(str(place / "model"), file, out, batch_tokens=60, progress=progress)
    rows = [int(line.split()[0]) for line in heard]
    assert rows == sorted({*rows})
    # Of 70 texts of 5 to 74 tokens the longest come first, the first of them alone.
    assert heard[0] == "1 row, 7 tokens/s"
    assert rows[-1] == 70


@pytest.mark.slow
def test_killed_at_random_moments_it_ends_with_the_same(
    commands: Commands, place: Path, tmp_path: Path
) -> None:
    """A new folder is begun and killed once or twice, first when it has a shard and then at any
    moment, three times over; the last call ends with the same bits and lists."""

    def contents(folder: Path) -> tuple[list[str], str, list[Any]]:
        names = sorted(file.name for file in folder.iterdir())
        rows = pl.read_parquet(folder / "part-*.parquet")
        return names, (folder / "rejected.jsonl").read_text(), rows.rows()

    began = time.monotonic()
    assert commands.start(tmp_path, *typed(place, out="whole")).wait().code == 0
    seconds = time.monotonic() - began
    whole = contents(tmp_path / "whole")
    assert [row[0] for row in whole[2]] == [str(number) for number in range(ROWS)]
    rng, in_the_middle = random.Random(20), 0
    for number in range(3):
        out = tmp_path / f"killed-{number}"
        for _ in range(1 + number % 2):
            started = commands.start(tmp_path, *typed(place, out=out))
            end = time.monotonic() + (rng.uniform(0, seconds) if number else 300)
            while time.monotonic() < end and (number or not list(out.glob("part-*"))):
                time.sleep(0.01)
            started.signal(signal.SIGKILL)
            started.wait()
        in_the_middle += 0 < len(list(out.glob("part-*"))) < 26
        ended = commands.start(tmp_path, *typed(place, out=out)).wait()
        assert ended.code == 0, ended.stderr
        assert contents(out) == whole
    assert in_the_middle
