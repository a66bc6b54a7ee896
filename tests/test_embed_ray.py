"""Embedding with Ray: the same rows and vectors as on one machine, and a checkpoint that survives killed drivers."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import fairspan
from fairspan.embedding.ray_checkpoint import done_from_start, open_checkpoint, remove_checkpoint
from fairspan.embedding.run import embed
from fairspan.embedding.shards import Record, shard_name
from fairspan.embedding.source import Fields, Place, open_input
from fairspan.errors import CorpusError, DesignError, LogError, MissingExtra
from tests.tiny import words

ROWS = 120
# Ray is slow to start where there are few cores, and a stalled run must end.
SECONDS = 900


@pytest.fixture(scope="module")
def cluster() -> Iterator[str]:
    """The address of a cluster on this machine, which all tests here share."""
    pytest.importorskip("ray")
    from fairspan.embedding.ray_engine import ray_library

    ray = ray_library()
    ray.init(
        address="local",
        num_cpus=5,
        object_store_memory=200 << 20,
        include_dashboard=False,
        log_to_driver=False,
        logging_level="ERROR",
    )
    yield ray.get_runtime_context().gcs_address
    ray.shutdown()


@pytest.fixture(scope="module")
def documents(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Rows of different lengths; a text that is a number, a line that is no JSON, a blank one and an id twice."""
    file = tmp_path_factory.mktemp("input") / "documents.jsonl"
    lines = [json.dumps({"id": f"d{row}", "text": words(3 + row * 7 % 40, row)}).encode() for row in range(ROWS)]
    lines[10], lines[30], lines[31] = b'{"id": "wrong", "text": 5}', b"\xff{", b""
    lines[90] = b'{"id": "d0", "text": "w1 w2"}'
    file.write_bytes(b"\n".join(lines) + b"\n")
    return file


def rows_of(folder: Path) -> pl.DataFrame:
    return pl.read_parquet(folder / "part-*.parquet").sort("id")


def assert_same(made: Path, expected: Path) -> None:
    """The same rows; vectors differ by the order of float32 sums, as texts may share other batches."""
    found, wanted = rows_of(made), rows_of(expected)
    assert found.schema == wanted.schema
    assert found.drop("vector").equals(wanted.drop("vector"))
    difference = np.abs(found["vector"].to_numpy() - wanted["vector"].to_numpy()).max()
    assert difference <= 1e-5 * np.abs(wanted["vector"].to_numpy()).max()
    rejected = [(folder / "rejected.jsonl").read_bytes().splitlines() for folder in (made, expected)]
    assert sorted(rejected[0]) == sorted(rejected[1])


@pytest.fixture(scope="module")
def on_one_machine(documents: Path, save_tiny: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("local") / "vectors"
    embed(str(save_tiny()), documents, out, rows_per_shard=10, progress=False)
    return out


# --- without a cluster ---


def record(number: int, start: int, end: int) -> Record:
    return Record(number, Place(0, start), Place(0, end), end - start, 0, 0, 0.0, 0, [])


def test_rows_are_done_up_to_the_first_gap() -> None:
    """Shards 0-10, 10-20 and 30-40 leave rows from 20 on to read again; one that spans 15-32 closes the gap."""
    apart = [record(3, 30, 40), record(1, 0, 10), record(2, 10, 20)]
    assert done_from_start([]) == (Place(), [])
    assert done_from_start(apart) == (Place(0, 20), [apart[1], apart[2]])
    reached, before = done_from_start([*apart, record(4, 15, 32)])
    assert (reached, len(before)) == (Place(0, 40), 4)


def test_checkpoint_and_shards_agree_when_an_attempt_begins(tmp_path: Path) -> None:
    """A shard counts if its rows were committed; a pending commit, or one whose shard is gone, does not."""
    first = open_checkpoint(tmp_path)
    both, uncommitted, gone, pending = (shard_name(first.shard(task)) for task in range(4))
    for name in (both, uncommitted, pending):
        (tmp_path / name).touch()
    for name in (both, gone, pending.replace(".parquet", ".pending.parquet")):
        (first.path / name).touch()
    second = open_checkpoint(tmp_path)
    assert [file.name for file in tmp_path.glob("part-*")] == [both]
    assert [file.name for file in second.path.iterdir()] == [both]
    assert not first.path.exists(), "a writer of the first attempt could still commit"
    assert second.shard(0) not in {first.shard(task) for task in range(4)}
    remove_checkpoint(tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == [both]


def test_blocks_have_every_row_with_a_number_that_stays(documents: Path) -> None:
    pytest.importorskip("ray")
    from fairspan.embedding.ray_blocks import read_blocks

    source = open_input(str(documents), Fields())

    def read(start: Place) -> list[dict[str, Any]]:
        return [row for block in read_blocks(source, start, 25, iter) for row in block.to_pylist()]

    every = read(Place())
    assert [row["row"] for row in every] == [number for number in range(1, ROWS + 1) if number != 32]
    assert [row["number"] for row in every if row["reason"] is not None] == [11, 31]
    later = read(Place(*every[49]["after"]))
    assert later == every[50:]


def test_the_other_engine_has_no_cluster(documents: Path, tmp_path: Path, save_tiny: Callable[..., Path]) -> None:
    for options in ({"address": "auto"}, {"actors": 2}):
        with pytest.raises(DesignError, match='is for engine="ray"'):
            embed(str(save_tiny()), documents, tmp_path / "out", **options)
    with pytest.raises(DesignError, match="engine is local or ray"):
        embed(str(save_tiny()), documents, tmp_path / "out", engine="spark")


def test_ray_is_an_extra(
    documents: Path, tmp_path: Path, save_tiny: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtra, match=r"pip install 'fairspan\[ray\]'"):
        embed(str(save_tiny()), documents, tmp_path / "out", engine="ray")


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("127.0.0.1:1", "no Ray cluster at 127.0.0.1:1"),
        ("ray://127.0.0.1:10001", "Ray's client"),
        ("somewhere", "auto or host:port"),
    ],
)
def test_a_cluster_that_is_not_there_is_refused(
    address: str, said: str, documents: Path, tmp_path: Path, save_tiny: Callable[..., Path]
) -> None:
    pytest.importorskip("ray")
    began = time.monotonic()
    with pytest.raises(DesignError, match=said):
        embed(str(save_tiny()), documents, tmp_path / "out", engine="ray", address=address)
    assert time.monotonic() - began < 30
    assert not (tmp_path / "out").exists()


