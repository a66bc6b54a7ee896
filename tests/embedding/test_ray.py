"""Embedding with Ray: the same rows and vectors as on one machine, also with killed processes."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import fairspan
from fairspan.embedding.run import embed
from fairspan.embedding.shards import shard_name
from fairspan.errors import DesignError, FairspanError, MissingExtra
from tests.builders.tiny import words

ROWS = 120
# Ray is slow to start where there are few cores, and a stalled run must end.
SECONDS = 900
TENS: dict[str, Any] = {"rows_per_shard": 10, "progress": False}


@pytest.fixture(scope="module")
def cluster() -> Iterator[str]:
    """The address of a cluster on this machine, which all tests here share."""
    pytest.importorskip("ray")
    from fairspan.embedding.ray_engine import ray_library

    ray = ray_library()
    ray.init(
        address="local",
        num_cpus=2,
        object_store_memory=200 << 20,
        include_dashboard=False,
        log_to_driver=False,
        logging_level="ERROR",
    )
    yield ray.get_runtime_context().gcs_address
    ray.shutdown()


@pytest.fixture(scope="module")
def documents(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Rows of different lengths; a number for a text, no JSON, a blank line and an empty text."""
    file = tmp_path_factory.mktemp("input") / "documents.jsonl"
    rows = [{"id": f"d{row}", "text": words(3 + row * 7 % 40, row)} for row in range(ROWS)]
    lines = [json.dumps(row).encode() for row in rows]
    lines[10] = b'{"id": "wrong", "text": 5}'
    lines[30:32] = b"\xff{", b""
    lines[90] = b'{"id": "d0", "text": " "}'
    file.write_bytes(b"\n".join(lines) + b"\n")
    return file


def assert_same(made: Path, expected: Path) -> None:
    """The same files, bit by bit: units do not depend on who embeds them."""
    names = [sorted(file.name for file in folder.glob("[!.]*")) for folder in (made, expected)]
    assert names[0] == names[1]
    for name in names[0]:
        if name.endswith(".parquet"):
            assert pl.read_parquet(made / name).equals(pl.read_parquet(expected / name))
    assert (made / "rejected.jsonl").read_bytes() == (expected / "rejected.jsonl").read_bytes()


@pytest.fixture(scope="module")
def model(save_tiny: Callable[..., Path]) -> str:
    return str(save_tiny())


@pytest.fixture(scope="module")
def on_one_machine(documents: Path, model: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("local") / "vectors"
    embed(model, documents, out, **TENS)
    return out


def test_the_other_engine_has_no_cluster(documents: Path, tmp_path: Path, model: str) -> None:
    for options in ({"address": "auto"}, {"actors": 2}):
        with pytest.raises(DesignError, match="is for engine=ray"):
            embed(model, documents, tmp_path / "out", **options)
    with pytest.raises(DesignError, match="engine is local or ray"):
        embed(model, documents, tmp_path / "out", engine="spark")


def test_ray_is_an_extra(
    documents: Path, tmp_path: Path, model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtra, match=r"pip install 'fairspan\[ray\]'"):
        embed(model, documents, tmp_path / "out", engine="ray")


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("127.0.0.1:1", "no Ray cluster at 127.0.0.1:1"),
        ("ray://127.0.0.1:10001", "set address=auto, or host:port"),
        ("somewhere", "set address=auto, or host:port"),
    ],
)
def test_a_cluster_that_is_not_there_is_refused(
    address: str, said: str, documents: Path, tmp_path: Path, model: str
) -> None:
    pytest.importorskip("ray")
    began = time.monotonic()
    with pytest.raises(DesignError, match=said):
        embed(model, documents, tmp_path / "out", engine="ray", address=address)
    assert time.monotonic() - began < 30
    assert not (tmp_path / "out").exists()


def test_a_model_in_memory_cannot_be_sent(
    documents: Path, tmp_path: Path, make_tiny: Callable[..., Any]
) -> None:
    pytest.importorskip("ray")
    with pytest.raises(DesignError, match="given by its name or folder"):
        embed(make_tiny(), documents, tmp_path / "out", engine="ray")


