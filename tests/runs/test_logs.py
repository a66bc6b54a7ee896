"""Logs of any study: on disk, as results, and as pages."""

from __future__ import annotations

import gzip
import io
import json
import re
from base64 import b64decode
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal
from rich.console import Console

from fairspan.report.result import Result
from fairspan.report.terminal import print_view
from fairspan.runs.facts import facts_of, settings_of
from fairspan.runs.header import FORMAT, Timings
from fairspan.runs.log import RunLog
from fairspan.runs.writer import LogWriter
from fairspan.studies.audit.rows import SCHEMA
from fairspan.studies.logs import changes, compare, read_log
from tests.builders import length_studies, searches
from tests.builders.saying import said_by
from tests.builders.simulated import header, simulated_log, simulated_rows, with_entries

TREATMENTS = ("plain", "paper", "retrieval")


def audited(folder: Path, treatments: tuple[str, ...] = TREATMENTS, **changes: Any) -> RunLog:
    """Five sets of three segments in one language, each treatment with a slope of its own."""
    plan = changes.pop("plan", ("en", "en"))
    tables = [
        simulated_rows(
            lambda p, s, k=k: 0.7 - 0.03 * p / (1 + k),  # type: ignore[misc]
            sets=changes.get("sets", 5),
            plan=plan,
            treatment=name,
        )
        for k, name in enumerate(treatments)
    ]
    changes.pop("sets", None)
    return simulated_log(folder, tables, changes.pop("asked", treatments), **changes)


def searched(
    folder: Path, treatments: tuple[str, ...] = ("plain", "paper"), **changes: Any
) -> RunLog:
    clusters = changes.pop("clusters", 6)
    rows = searches.rows_of(searches.usual, treatments, clusters=clusters)
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

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self._silent = tag in ("script", "style")

    def handle_endtag(self, tag: str) -> None:
        self._silent = False

    def handle_data(self, data: str) -> None:
        if not self._silent:
            self._words.append(data)

    @property
    def charts(self) -> list[dict[str, Any]]:
        found = re.findall(
            r'<script type="application/json"[^>]*>(.*?)</script>', self.source, re.S
        )
        return [json.loads(text) for text in found]

    @property
    def files(self) -> list[bytes]:
        found = re.findall(
            r'<script type="text/plain" data-file="[^"]*">(.*?)</script>', self.source, re.S
        )
        return [gzip.decompress(b64decode(text)) for text in found]

    @property
    def notes(self) -> list[str]:
        lists = re.findall(r'<div class="note">(.*?)</div>', self.source)
        return [unescape(note) for notes in lists for note in re.findall(r"<p>(.*?)</p>", notes)]


def page_of(tmp_path: Path, log: RunLog, title: str | None = None) -> Page:
    return Page(log.save_page(tmp_path / "page.html", title))


# --- on disk


def test_a_log_is_read_as_it_was_written(tmp_path: Path) -> None:
    first, second = (
        simulated_rows(lambda p, s: 0.6, treatment=name) for name in ("plain", "paper")
    )
    log = simulated_log(tmp_path / "run", [first, second], ["plain", "paper"], notes=["mind this"])
    assert log.rows.equals(pl.concat([first, second]))
    assert log.rows.schema == pl.Schema(SCHEMA)
    assert (log.run, log.status, log.model) == ("m-12345678", "complete", "m")
    assert log.treatments == ["plain", "paper"]
    assert log.notes == ["mind this"]
    assert log.header.to_json()["format"] == FORMAT
    assert log.header.to_json()["versions"]["fairspan"]
    assert log.header.started <= log.header.finished
    again = read_log(tmp_path / "run" / "run.json")
    assert again.header.to_json() == log.header.to_json()
    assert again.folder == log.folder
    assert sorted(file.name for file in log.folder.iterdir()) == ["rows.parquet", "run.json"]


def test_a_log_of_an_earlier_version_is_refused_in_one_line(tmp_path: Path) -> None:
    """With what to do; the command that wrote it says the same, which does not read it either."""
    (tmp_path / "run.json").write_text('{"format": 2, "verb": "audit", "status": "complete"}')
    remedy = "choose another folder, or remove this one and run its command again."
    line = (
        f"{tmp_path / 'run.json'} has format 2, and this fairspan reads format {FORMAT}: {remedy}"
    )
    assert said_by(lambda: read_log(tmp_path)) == line
    assert said_by(lambda: LogWriter(tmp_path, header(["plain"]))) == line


