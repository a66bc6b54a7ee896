"""Pages of runs and `fairspan report`: what a page tells of one log or several, what it carries, what is refused."""

from __future__ import annotations

import gzip
import io
import json
import re
from base64 import b64decode
from html import unescape
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal
from typer.testing import CliRunner

from fairspan.cli import app
from fairspan.errors import LogError
from fairspan.runs.log import RunLog
from fairspan.runs.rows import SCHEMA
from fairspan.studies.logs import read_log, save_page
from tests.searches import log_of, rows_of, usual
from tests.simulated import audit_log, simulated_log, simulated_rows


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> RunLog:
    folder = tmp_path_factory.mktemp("audit") / "run"
    return audit_log(folder, sizes=(3,), plans=[("en", "en")], measures=["representation"])


@pytest.fixture(scope="module")
def page(log: RunLog, tmp_path_factory: pytest.TempPathFactory) -> str:
    return log.save_page(tmp_path_factory.mktemp("page") / "page.html").read_text("utf-8")


def text_of(page: str) -> str:
    """What is read outside of scripts and styles."""
    plain = re.sub(r"<(script|style).*?</\1>", " ", page, flags=re.S)
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", plain)).split())


def test_settings_seeds_and_versions_are_there(log: RunLog, page: str) -> None:
    text = text_of(page)
    for name, version in log.header["versions"].items():
        assert f"{name} {version}" in text
    assert "±0.02" in text
    spec = re.search(r"<pre>(.*?)</pre>", page, re.S)
    assert spec is not None
    assert json.loads(unescape(spec[1])) == log.spec


def test_rows_and_statistics_travel_in_the_page(log: RunLog, page: str) -> None:
    found = re.findall(r'<script type="text/plain" data-file="[^"]*">(.*?)</script>', page, re.S)
    rows, statistics = (gzip.decompress(b64decode(text)) for text in found)
    read = pl.read_csv(io.BytesIO(rows), schema_overrides=SCHEMA)
    assert_frame_equal(read, log.rows.select(read.columns))
    assert set(log.rows.columns) - set(read.columns) == {"layer", "part", "query", "query_tokens", "offset"}
    expected = json.loads(json.dumps(log.to_dict()))
    del expected["folder"]
    assert json.loads(statistics) == expected


def test_where_a_run_lies_is_not_told(log: RunLog, page: str) -> None:
    assert str(log.folder) not in page


def test_markup_in_names_stays_text(tmp_path: Path) -> None:
    """In the names of model, corpus, language and run, and in notes."""
    evil = "<img src=x onerror=alert(1)>"
    made = simulated_log(
        tmp_path / "r",
        [simulated_rows(lambda p, s: 0.5 - 0.1 * p, sets=5, plan=(evil, evil))],
        run=evil,
        model={"name": evil, "fingerprint": evil},
        corpus={"name": evil, "fingerprint": "f"},
        notes=[evil],
        plans=[evil],
    )
    page = save_page([made], tmp_path / "page.html", title=evil).read_text("utf-8")
    assert "<img" not in page
    assert text_of(page).count(evil) >= 4


def test_an_interrupted_run_says_so(tmp_path: Path) -> None:
    made = simulated_log(tmp_path / "r", [simulated_rows(lambda p, s: 0.5)], ["none", "paper"], status="interrupted")
    assert "status interrupted" in text_of(made.save_page(tmp_path / "page.html").read_text("utf-8"))


def test_runs_of_different_kinds_stand_on_one_page(log: RunLog, tmp_path: Path) -> None:
    search = log_of(tmp_path / "search", rows_of(usual), run="other-12345678")
    text = text_of(save_page([log, search], tmp_path / "page.html").read_text("utf-8"))
    assert "m: audit" in text
    assert "m: search" in text


def test_runs_that_share_nothing_say_so(log: RunLog, tmp_path: Path) -> None:
    rows = [simulated_rows(lambda p, s: 0.5, plan=("it", "it"))]
    other = simulated_log(tmp_path / "other", rows, run="m-2")
    assert "have no document in common" in text_of(save_page([log, other], tmp_path / "p.html").read_text("utf-8"))


# The commands.


def test_the_command_writes_page_figures_and_tables(log: RunLog, tmp_path: Path) -> None:
    out = tmp_path / "new" / "page.html"
    arguments = ["report", str(log.folder), "--out", str(out), "--json", "--title", "Ours & yours"]
    arguments += ["--figures", str(tmp_path / "f"), "--figure-formats", "svg,pdf", "--tables", str(tmp_path / "t")]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    written = json.loads(done.stdout)
    assert written["page"] == [str(out)]
    assert "<h1>Ours &amp; yours</h1>" in out.read_text("utf-8")
    for kind, suffixes in (("figures", {".svg", ".pdf"}), ("tables", {".md", ".tex", ".csv"})):
        assert {Path(file).suffix for file in written[kind]} == suffixes
        assert all(Path(file).stat().st_size for file in written[kind])


def test_the_page_of_one_run_lies_in_its_folder(tmp_path: Path) -> None:
    made = simulated_log(tmp_path / "r", [simulated_rows(lambda p, s: 0.5)])
    done = CliRunner().invoke(app, ["report", str(made.folder)])
    assert done.exit_code == 0, done.output
    assert (made.folder / "report.html").exists()
    assert done.stdout.startswith(f"page: {made.folder / 'report.html'}")
    assert read_log(made.folder).run == made.run


def test_comparing_within_a_run(log: RunLog) -> None:
    done = CliRunner().invoke(app, ["compare", str(log.folder), "--json"])
    assert done.exit_code == 0, done.output
    found: dict[str, Any] = json.loads(done.stdout)
    assert list(found) == ["representation-changes", "representation-coefficient-changes"]
    changes = log.frame("changes")
    assert [row["change_estimate"] for row in found["representation-changes"]] == changes["change_estimate"].to_list()
    shown = CliRunner().invoke(app, ["compare", str(log.folder)])
    assert "Spread of representation between positions" in shown.stdout
    assert "Changes of the coefficients" not in shown.stdout


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["RUN", "RUN"], "is named twice"),
        (["RUN", "--out", "page.pdf"], "a page is an .html file, got 'page.pdf'"),
        (["RUN", "--tables", "t", "--table-formats", "docx"], "not as docx"),
        (["RUN", "--figures", "f", "--figure-formats", "gif"], "gif"),
        (["RUN", "--tables", "t", "--table-formats", ","], "takes at least one format"),
        (["nowhere"], "is not the folder of a run"),
        (["nowhere", "--out", "page.pdf"], "a page is an .html file"),
    ],
)
def test_mistakes_get_one_line(
    log: RunLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], told: str
) -> None:
    monkeypatch.chdir(tmp_path)
    given = [str(log.folder) if word == "RUN" else word for word in arguments]
    if "--out" not in given:
        given += ["--out", "page.html"]
    done = CliRunner().invoke(app, ["report", *given])
    assert isinstance(done.exception, LogError), done.output
    assert told in str(done.exception)
    assert "\n" not in str(done.exception)


def test_a_page_that_cannot_be_written(log: RunLog, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(LogError, match="cannot be written"):
        log.save_page(tmp_path / "file" / "page.html")