@pytest.mark.slow
def test_same_rows_and_vectors_as_on_one_machine(
    cluster: str,
    documents: Path,
    on_one_machine: Path,
    model: str,
    save_tiny: Callable[..., Path],
    tmp_path: Path,
) -> None:
    out = tmp_path / "vectors"
    made = embed(model, documents, out, engine="ray", actors=2, **TENS)
    assert_same(out, on_one_machine)
    local = json.loads((on_one_machine / "fairspan-embed.json").read_text())["summary"]
    assert made.summary | {"seconds": 0} == local | {"seconds": 0}
    assert made.summary["rejected"] == 3
    assert embed(model, documents, out, **TENS).summary == made.summary
    with pytest.raises(FairspanError, match="vectors of another model"):
        embed(str(save_tiny("roberta")), documents, out, engine="ray", actors=1, **TENS)
    assert_same(out, on_one_machine)
    short = fairspan.load(model)
    short.max_seq_length = 24
    long = fairspan.calibrate(short, "tiles-128+short_texts=leave")
    long.save_pretrained(str(tmp_path / "long"), create_model_card=False)
    for engine in ("local", "ray"):
        how: dict[str, Any] = {"engine": engine, "only_longer_than_window": True, **TENS}
        made = embed(str(tmp_path / "long"), documents, tmp_path / engine, **how)
        assert 0 < made.summary["skipped"] == ROWS - 4 - made.summary["rows"]
    assert_same(tmp_path / "ray", tmp_path / "local")


@pytest.mark.slow
def test_a_killed_driver_leaves_every_row_once(
    cluster: str, documents: Path, on_one_machine: Path, model: str, tmp_path: Path
) -> None:
    """A driver is killed when some shards are there; another one and this machine finish."""
    out = tmp_path / "vectors"
    options = f"--rows-per-shard 10 --engine ray --address {cluster}".split()
    command = [sys.executable, "-c", "from fairspan.cli import main; main()", "embed"]
    command += [model, str(documents), str(out), *options]
    pipes: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
    driver = subprocess.Popen([*command, "--actors", "2"], **pipes)
    until = time.monotonic() + SECONDS
    while driver.poll() is None and time.monotonic() < until:
        if len(list(out.glob("part-*.parquet"))) >= 3:
            break
        time.sleep(0.02)
    assert driver.poll() is None, driver.communicate()[1].decode()
    os.kill(driver.pid, signal.SIGKILL)
    driver.communicate()
    manifest = json.loads((out / "fairspan-embed.json").read_text())
    assert manifest["status"] == "incomplete"
    shutil.copytree(out, tmp_path / "here")
    last = [*command, "--actors", "1", "--json"]
    done = subprocess.run(last, capture_output=True, text=True, check=True, timeout=SECONDS)
    assert json.loads(done.stdout)["summary"]["rows"] == ROWS - 4
    assert "ray" not in done.stderr.lower()
    assert_same(out, on_one_machine)
    embed(model, documents, tmp_path / "here", **TENS)
    assert_same(tmp_path / "here", on_one_machine)


class Deadly(str):
    """A text that ends the process that receives it."""

    def __reduce__(self) -> Any:
        return os._exit, (1,)


@pytest.mark.slow
def test_a_unit_that_kills_its_actor_is_named_and_the_rest_goes_on(
    cluster: str, documents: Path, on_one_machine: Path, model: str, tmp_path: Path
) -> None:
    """The unit beside it in the same actor is embedded; the next call tries the named one again."""
    from fairspan.embedding import run as job

    units = job.units_of

    def deadly(*given: Any) -> Iterator[Any]:
        for unit in units(*given):
            texts = [replace(row, text=Deadly(row.text)) for row in unit.rows]
            yield replace(unit, rows=texts) if unit.number == 3 else unit

    how: dict[str, Any] = {"engine": "ray", "actors": 1, **TENS}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(job, "units_of", deadly)
        with pytest.raises(FairspanError) as caught:
            embed(model, documents, tmp_path / "out", **how)
    assert f"at {shard_name(3)} (documents.jsonl, line 31 to 41). Perhaps" in str(caught.value)
    assert str(caught.value).endswith("the same command tries again what is missing.")
    names = {file.name for file in (tmp_path / "out").glob("part-*")}
    assert names == {shard_name(number) for number in range(12)} - {shard_name(3)}
    assert (
        json.loads((tmp_path / "out" / "fairspan-embed.json").read_text())["status"] != "complete"
    )
    embed(model, documents, tmp_path / "out", **how)
    assert_same(tmp_path / "out", on_one_machine)