def test_a_model_in_memory_cannot_be_sent(documents: Path, tmp_path: Path, make_tiny: Callable[..., Any]) -> None:
    pytest.importorskip("ray")
    with pytest.raises(DesignError, match="given by its name or folder"):
        embed(make_tiny(), documents, tmp_path / "out", engine="ray")


# --- with a cluster ---


@pytest.mark.slow
def test_same_rows_and_vectors_as_on_one_machine(
    cluster: str, documents: Path, on_one_machine: Path, save_tiny: Callable[..., Path], tmp_path: Path
) -> None:
    out = tmp_path / "vectors"
    made = fairspan.embed(str(save_tiny()), documents, out, rows_per_shard=10, engine="ray", actors=2, progress=False)
    assert_same(out, on_one_machine)
    local = json.loads((on_one_machine / "fairspan-embed.json").read_text())["summary"]
    assert {name: made.summary[name] for name in ("rows", "rejected", "truncated", "tokens")} == {
        name: local[name] for name in ("rows", "rejected", "truncated", "tokens")
    }
    assert made.summary["rejected"] == 3
    assert not (out / ".ray").exists()
    assert embed(str(save_tiny()), documents, out, rows_per_shard=10, progress=False).summary == made.summary
    with pytest.raises(LogError, match="vectors of another model"):
        embed(str(save_tiny("roberta")), documents, out, rows_per_shard=10, engine="ray", actors=1, progress=False)
    assert_same(out, on_one_machine)


@pytest.mark.slow
def test_killed_drivers_leave_every_row_once(
    cluster: str, documents: Path, on_one_machine: Path, save_tiny: Callable[..., Path], tmp_path: Path
) -> None:
    """Two drivers are killed when some shards are there; another engine is refused; a third one finishes."""
    out = tmp_path / "vectors"
    command = [sys.executable, "-c", "from fairspan.cli import main; main()", "embed", str(save_tiny())]
    command += [str(documents), str(out), "--rows-per-shard", "10", "--engine", "ray", "--address", cluster]
    for shards in (1, 5):
        driver = subprocess.Popen([*command, "--actors", "2"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        until = time.monotonic() + SECONDS
        while driver.poll() is None and len(list(out.glob("part-*.parquet"))) < shards and time.monotonic() < until:
            time.sleep(0.02)
        assert driver.poll() is None, driver.communicate()[1].decode()
        os.kill(driver.pid, signal.SIGKILL)
        driver.communicate()
    manifest = json.loads((out / "fairspan-embed.json").read_text())
    assert (manifest["status"], manifest["engine"]) == ("incomplete", "ray")
    with pytest.raises(LogError, match="begun with engine"):
        embed(str(save_tiny()), documents, out, rows_per_shard=10, progress=False)
    last = [*command, "--actors", "1", "--json"]
    done = subprocess.run(last, capture_output=True, text=True, check=True, timeout=SECONDS)
    assert json.loads(done.stdout)["summary"]["rows"] == ROWS - 4
    assert "ray" not in done.stderr.lower()
    assert_same(out, on_one_machine)


@pytest.mark.slow
def test_strict_stops_at_a_bad_row(
    cluster: str, documents: Path, save_tiny: Callable[..., Path], tmp_path: Path
) -> None:
    message = r"documents\.jsonl, row 11: 'text' must be text, got the number 5\. .* go to rejected\.jsonl\.$"
    with pytest.raises(CorpusError, match=message):
        embed(str(save_tiny()), documents, tmp_path / "out", engine="ray", actors=1, strict=True, progress=False)


@pytest.mark.slow
def test_more_actors_than_the_cluster_has_room_for(
    cluster: str, documents: Path, save_tiny: Callable[..., Path], tmp_path: Path
) -> None:
    """Of five CPUs, three read and write."""
    with pytest.raises(DesignError, match="enough for 2 actors"):
        embed(str(save_tiny()), documents, tmp_path / "out", engine="ray", actors=3, device="cpu", progress=False)
