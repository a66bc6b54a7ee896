"""Logs of any study: on disk, as results, and as pages."""

from __future__ import annotations

import gzip
import io
import json
import re
from base64 import b64decode
from collections.abc import Callable
from dataclasses import fields, replace
from functools import partial
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from fairspan.report.result import Result
from fairspan.runs.facts import facts_of, settings_of
from fairspan.runs.header import FORMAT, Timings
from fairspan.runs.log import RunLog
from fairspan.runs.writer import LogWriter
from fairspan.studies.audit.rows import SCHEMA
from fairspan.studies.logs import changes, compare, read_log
from tests.builders import length_studies, searches
from tests.builders.saying import said_by
from tests.builders.simulated import header, simulated_log, simulated_rows, with_entries
from tests.report.example import printed

TREATMENTS = ("plain", "paper", "retrieval")


def audited(folder: Path, treatments: tuple[str, ...] = TREATMENTS, **changes: Any) -> RunLog:
    """Five sets of three segments in one language, each treatment with a slope of its own."""
    tables = [
        simulated_rows(lambda p, s, k=k: 0.7 - 0.03 * p / (1 + k), sets=5, treatment=name)  # type: ignore[misc]
        for k, name in enumerate(treatments)
    ]
    return simulated_log(folder, tables, changes.pop("asked", treatments), **changes)


def searched(folder: Path, **changes: Any) -> RunLog:
    rows = searches.rows_of(searches.usual, ("plain", "paper"), clusters=6)
    return searches.log_of(folder, rows, **changes)


def studied(folder: Path, **changes: Any) -> RunLog:
    curves = {"plain": [0.2, 0.3, 0.5], "tempscale": [0.2, 0.25, 0.3]}
    return length_studies.study_of(folder, curves, lengths=(50, 100, 200), **changes)


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, RunLog]:
    """One of each study, all of one model."""
    folder = tmp_path_factory.mktemp("logs")
    return {
        "audit": audited(folder / "a", run="m-aaaaaaaa"),
        "evaluate": searched(folder / "e", run="m-eeeeeeee"),
        "collapse": studied(folder / "c", run="m-cccccccc"),
    }


class Page(HTMLParser):
    """What can be read of a page: elements, text outside of scripts, charts and files."""

    def __init__(self, made: Path | str) -> None:
        super().__init__()
        self.source = made if isinstance(made, str) else made.read_text("utf-8")
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self._words: list[str] = []
        self._silent = False
        self.feed(self.source)
        self.text = " ".join(" ".join(self._words).split())
        find = partial(re.findall, string=self.source, flags=re.S)
        charts = find(r'<script type="application/json"[^>]*>(.*?)</script>')
        self.charts: list[dict[str, Any]] = list(map(json.loads, charts))
        files = find(r'<script type="text/plain" data-file="[^"]*">(.*?)</script>')
        self.files = [gzip.decompress(b64decode(file)) for file in files]
        lists = find(r'<div class="note">(.*?)</div>')
        self.notes = [
            unescape(note) for notes in lists for note in re.findall("<p>(.*?)</p>", notes)
        ]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self._silent = tag in ("script", "style")

    def handle_endtag(self, tag: str) -> None:
        self._silent = False

    def handle_data(self, data: str) -> None:
        if not self._silent:
            self._words.append(data)


def page_of(tmp_path: Path, log: RunLog) -> Page:
    return Page(log.save_page(tmp_path / "page.html"))


# --- on disk


def test_a_log_is_read_as_it_was_written(tmp_path: Path) -> None:
    tables = [simulated_rows(lambda p, s: 0.6, treatment=name) for name in ("plain", "paper")]
    log = simulated_log(tmp_path / "run", tables, ["plain", "paper"], notes=["mind this"])
    assert log.rows.equals(pl.concat(tables))
    assert log.rows.schema == pl.Schema(SCHEMA)
    assert (log.run, log.status, log.model) == ("m-12345678", "complete", "m")
    assert (log.treatments, log.notes) == (["plain", "paper"], ["mind this"])
    assert log.header.to_json()["format"] == FORMAT
    assert log.header.to_json()["versions"]["fairspan"]
    assert log.header.started <= log.header.finished
    again = read_log(tmp_path / "run" / "run.json")
    assert (again.header.to_json(), again.folder) == (log.header.to_json(), log.folder)
    assert sorted(file.name for file in log.folder.iterdir()) == ["rows.parquet", "run.json"]


@pytest.mark.parametrize("name", ["runs [old]", "runs *", "a?"])
def test_a_folder_may_have_any_name(tmp_path: Path, name: str) -> None:
    """Readers of Parquet may take brackets and asterisks for patterns."""
    table = simulated_rows(lambda p, s: 0.6)
    assert simulated_log(tmp_path / name, [table]).rows.equals(table)


REMEDY = "choose another folder, or remove this one and run its command again."


