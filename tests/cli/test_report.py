"""`fairspan report` and `fairspan compare`: what they write and print, and mistakes in one line."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from fairspan.runs.log import RunLog
from fairspan.studies.logs import changes, compare, read_log
from tests.builders.commands import Run
from tests.runs.test_logs import TREATMENTS, Page, audited, searched, studied


@dataclass(frozen=True)
class Runs:
    audit: RunLog
    evaluation: RunLog
    length: RunLog
    stopped: RunLog

    def typed(self, words: str) -> list[str | Path]:
        """The words, with the folders of the runs in place of their names."""
        return [
            getattr(self, word).folder if hasattr(self, word) else word for word in words.split()
        ]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    folder = tmp_path_factory.mktemp("runs")
    some: tuple[str, ...] = ("plain", "paper")
    stopped = {"asked": TREATMENTS, "run": "m-stopped", "status": "interrupted"}
    return Runs(
        audit=audited(folder / "audit", run="m-audit"),
        evaluation=searched(folder / "evaluation", run="m-evaluation"),
        length=studied(folder / "length", run="m-length"),
        stopped=audited(folder / "stopped", some, **stopped),
    )


@pytest.fixture
def no_statistics(monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(log: RunLog) -> Any:
        raise AssertionError("no statistics were to be made")

    for study in ("audit", "evaluate", "collapse"):
        monkeypatch.setattr(f"fairspan.studies.{study}.view.view_of", forbidden)


def test_page_figures_and_tables(run: Run, runs: Runs, tmp_path: Path) -> None:
    """Named after charts and tables; stdout has nothing but the JSON."""
    out = tmp_path / "new" / "page.html"
    typed = ["--out", out, "--title", "Ours & yours", "--figures", "f", "--tables", "t", "--json"]
    done = run("report", runs.audit.folder, *typed, "--figure-formats", "svg").ok
    written = json.loads(done.out)
    assert written["page"] == [str(out)]
    assert "<h1>Ours &amp; yours</h1>" in Page(out).source
    shown = runs.audit.view
    charts = {f"f/{chart.name}.svg" for chart in shown.charts()}
    assert set(written["figures"]) == charts
    assert set(written["tables"]) == {f"t/{table.name}.csv" for table in shown.tables()}
    for kind, folder in (("figures", "f"), ("tables", "t")):
        assert sorted(written[kind]) == sorted(map(str, Path(folder).iterdir()))
        assert all(Path(file).stat().st_size for file in written[kind])


def test_the_page_of_one_run_lies_in_its_folder(run: Run, tmp_path: Path) -> None:
    log = audited(tmp_path / "r", ("plain",))
    done = run("report", log.folder / "run.json").ok
    assert done.out.startswith(f"page: {log.folder / 'report.html'} (")
    assert Page(log.folder / "report.html").text.startswith(log.view.title)
    # Once more, beside the page that is there.
    assert run("report", log.folder).code == 0


def test_an_unfinished_run_is_told_on_stderr(run: Run, runs: Runs, tmp_path: Path) -> None:
    done = run("report", runs.stopped.folder, "--out", "page.html", "--json").ok
    assert json.loads(done.out)["page"] == ["page.html"]
    said = "this run was interrupted: 2 of 3 treatments were measured"
    assert done.last == f"note: m-stopped: {said}"
    assert Page(tmp_path / "page.html").notes == [said]


@pytest.mark.usefixtures("no_statistics")
@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("report audit --out page.pdf", "a page is an .html file, got 'page.pdf'"),
        ("report audit --figures f --figure-formats gif", "gif"),
        ("report audit --figures f --figure-formats ,", "--figure-formats takes words such as"),
        ("report audit --figure-formats svg", "figure_formats would do nothing without figures"),
        ("report nowhere", "nowhere is not the folder of a run: it has no run.json"),
        ("report length --inference z", "inference"),
        ("compare evaluation --treatments=", "--treatments is empty"),
        ("compare evaluation nowhere", "nowhere is not the folder of a run"),
    ],
)
def test_mistakes_are_one_line_before_any_statistics(
    run: Run, runs: Runs, tmp_path: Path, words: str, said: str
) -> None:
    run(*runs.typed(words)).is_one_line(said)
    assert list(tmp_path.iterdir()) == []
    assert not (runs.audit.folder / "report.html").exists()


def test_a_run_is_analysed_anew_without_its_model(run: Run, runs: Runs, tmp_path: Path) -> None:
    """With a margin above any difference nothing is biased."""
    folder = runs.audit.folder
    assert "biased" in read_log(folder).verdicts["verdict"].to_list(), "the premise"
    assert run("report", folder, "--out", "page.html", "--margin", ".9").code == 0
    for verdict, sentence in read_log(folder, margin=0.9).verdicts["verdict", "sentence"].rows():
        assert verdict != "biased"
        assert sentence in Page(tmp_path / "page.html").text


def test_one_run_is_compared_with_itself(run: Run, runs: Runs) -> None:
    """What is brief is printed, and everything is in the JSON."""
    log = runs.evaluation
    tables = compare(log)
    done = run("compare", log.folder).ok
    brief, *others = tables
    assert brief.brief
    assert brief.title in done.out
    for row in brief.rows:
        cells = row[len(brief.heads) :]
        assert any(all(cell in line for cell in cells) for line in done.out.splitlines()), row
    assert others
    assert not any(table.brief or table.title in done.out for table in others)
    told = json.loads(run("compare", log.folder, "--json").out)
    assert list(told) == ["format", "verdicts", *(table.name for table in tables)]
    assert [len(told[table.name]) for table in tables] == [len(table.frame) for table in tables]
    verdicts = [f"{change.name}: {change.sentence}" for change in changes(log)]
    assert done.out.splitlines()[: len(told["verdicts"])] == verdicts