@pytest.mark.parametrize("name", ["runs [old]", "runs *", "a?"])
def test_a_folder_may_have_any_name(tmp_path: Path, name: str) -> None:
    """Readers of Parquet may take brackets and asterisks for patterns."""
    table = simulated_rows(lambda p, s: 0.6)
    assert simulated_log(tmp_path / name, [table]).rows.equals(table)


def damaged(tmp_path: Path, content: bytes | Mapping[str, Any]) -> Path:
    folder = simulated_log(tmp_path / "run", [simulated_rows(lambda p, s: 0.6)]).folder
    text = content if isinstance(content, bytes) else json.dumps(content).encode()
    (folder / "run.json").write_bytes(text)
    return folder


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (
            {"format": FORMAT + 1},
            f"reads format {FORMAT}: choose another folder, or remove this one",
        ),
        ({"status": "complete"}, "has format None"),
        (b"[]", "has format None"),
        (b'{"format": 1, "sta', "cannot be read"),
        (b"", "cannot be read"),
        (b"\xff\xfe\x00", "cannot be read"),
    ],
)
def test_a_damaged_header_is_one_line(
    tmp_path: Path, content: bytes | dict[str, Any], said: str
) -> None:
    folder = damaged(tmp_path, content)
    line = said_by(lambda: read_log(folder))
    assert said in line
    assert "run.json" in line


def test_a_folder_without_a_run_is_one_line(tmp_path: Path) -> None:
    assert f"{tmp_path} is not the folder of a run: it has no run.json" in said_by(
        lambda: read_log(tmp_path)
    )
    assert "is not the folder of a run" in said_by(lambda: read_log(tmp_path / "nowhere"))
    (tmp_path / "file").write_text("x", encoding="utf-8")
    assert "cannot be read" in said_by(lambda: read_log(tmp_path / "file"))


def test_missing_and_damaged_rows_are_one_line(tmp_path: Path) -> None:
    LogWriter(tmp_path / "begun", header(["plain"]))
    assert "is running and has no rows yet: run its command again" in said_by(
        lambda: read_log(tmp_path / "begun")
    )
    folder = simulated_log(tmp_path / "run", [simulated_rows(lambda p, s: 0.6)]).folder
    (folder / "rows.parquet").write_bytes((folder / "rows.parquet").read_bytes()[:-40])
    assert "cannot be used (ComputeError" in said_by(lambda: read_log(folder))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda rows: rows.drop("value"), "lacks the column value as it was"),
        (lambda rows: rows.cast({"n": pl.Float64}), "lacks the column n as it was"),
        (lambda rows: rows.head(3), "has 3 of 135 rows"),
    ],
)
def test_rows_of_another_make_are_one_line(
    tmp_path: Path, change: Callable[..., pl.DataFrame], said: str
) -> None:
    log = audited(tmp_path / "run")
    change(log.rows).write_parquet(log.folder / "rows.parquet")
    line = said_by(lambda: read_log(log.folder))
    assert line.startswith(f"the log {log.folder} cannot be used (rows.parquet {said})")
    assert line.endswith("Run its command again.")


@pytest.mark.parametrize("verb", ["audit", "evaluate", "collapse"])
def test_every_header_of_another_make_is_one_line(
    tmp_path: Path, logs: dict[str, RunLog], verb: str
) -> None:
    """Each entry in turn has another type."""
    kept = logs[verb].header.to_json()
    (tmp_path / "rows.parquet").write_bytes((logs[verb].folder / "rows.parquet").read_bytes())
    for name in kept:
        if name in ("study", "analysis"):
            continue
        (tmp_path / "run.json").write_text(json.dumps({**kept, name: [0.5]}), "utf-8")
        assert "\n" not in said_by(lambda: read_log(tmp_path)), name
    (tmp_path / "run.json").write_text(json.dumps({**kept, "rows": "x"}), "utf-8")
    said = "run.json cannot be read (rows is 'x'): choose another folder"
    assert said in said_by(lambda: read_log(tmp_path))