def test_what_is_no_folder_of_a_run_is_one_line(tmp_path: Path) -> None:
    line = said_by(read_log, tmp_path)
    assert f"{tmp_path} is not the folder of a run: it has no run.json" in line
    assert "is not the folder of a run" in said_by(read_log, tmp_path / "nowhere")
    (tmp_path / "file").write_text("x", encoding="utf-8")
    assert "cannot be read" in said_by(read_log, tmp_path / "file")
    LogWriter(tmp_path / "begun", header(["plain"]))
    line = said_by(read_log, tmp_path / "begun")
    assert "is running and has no rows yet: run its command again" in line


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda rows: rows.drop("value"), "rows.parquet lacks the column value as it was"),
        (lambda rows: rows.cast({"n": pl.Float64}), "rows.parquet lacks the column n as it was"),
        (lambda rows: rows.head(3), "rows.parquet has 3 of 135 rows"),
        (None, "ComputeError"),
    ],
)
def test_changed_rows_are_one_line(
    tmp_path: Path, change: Callable[..., pl.DataFrame] | None, reason: str
) -> None:
    log = audited(tmp_path / "run")
    file = log.folder / "rows.parquet"
    if change is None:
        file.write_bytes(file.read_bytes()[:-40])
    else:
        change(log.rows).write_parquet(file)
    line = said_by(read_log, log.folder)
    assert line.startswith(f"the log {log.folder} cannot be used ({reason}")
    assert line.endswith("Run its command again.")


@pytest.mark.parametrize("verb", ["audit", "evaluate", "collapse"])
def test_every_header_of_another_make_is_one_line(
    tmp_path: Path, logs: dict[str, RunLog], verb: str
) -> None:
    """Each entry in turn has another type, or an unknown verb."""
    kept = logs[verb].header.to_json()
    (tmp_path / "rows.parquet").write_bytes((logs[verb].folder / "rows.parquet").read_bytes())

    def line_for(**changes: Any) -> str:
        (tmp_path / "run.json").write_text(json.dumps({**kept, **changes}), "utf-8")
        return said_by(read_log, tmp_path)

    for name in {*kept} - {"study", "analysis"}:
        assert "\n" not in line_for(**{name: [0.5]}), name
    assert "run.json cannot be read (rows is 'x'): choose another folder" in line_for(rows="x")
    verbs = "and this fairspan knows audit, collapse, evaluate, tune."
    for other in ("inspect", "dream"):
        assert line_for(verb=other) == f"{tmp_path} holds a run of {other!r}, {verbs}"


def test_a_fault_of_the_program_is_not_taken_for_a_changed_file(
    logs: dict[str, RunLog], tmp_path: Path
) -> None:
    """What goes wrong in statistics and views passes unchanged, wherever it is shown."""
    log = no_statistics(logs["audit"])
    for use in (lambda: log.view, log.to_dict, lambda: log.save_page(tmp_path / "page.html")):
        with pytest.raises(KeyError, match="a fault"):
            use()


def test_a_header_is_changed_by_its_writer_alone(tmp_path: Path) -> None:
    """No list of it can be appended to; what the writer notes is noted once."""
    writer = LogWriter(tmp_path, header(["plain"], notes=["first"]))
    before = writer.header
    for _ in range(2):
        writer.note("second")
    assert (before.notes, writer.header.notes) == (("first",), ("first", "second"))
    values = [getattr(before, field.name) for field in fields(before)]
    assert not [value for value in values if isinstance(value, list)]


@pytest.mark.parametrize("status", ["complete", "interrupted"])
def test_a_run_that_fails_before_its_first_rows_leaves_the_log_that_is_there(
    tmp_path: Path, status: str
) -> None:
    """Also a part of one: with its first rows the new run takes its place."""
    rows = simulated_rows(lambda p, s: 0.6)
    before = simulated_log(tmp_path, [rows], status=status)
    LogWriter(tmp_path, header(["plain"])).finish("failed", Timings(), "no memory")
    kept = read_log(tmp_path)
    assert (kept.status, kept.header.to_json()) == (status, before.header.to_json())
    assert kept.rows.equals(before.rows)
    writer = LogWriter(tmp_path, header(["plain"]))
    writer.add(rows.head(3))
    writer.finish("failed", Timings(), "no memory")
    kept = read_log(tmp_path)
    is_kept = status == "complete"
    assert (kept.status, len(kept.rows)) == ((status, len(rows)) if is_kept else ("failed", 3))


# --- as a result


