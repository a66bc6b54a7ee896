"""`fairspan embed`: what it prints, its mistakes in one line, and kills at any moment."""

from __future__ import annotations

import json
import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import polars as pl
import pytest
from filelock import FileLock

import fairspan
from fairspan.calibration.calibration import PRESETS
from fairspan.calibration.words import in_words
from fairspan.embedding.shards import shard_name
from fairspan.runs.progress import Silent
from tests.builders.commands import Commands, Run
from tests.builders.tiny import words

Patch = pytest.MonkeyPatch

ROWS = 400


@pytest.fixture(scope="module")
def place(make_tiny: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a model and documents, some of them bad."""
    place = tmp_path_factory.mktemp("place")
    make_tiny("bert", "mean").save_pretrained(str(place / "model"), create_model_card=False)
    lines = [
        json.dumps({"id": number, "text": words(3 + number % 90, number)}) for number in range(ROWS)
    ]
    lines[70:70] = ["not json", json.dumps({"id": 3})]
    (place / "documents.jsonl").write_text("\n".join(lines))
    return place


def typed(place: Path, *more: str | Path, out: str | Path = "out") -> list[str | Path]:
    few = ("--rows-per-shard", "16")
    return ["embed", place / "model", place / "documents.jsonl", out, *few, *more]


def test_what_is_printed(run: Run, place: Path, tmp_path: Path, monkeypatch: Patch) -> None:
    how = ("--preset", "plain", "--max-seq-length", "64")
    first = run(*typed(place, *how)).ok
    tokens = sum(min(64, 5 + number % 90) for number in range(ROWS))
    assert first.out == f"out: 400 rows in 26 shards, {tokens:,} tokens; the plain model.\n"
    cut = sum(5 + number % 90 > 64 for number in range(ROWS))
    assert f"note: {cut} texts cut to the 64 tokens read." in first.err
    assert "note: 2 rows rejected: see out/rejected.jsonl." in first.err
    with monkeypatch.context() as patch:
        patch.setattr("os.access", lambda *asked: False)  # as on a read-only disk
        again = run(*typed(place, *how, "--json"))
    assert "out is complete: nothing was left to embed." in again.err
    said = json.loads(again.out)
    manifest = json.loads((tmp_path / "out" / "fairspan-embed.json").read_text())
    assert said == {"folder": "out", **manifest}
    assert said["status"] == "complete"
    one = tmp_path / "one.jsonl"
    one.write_text('{"id": "a", "text": "w1"}')
    fair = in_words(PRESETS["fair"].but(pooling="even"))
    said_of_one = f"few: 1 row in 1 shard, 3 tokens; {fair}.\n"
    assert run("embed", place / "model", one, "few").out == said_of_one


def test_rows_that_keep_their_vectors_are_counted(
    run: Run, place: Path, monkeypatch: Patch
) -> None:
    """With a model that was saved calibrated, whose plain model reads 64 tokens."""
    # Words that the tiny model knows.
    monkeypatch.setattr(
        "fairspan.model.level.general_texts", lambda: [words(12, n) for n in range(30)]
    )
    model = fairspan.load(place / "model")
    model.max_seq_length = 64
    long = fairspan.calibrate(model, "tiles-128", short_texts="leave")
    long.save_pretrained("long", create_model_card=False)
    longer = [5 + number % 90 for number in range(ROWS) if 5 + number % 90 > 64]
    given = ("embed", "long", place / "documents.jsonl", "out", "--only-longer-than-window")
    assert run(*given).out == (
        f"out: {len(longer)} rows in 1 shard, {sum(longer):,} tokens; long texts in tiles of 128 "
        "tokens at temperature 0.8, pooled evenly.\n"
        f"{len(longer)} of 400 rows had more than 64 tokens; the other "
        f"{ROWS - len(longer)} can keep the plain model's vectors.\n"
    )
    said = json.loads(run(*given, "--json").out)
    assert said["summary"]["skipped"] == ROWS - len(longer)
    assert said["options"]["only_longer_than_window"] is True
    level = (*given, "--preset", "fair+short_texts=leave")
    said_of_level = run(*level[:3], "level", *level[4:]).ok.out
    assert "can keep the plain model's vectors, made level with CommonDirection" in said_of_level
    run(*given[:3], "fair", *given[4:], "--preset", "fair").is_one_line(
        "needs short_texts=leave, as in fair+short_texts=leave"
    )


def test_what_the_default_refuses_says_how_to_leave_the_model(
    run: Run, place: Path, monkeypatch: Patch
) -> None:
    def refuse(*given: Any, **options: Any) -> None:
        raise fairspan.UnsupportedModel("this cannot be calibrated.")

    monkeypatch.setattr("fairspan.model.build.calibrate", refuse)
    run(*typed(place)).is_one_line("use --preset plain to leave the model as it is.")
    assert run(*typed(place, "--preset", "plain")).ok


def test_mistakes_are_one_line(run: Run, place: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "x").write_text("x")
    not_json = "documents.jsonl, line 71: not JSON (Expecting value, character 1)."
    for options, said in (
        ("--strict", f"{not_json} Each line holds one object. Without strict such rows go"),
        ("--storage int8", "storage is float32 or float16, got 'int8'."),
        ("--vectors 0", "vectors must be a whole number of at least 1, got 0."),
        (
            "--tokens-per-vector 8",
            "the tokens of a vector must be a whole number of at least 16, got 8.",
        ),
        (
            "--vectors 2 --tokens-per-vector 64",
            "set either vectors, the largest number per document, such as 4, or tokens,",
        ),
        ("--rows-per-shard 0", "rows_per_shard must be a whole number of at least 1"),
        ("--device gpu", "there is no device 'gpu'"),
        ("--device cuda:0,cuda:1", "for several GPUs set engine=ray, and how many with actors."),
        ("--preset nice", "nice"),
    ):
        run(*typed(place, *options.split())).is_one_line(said)
    assert not (tmp_path / "out" / shard_name(4)).exists(), "the shard of line 71"
    for out, said in (
        ("file", "file cannot be written: it is not a folder."),
        ("file/out", "file/out cannot be written"),
        ("mine", "mine is not empty and was not made by embed"),
        (place / "model", "is not empty and was not made by embed"),
    ):
        run(*typed(place, out=out)).is_one_line(said)
    for model, source, said in (
        (place, place / "documents.jsonl", "it has neither modules.json nor config.json"),
        (place / "model", "mine", "mine holds no file that ends in .jsonl"),
        (place / "model", "file", "cannot be read: its name must end in .jsonl"),
    ):
        run("embed", model, source, "out").is_one_line(said)
    with FileLock(tmp_path / "out" / ".lock"):
        run(*typed(place)).is_one_line(
            "another process is writing out: wait until it has finished, or choose"
        )


def test_an_interrupt_keeps_what_is_written(
    run: Run, place: Path, tmp_path: Path, monkeypatch: Patch
) -> None:
    from fairspan.embedding import engines

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
    assert pl.read_parquet(tmp_path / "out" / "part-*.parquet")["id"].to_list() == [
        str(n) for n in range(ROWS)
    ]


def test_rows_are_counted_batch_by_batch(place: Path, tmp_path: Path, monkeypatch: Patch) -> None:
    """One shard in batches of at most 256 tokens: the count rises long before it is written, from
    one line on."""

    class Heard(Silent):
        said: ClassVar[list[str]] = []

        def say(self, found: str) -> None:
            self.said.append(found)

    clock = iter([0.0, 10.0, *range(20, 9999)])
    monkeypatch.setattr(
        "fairspan.embedding.run.time", SimpleNamespace(monotonic=lambda: next(clock))
    )
    file, out = tmp_path / "a.jsonl", tmp_path / "out"
    file.write_text((place / "documents.jsonl").read_text().partition("not json")[0])
    fairspan.embed(str(place / "model"), file, out, batch_tokens=60, progress=Heard())
    rows = [int(one.split()[0]) for one in Heard.said]
    assert rows == sorted({*rows})
    # Of 70 texts of 5 to 74 tokens the longest come first, the first of them alone.
    assert Heard.said[0] == "1 row, 7 tokens/s"
    assert rows[-1] == 70


@pytest.mark.slow
def test_killed_at_random_moments_it_ends_with_the_same(
    commands: Commands, place: Path, tmp_path: Path
) -> None:
    """6 times a new folder is begun and killed once or twice, first when it has a shard and then at
    any moment; the last call ends with the same bits and lists."""
    began = time.monotonic()
    assert commands.start(tmp_path, *typed(place, out="whole")).wait().code == 0
    seconds = time.monotonic() - began
    whole = pl.read_parquet(tmp_path / "whole" / "part-*.parquet")
    assert whole["id"].to_list() == [str(number) for number in range(ROWS)]
    rng, in_the_middle = random.Random(20), 0
    for number in range(6):
        out = f"killed-{number}"
        for _ in range(1 + number % 2):
            started = commands.start(tmp_path, *typed(place, out=out))
            if number:
                time.sleep(rng.uniform(0, seconds))
            while (
                number == 0
                and not list((tmp_path / out).glob("part-*"))
                and time.monotonic() < began + 300
            ):
                time.sleep(0.01)
            started.signal(signal.SIGKILL)
            started.wait()
        in_the_middle += 0 < len(list((tmp_path / out).glob("part-*"))) < 26
        ended = commands.start(tmp_path, *typed(place, out=out)).wait()
        assert ended.code == 0, ended.stderr
        assert pl.read_parquet(tmp_path / out / "part-*.parquet").equals(whole)
        names = sorted(file.name for file in (tmp_path / out).iterdir())
        assert names == sorted(file.name for file in (tmp_path / "whole").iterdir())
        assert (tmp_path / out / "rejected.jsonl").read_text() == (
            tmp_path / "whole" / "rejected.jsonl"
        ).read_text()
    assert in_the_middle