def test_a_fault_of_the_program_is_not_taken_for_a_changed_file(
    logs: dict[str, RunLog], tmp_path: Path
) -> None:
    """What goes wrong in statistics and views passes unchanged, wherever it is shown."""

    def show(log: RunLog) -> Any:
        raise KeyError("a fault")

    log = replace(logs["audit"], kind=replace(logs["audit"].kind, view=show))
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


@pytest.mark.parametrize("verb", ["inspect", "dream"])
def test_a_run_of_an_unknown_verb_is_one_line(tmp_path: Path, verb: Any) -> None:
    folder = audited(tmp_path / "run").folder
    known = json.loads((folder / "run.json").read_text("utf-8"))
    (folder / "run.json").write_text(json.dumps({**known, "verb": verb}), "utf-8")
    line = said_by(lambda: read_log(folder))
    assert (
        line == f"{folder} holds a run of {verb!r}, and this fairspan knows audit, collapse, "
        "evaluate, tune."
    )


# --- as a result


@pytest.mark.parametrize("verb", ["audit", "evaluate", "collapse"])
def test_every_log_is_a_result(logs: dict[str, RunLog], verb: str, tmp_path: Path) -> None:
    """Verdicts, frames and figures by name, one line, HTML for notebooks, and JSON without NaN."""
    log = logs[verb]
    assert isinstance(log, Result)
    assert {"treatment", "verdict", "sentence"} <= set(log.verdicts.columns)
    assert log.frame("verdicts") is log.verdicts
    assert f"only {', '.join(log.view.frames)}" in said_by(lambda: log.frame("x"))
    assert "there is no figure 'x', only" in said_by(lambda: log.figure("x"))
    assert log.figure().to_dict() == log.figure(log.view.picture).to_dict()
    line = repr(log)
    assert "\n" not in line
    assert line.startswith(f"<{log.view.heading}")
    assert all(f"{card.name}: {card.badge}" in line for card in log.view.cards)
    html = log._repr_html_()
    assert html.count("<tr>") == len(log.view.cards)
    away = with_entries(log, model={"name": "/home/somebody/tiny", "fingerprint": "f"})
    assert away.view.heading.startswith("tiny on ")
    assert "data:image/svg+xml;base64," in html
    told = json.loads(json.dumps(log.to_dict(), allow_nan=False))
    assert (told["verb"], told["run"], told["status"]) == (verb, log.run, "complete")
    assert told["folder"] == str(log.folder)
    assert ("task" in told) == (verb == "evaluate")
    for name, frame in log.view.frames.items():
        assert len(told[name]) == len(frame)
    page = Page(log.save_page(tmp_path / "own.html"))
    assert page.source == page_of(tmp_path, log).source


@pytest.mark.parametrize(
    ("status", "how"),
    [
        ("running", "has not finished"),
        ("interrupted", "was interrupted"),
        ("failed", "failed"),
        ("asleep", "is asleep"),
        ("complete", ""),
    ],
)
def test_an_unfinished_run_says_so_first(tmp_path: Path, status: str, how: str) -> None:
    """On its page, in the terminal and in JSON; what it has is shown."""
    log = audited(
        tmp_path / "run", ("plain",), asked=TREATMENTS, status=status, notes=["another note"]
    )
    page = page_of(tmp_path, log)
    said = f"this run {how}: 1 of 3 treatments were measured"
    expected = [said, "another note"] if how else ["another note"]
    assert page.notes == expected
    assert log.to_dict()["notes"] == expected
    shown = io.StringIO()
    print_view(Console(width=200, file=shown), log.view)
    notes = [line for line in shown.getvalue().splitlines() if line.startswith("note: ")]
    assert notes == [f"note: {note}" for note in expected]
    assert log.notes == ["another note"], "what the log has is kept as it is"
    assert [chart.names for chart in log.view.charts()] == [["plain"]]
    assert (f"status {status}" in page.text) == bool(how)