@pytest.mark.parametrize("verb", ["audit", "evaluate", "collapse"])
def test_every_log_is_a_result(logs: dict[str, RunLog], verb: str, tmp_path: Path) -> None:
    """Verdicts, frames and figures by name, one line, HTML for notebooks, and JSON without NaN."""
    log = logs[verb]
    assert isinstance(log, Result)
    assert {"treatment", "verdict", "sentence"} <= set(log.verdicts.columns)
    assert log.frame("verdicts") is log.verdicts
    assert log.figure().to_dict() == log.figure(log.view.picture).to_dict()
    assert repr(log).startswith(f"<{log.view.heading}")
    assert all(f"{card.name}: {card.badge}" in repr(log) for card in log.view.cards)
    assert log._repr_html_().count("<tr>") == len(log.view.cards)
    assert read_log(log.folder, margin=0.9).spec["margin"] == 0.9 != log.spec["margin"]
    away = with_entries(log, model={"name": "/home/somebody/tiny", "fingerprint": "f"})
    assert away.view.heading.startswith("tiny on ")
    told = json.loads(json.dumps(log.to_dict(), allow_nan=False))
    assert (told["verb"], told["run"], told["status"]) == (verb, log.run, "complete")
    assert told["folder"] == str(log.folder)
    assert ("task" in told) == (verb == "evaluate")
    for name, frame in log.view.frames.items():
        assert len(told[name]) == len(frame)
    page = page_of(tmp_path, log)
    [spec] = re.findall(r"</summary><pre>(.*?)</pre>", page.source, re.S)
    assert json.loads(unescape(spec)) == log.spec
    for name, value in (*facts_of(log.header), *settings_of(log.header)):
        assert f"{name} {value}" in page.text
    assert all(sentence in page.text for sentence in log.view.methods)
    rows, statistics = page.files
    read = pl.read_csv(io.BytesIO(rows), schema_overrides=log.kind.schema)
    assert_frame_equal(read, log.rows.select(read.columns))
    left = set(log.rows.columns) - set(read.columns)
    assert all(log.rows[name].null_count() == len(log.rows) for name in left)
    assert json.loads(statistics) == {name: told[name] for name in told if name != "folder"}


@pytest.mark.parametrize(
    ("status", "how"),
    [("interrupted", "was interrupted"), ("asleep", "is asleep"), ("complete", "")],
)
def test_an_unfinished_run_says_so_first(tmp_path: Path, status: str, how: str) -> None:
    """On its page, in the terminal and in JSON; what it has is shown."""
    notes = ["another note"]
    log = audited(tmp_path / "run", ("plain",), asked=TREATMENTS, status=status, notes=notes)
    page = page_of(tmp_path, log)
    expected = [*([f"this run {how}: 1 of 3 treatments were measured"] if how else []), *notes]
    assert page.notes == expected
    assert log.to_dict()["notes"] == expected
    lines = printed(log.view, width=200).splitlines()
    assert [line for line in lines if line.startswith("note: ")] == [
        f"note: {note}" for note in expected
    ]
    assert log.notes == notes, "what the log has is kept as it is"
    assert [chart.names for chart in log.view.charts()] == [["plain"]]
    assert (f"status {status}" in page.text) == bool(how)


def test_only_evaluations_are_compared(logs: dict[str, RunLog]) -> None:
    said = f"the run {logs['audit'].run} is a run of audit: only runs of evaluate are compared."
    for runs in ([logs["audit"]], [logs["evaluate"], logs["audit"]]):
        assert said_by(compare, *runs) == said_by(changes, *runs) == said


# --- the page of one run


def test_nobody_learns_where_things_lie(tmp_path: Path) -> None:
    """Neither the run's folder nor paths of models, corpora and tasks; their last parts remain."""
    home = "/home/somebody/secret"
    texts, task = f"{home}/texts/mine", f"beir:{home}/nq"
    model = {"model": {"name": f"{home}/models/bge-m3", "fingerprint": "f"}}
    on_texts = {**model, "notes": [f"{texts} has 3 empty texts"]}
    corpus = {"name": texts, "fingerprint": "f", "languages": ["en"]}
    audit = audited(tmp_path / "a", run="r-1", spec={"corpus": texts}, **on_texts)
    search = searched(
        tmp_path / "e", run="r-2", kind="questions", notes=[f"{home}/nq has 3 empty texts"], **model
    )
    length = studied(tmp_path / "c", run="r-3", corpus=corpus, **on_texts)
    named_task = {**search.header.to_json()["task"], "source": task, "names": [f"{home}/nq"]}
    logs = [
        with_entries(audit, sources=[texts]),
        with_entries(search, task=named_task, spec={**search.spec, "task": task}, sources=[task]),
        with_entries(length, spec={**length.spec, "corpus": texts}, sources=[texts]),
    ]
    assert all(home in json.dumps(log.to_dict()) for log in logs), "the premise"
    notes = []
    for log in logs:
        page = page_of(tmp_path, log)
        notes += page.notes
        whole = page.source + "".join(data.decode() for data in page.files)
        assert home not in whole
        assert str(tmp_path) not in whole
        assert "bge-m3" in page.text
    assert ("task", "beir:nq") in facts_of(logs[1].header)
    assert notes == [f"{name} has 3 empty texts" for name in ("mine", "nq", "mine")]


def no_statistics(log: RunLog) -> RunLog:
    """The same, whose view cannot be made."""

    def show(log: RunLog) -> Any:
        raise KeyError("a fault")

    return replace(log, kind=replace(log.kind, view=show))
