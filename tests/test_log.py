"""Logs on disk: what is written is read, and what is damaged is said in one line."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from fairspan.errors import LogError
from fairspan.runs.log import FORMAT, LogWriter
from fairspan.runs.rows import SCHEMA
from fairspan.studies.logs import read_log
from tests.simulated import header, simulated_log, simulated_rows


def test_a_log_is_read_as_it_was_written(tmp_path: Path) -> None:
    first, second = (simulated_rows(lambda p, s: 0.6, treatment=name) for name in ("none", "paper"))
    log = simulated_log(tmp_path / "run", [first, second], ["none", "paper"], notes=["mind this"])
    assert log.rows.equals(pl.concat([first, second]))
    assert log.rows.schema == pl.Schema(SCHEMA)
    assert (log.run, log.status, log.model, log.treatments) == ("m-12345678", "complete", "m", ["none", "paper"])
    assert log.notes == ["mind this"]
    assert log.header["format"] == FORMAT
    assert log.header["versions"]["fairspan"]
    assert log.header["started"] <= log.header["finished"]
    again = read_log(tmp_path / "run" / "run.json")
    assert again.header == log.header
    assert again.folder == log.folder
    assert sorted(file.name for file in log.folder.iterdir()) == ["rows.parquet", "run.json"]


@pytest.mark.parametrize("name", ["runs [old]", "runs *", "a?"])
def test_a_folder_may_have_any_name(tmp_path: Path, name: str) -> None:
    """Readers of Parquet may take brackets and asterisks for patterns."""
    table = simulated_rows(lambda p, s: 0.6)
    assert simulated_log(tmp_path / name, [table]).rows.equals(table)


def said_by(action: Callable[[], object]) -> str:
    with pytest.raises(LogError) as caught:
        action()
    assert "\n" not in str(caught.value)
    return str(caught.value)


def damaged(tmp_path: Path, content: bytes | Mapping[str, Any]) -> Path:
    folder = simulated_log(tmp_path / "run", [simulated_rows(lambda p, s: 0.6)]).folder
    text = content if isinstance(content, bytes) else json.dumps(content).encode()
    (folder / "run.json").write_bytes(text)
    return folder


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ({"format": FORMAT + 1, "status": "complete"}, f"has format {FORMAT + 1}, and this fairspan reads format"),
        ({"status": "complete"}, "has format None"),
        (b"[]", "has format None"),
        (b'{"format": 1, "sta', "cannot be read"),
        (b"", "cannot be read"),
        (b"\xff\xfe\x00", "cannot be read"),
    ],
)
def test_a_damaged_header_is_one_line(tmp_path: Path, content: bytes | dict[str, Any], said: str) -> None:
    folder = damaged(tmp_path, content)
    line = said_by(lambda: read_log(folder))
    assert said in line
    assert "run.json" in line


def test_a_header_that_lacks_its_entries_is_one_line(tmp_path: Path) -> None:
    folder = damaged(tmp_path, {"format": FORMAT})
    (folder / "rows.parquet").unlink()
    assert str(folder) in said_by(lambda: read_log(folder))


def test_a_folder_without_a_run_is_one_line(tmp_path: Path) -> None:
    assert f"{tmp_path} is not the folder of a run: it has no run.json" in said_by(lambda: read_log(tmp_path))
    assert "is not the folder of a run" in said_by(lambda: read_log(tmp_path / "nowhere"))
    (tmp_path / "file").write_text("x", encoding="utf-8")
    assert "cannot be read" in said_by(lambda: read_log(tmp_path / "file"))


def test_missing_and_damaged_rows_are_one_line(tmp_path: Path) -> None:
    LogWriter(tmp_path / "begun", header(["none"]))
    assert "is running and has no rows yet: run its command again" in said_by(lambda: read_log(tmp_path / "begun"))
    folder = simulated_log(tmp_path / "run", [simulated_rows(lambda p, s: 0.6)]).folder
    (folder / "rows.parquet").write_bytes((folder / "rows.parquet").read_bytes()[:-40])
    assert "rows.parquet cannot be read" in said_by(lambda: read_log(folder))


def test_every_write_replaces_a_whole_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A write that fails half-way leaves the rows before it, and nothing beside them."""
    first = simulated_rows(lambda p, s: 0.6)
    writer = LogWriter(tmp_path / "run", header(["none", "paper"]))
    writer.add(first)

    def half(self: pl.DataFrame, file: Path) -> None:
        Path(file).write_bytes(b"PAR1 half of it")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pl.DataFrame, "write_parquet", half)
    line = said_by(lambda: writer.add(simulated_rows(lambda p, s: 0.6, treatment="paper")))
    assert "No space left on device" in line
    assert "make room or choose another with out=" in line
    assert sorted(file.name for file in (tmp_path / "run").iterdir()) == ["rows.parquet", "run.json"]
    assert read_log(tmp_path / "run").rows.equals(first)


def test_a_header_that_cannot_be_written_leaves_the_one_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = LogWriter(tmp_path / "run", header(["none"]))
    writer.add(simulated_rows(lambda p, s: 0.6))

    def half(self: Path, text: str, *options: Any) -> int:
        self.write_bytes(text[:20].encode())
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_text", half)
    said_by(lambda: writer.finish("complete"))
    monkeypatch.undo()
    assert read_log(tmp_path / "run").status == "running"
    assert sorted(file.name for file in (tmp_path / "run").iterdir()) == ["rows.parquet", "run.json"]


def test_a_new_run_does_not_inherit_rows(tmp_path: Path) -> None:
    """A run that fails before its first rows has none, whatever lay in its folder."""
    simulated_log(tmp_path / "run", [simulated_rows(lambda p, s: 0.6)])
    LogWriter(tmp_path / "run", header(["none"], run="m-another")).finish("failed", error="no memory")
    assert "has no rows" in said_by(lambda: read_log(tmp_path / "run"))


def test_a_folder_that_cannot_be_made_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x", encoding="utf-8")
    line = said_by(lambda: LogWriter(tmp_path / "file", header(["none"])))
    assert "cannot be written" in line
    assert "out=" in line