def test_only_evaluations_are_compared(logs: dict[str, RunLog]) -> None:
    for verb in ("audit", "collapse"):
        said = f"the run {logs[verb].run} is a run of {verb}: only runs of evaluate are compared."
        for runs in ([logs[verb]], [logs[verb]] * 2, [logs["evaluate"], logs[verb]]):
            assert said_by(compare, *runs) == said
            assert said_by(changes, *runs) == said


# --- the page of one run


def test_everything_needed_to_do_it_again_is_on_the_page(
    logs: dict[str, RunLog], tmp_path: Path
) -> None:
    for log in logs.values():
        page = page_of(tmp_path, log)
        [spec] = re.findall(r"</summary><pre>(.*?)</pre>", page.source, re.S)
        assert json.loads(unescape(spec)) == log.spec
        for name, value in (*facts_of(log.header), *settings_of(log.header)):
            assert f"{name} {value}" in page.text
        assert all(sentence in page.text for sentence in log.view.methods)


def test_rows_and_statistics_travel_in_the_page(logs: dict[str, RunLog], tmp_path: Path) -> None:
    for log in logs.values():
        rows, statistics = page_of(tmp_path, log).files
        read = pl.read_csv(io.BytesIO(rows), schema_overrides=log.kind.schema)
        assert_frame_equal(read, log.rows.select(read.columns))
        left = set(log.rows.columns) - set(read.columns)
        assert all(log.rows[name].null_count() == len(log.rows) for name in left)
        told = log.to_dict()
        del told["folder"]
        assert json.loads(statistics) == json.loads(json.dumps(told))


def test_nobody_learns_where_things_lie(tmp_path: Path) -> None:
    """Neither the run's folder nor paths of models, corpora and tasks; their last parts remain."""
    home = "/home/somebody/secret"
    model = {"model": {"name": f"{home}/models/bge-m3", "fingerprint": "f"}}
    named = {**model, "notes": [f"{home}/texts/mine has 3 empty texts"]}
    corpus = {"name": f"{home}/texts/mine", "fingerprint": "f", "languages": ["en"]}
    found = [
        audited(tmp_path / "a", run="r-1", spec={"corpus": f"{home}/texts/mine"}, **named),
        searched(
            tmp_path / "e",
            run="r-2",
            kind="questions",
            **{**model, "notes": [f"{home}/nq has 3 empty texts"]},
        ),
        studied(tmp_path / "c", run="r-3", corpus=corpus, **named),
    ]
    found[0] = with_entries(found[0], sources=[f"{home}/texts/mine"])
    named_task = {"source": f"beir:{home}/nq", "names": [f"{home}/nq"]}
    task = {**found[1].header.to_json()["task"], **named_task}
    spec = {**found[1].spec, "task": f"beir:{home}/nq"}
    found[1] = with_entries(found[1], task=task, spec=spec, sources=[spec["task"]])
    asked = {**found[2].spec, "corpus": f"{home}/texts/mine"}
    found[2] = with_entries(found[2], spec=asked, sources=[asked["corpus"]])
    assert all(home in json.dumps(log.to_dict()) for log in found), "the premise"
    notes = []
    for log in found:
        page = page_of(tmp_path, log)
        notes += page.notes
        whole = page.source + "".join(data.decode() for data in page.files)
        assert home not in whole
        assert str(tmp_path) not in whole
        assert "bge-m3" in page.text
    assert ("task", "beir:nq") in facts_of(found[1].header)
    assert notes == [f"{name} has 3 empty texts" for name in ("mine", "nq", "mine")]


def test_pages_that_are_refused(logs: dict[str, RunLog], tmp_path: Path) -> None:
    """Before any statistics are made."""

    def show(log: RunLog) -> Any:
        raise AssertionError("no statistics were to be made")

    log = replace(logs["audit"], kind=replace(logs["audit"].kind, view=show))
    assert (
        said_by(lambda: log.save_page(tmp_path / "page.pdf"))
        == "a page is an .html file, got 'page.pdf'."
    )
    assert (
        said_by(lambda: log.save_page(str(tmp_path / "page")))
        == "a page is an .html file, got 'page'."
    )
    (tmp_path / "file").write_text("")
    assert "cannot be written" in said_by(
        lambda: logs["audit"].save_page(tmp_path / "file" / "page.html")
    )
