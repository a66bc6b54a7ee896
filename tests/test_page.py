"""The page of a run: its text, its numbers, and what it refuses. A browser opens it in test_page_browser."""

from __future__ import annotations

import gzip
import io
import json
import re
from base64 import b64decode
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from fairspan.report.page.page import make_page, write_page
from polars.testing import assert_frame_equal
from typer.testing import CliRunner

from fairspan.cli import app
from fairspan.errors import LogError
from fairspan.runs.log import RunLog
from fairspan.runs.rows import SCHEMA
from fairspan.studies.audit.attention import summarize_attention
from fairspan.studies.audit.summary import summarize
from fairspan.studies.logs import read_log
from tests.searches import PLANS, log_of, rows_of, usual
from tests.test_figures import audit_log
from tests.test_length_report import spectrum_row, study_of
from tests.test_report import simulated_log, simulated_rows

EVIL = "<img src=x onerror=alert(1)>"
TREATMENTS = ("none", "paper", "retrieval")


def audited(
    folder: Path, *, sizes: tuple[int, ...] = (3, 4), languages: tuple[str, ...] = ("en", "zh"), **header: Any
) -> RunLog:
    """Sizes × languages × three treatments, each with a slope of its own."""
    tables = [
        simulated_rows(
            lambda p, s, k=k: 0.6 - 0.04 * (3 - k) * p, sets=6, n=n, plan=(language, language), treatment=name
        )
        for k, name in enumerate(TREATMENTS, start=1)
        for n in sizes
        for language in languages
    ]
    return simulated_log(folder, tables, TREATMENTS, **header)


def searched(folder: Path) -> RunLog:
    return log_of(folder, rows_of(usual, metrics=("ndcg@10", "mrr"), plans=PLANS, indexes=[("none", "chunk-max")]))


def studied(folder: Path) -> RunLog:
    curves = {"none": [0.2, 0.3, 0.5], "tempscale": [0.2, 0.25, 0.3], "words": [0.6, 0.7, 0.9]}
    rows = [
        spectrum_row(name, measure, f"d{text}", length, layer, value + layer / 10 + length / 1000)
        for name in ("none", "tempscale")
        for measure, value in (("sigma_a", 1.0), ("theorem_3", 0.5), ("filter_rate", 0.1), ("theorem_2", 2.0))
        for text in range(2)
        for length in (50, 100, 200)
        for layer in range(3)
    ]
    return study_of(folder, curves, lengths=(50, 100, 200), rows=rows).log


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, RunLog]:
    folder = tmp_path_factory.mktemp("logs")
    return {"audit": audited(folder / "a"), "evaluate": searched(folder / "e"), "collapse": studied(folder / "c")}


def charts_in(page: str) -> list[dict[str, Any]]:
    return [
        json.loads(text) for text in re.findall(r'<script type="application/json"[^>]*>(.*?)</script>', page, re.S)
    ]


class Parsed(HTMLParser):
    """The elements of a page, and the text outside its scripts."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self._inside: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag in ("script", "style"):
            self._inside.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if self._inside and tag == self._inside[-1]:
            self._inside.pop()

    def handle_data(self, data: str) -> None:
        if not self._inside:
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


# What is told.


def test_the_bars_are_the_numbers_of_the_log(logs: dict[str, RunLog]) -> None:
    """Every bar with its interval, against the statistics of the log."""
    summary = summarize(logs["audit"])
    charts = [chart for chart in charts_in(make_page([logs["audit"]])) if chart["kind"] == "bars"]
    assert len(charts) == 4
    cells = {(cell.n, cell.plan, cell.treatment): cell for cell in summary.cells}
    seen = 0
    for chart in charts:
        for series in chart["series"]:
            cell = cells[len(chart["labels"]), chart["title"], series["name"]]
            for name, part in (("v", "estimate"), ("lo", "low"), ("hi", "high")):
                np.testing.assert_array_equal([p[name] for p in series["points"]], getattr(cell.effects.means, part))
            assert [p["shown"] for p in series["points"]] == [f"{v:.3f}" for v in cell.effects.means.estimate]
            assert series["number"] == TREATMENTS.index(series["name"])
            seen += 1
        np.testing.assert_allclose(chart["background"], cell.tokens, atol=0.05)
    assert seen == len(cells) == 12


def test_verdicts_come_first_and_are_those_of_the_terminal(logs: dict[str, RunLog]) -> None:
    page = Parsed(make_page([logs["audit"]]))
    summary = summarize(logs["audit"])
    for name in TREATMENTS:
        kind = summary.worst("representation", name).verdict.kind
        assert summary.sentence("representation", name).removeprefix(f"{kind}: ") in page.text
    assert page.text.index("biased") < page.text.index("How well each position is represented Bars")


def test_the_heat_map_is_the_joint_model(logs: dict[str, RunLog]) -> None:
    """Its cells under every treatment, with the effect of length taken out."""
    page = make_page([logs["audit"]])
    found = re.findall(r'<td data-heat="([^"]*)" data-levels="([^"]*)"', page)
    joint = {(one.n, one.treatment): one.model for one in summarize(logs["audit"]).joint}
    expected = [
        "|".join(f"{joint[n, name].mean((p, language)).estimate:.3f}" for name in TREATMENTS)
        for n in (3, 4)
        for language in ("en", "zh")
        for p in range(1, n + 1)
    ]
    assert [shown for shown, _ in found] == expected
    levels = [float(level) for _, text in found[:6] for level in text.split("|")]
    assert min(levels) == 0
    assert max(levels) == 1


def test_one_language_has_no_heat_map(tmp_path: Path) -> None:
    assert "data-heat=" not in make_page([audited(tmp_path / "r", languages=("en",))])


def test_a_study_of_length(logs: dict[str, RunLog]) -> None:
    """Curves of the treatments on one axis, the raw words on another, spectra with their bounds dashed."""
    charts = {
        (chart["title"], chart["series"][0]["name"]): chart for chart in charts_in(make_page([logs["collapse"]]))
    }
    cosine = charts["mean pairwise cosine", "none"]
    assert [[p["v"] for p in series["points"]] for series in cosine["series"]] == [[0.2, 0.3, 0.5], [0.2, 0.25, 0.3]]
    assert cosine["places"] == pytest.approx([0, 0.5, 1])
    assert [p["v"] for p in charts["mean pairwise cosine", "raw word embeddings"]["series"][0]["points"]] == [
        0.6,
        0.7,
        0.9,
    ]
    sigma = charts["σ_a of the last layer by length", "none"]
    assert [series["dashed"] for series in sigma["series"]] == [False, True, False, True]
    # The last layer is 2: 1 + 0.2 + length/1000.
    assert [p["v"] for p in sigma["series"][0]["points"]] == pytest.approx([1.25, 1.3, 1.4])


def test_several_runs_stand_side_by_side(tmp_path: Path) -> None:
    """Series of both on one axis, paired differences, and each run on its own."""
    one = audited(tmp_path / "a", run="m-1")
    two = audited(tmp_path / "b", run="m-2")
    page = make_page([one, two])
    switch = re.findall(r'name="switch0" value="(\w+)"', page)
    assert switch == ["0", "1", "2", "3", "4", "5", "all"]
    names = [series["name"] for series in charts_in(page)[0]["series"]]
    assert names == [f"{run}: {name}" for run in ("m-1", "m-2") for name in TREATMENTS]
    text = Parsed(page).text
    assert "Paired differences" in text
    assert text.count("+0.000 [+0.000, +0.000]") >= 12


def test_runs_that_share_nothing_say_so(tmp_path: Path, logs: dict[str, RunLog]) -> None:
    other = audited(tmp_path / "b", languages=("de", "it"), run="m-2")
    assert "have no document in common" in Parsed(make_page([logs["audit"], other])).text


def test_kinds_of_runs_mix(logs: dict[str, RunLog]) -> None:
    runs = [RunLog(log.folder, {**log.header, "run": name}, log.rows) for name, log in logs.items()]
    text = Parsed(make_page(runs)).text
    assert {"m: audit", "m: search", "m: length"} <= set(re.findall(r"m: \w+", text))


def test_an_interrupted_run_shows_what_it_has(tmp_path: Path) -> None:
    rows = simulated_rows(lambda p, s: 0.5 - 0.1 * p, sets=5)
    log = simulated_log(tmp_path / "r", [rows], TREATMENTS, status="interrupted")
    page = Parsed(make_page([log]))
    assert "status interrupted" in page.text
    assert [series["name"] for chart in charts_in(make_page([log])) for series in chart["series"]] == ["none"]


def test_one_set_has_no_page_of_statistics_but_a_reason(tmp_path: Path) -> None:
    """Clustered errors need two sets: the command says so, as the audit does."""
    log = simulated_log(tmp_path / "r", [simulated_rows(lambda p, s: 0.5, sets=1)])
    with pytest.raises(Exception, match="at least 2"):
        make_page([log])


def test_settings_seeds_and_versions_are_there(logs: dict[str, RunLog]) -> None:
    log = logs["audit"]
    text = Parsed(make_page([log])).text
    for name, version in log.header["versions"].items():
        assert f"{name} {version}" in text
    assert "margin of fairness ±0.02" in text
    spec = re.search(r"<pre>(.*?)</pre>", make_page([log]), re.S)
    assert spec is not None
    assert json.loads(unescape(spec[1])) == log.spec


# What is carried along.


def files_in(page: str) -> list[bytes]:
    found = re.findall(r'<script type="text/plain" data-file="[^"]*">(.*?)</script>', page, re.S)
    return [gzip.decompress(b64decode(text)) for text in found]


def test_rows_and_statistics_travel_in_the_page(logs: dict[str, RunLog]) -> None:
    log = logs["audit"]
    rows, statistics = files_in(make_page([log]))
    read = pl.read_csv(io.BytesIO(rows), schema_overrides=SCHEMA)
    assert_frame_equal(read, log.rows.select(read.columns))
    assert set(log.rows.columns) - set(read.columns) == {"layer", "part", "query", "query_tokens", "offset"}
    assert json.loads(statistics)["cells"] == summarize(log).to_dict()["cells"]
    assert "folder" not in json.loads(statistics)


def test_where_a_run_lies_is_not_told(logs: dict[str, RunLog]) -> None:
    for log in logs.values():
        assert str(log.folder) not in make_page([log])


# The command.


def test_the_command_writes_page_figures_and_tables(logs: dict[str, RunLog], tmp_path: Path) -> None:
    out = tmp_path / "new" / "page.html"
    arguments = ["report", str(logs["audit"].folder), "--out", str(out), "--json", "--title", "Ours & yours"]
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
    log = audited(tmp_path / "r", sizes=(3,))
    done = CliRunner().invoke(app, ["report", str(log.folder)])
    assert done.exit_code == 0, done.output
    assert (log.folder / "report.html").exists()
    assert done.stdout.startswith(f"page: {log.folder / 'report.html'}".replace("\n", ""))
    assert read_log(log.folder).run == log.run


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["RUN", "RUN"], "is named twice"),
        (["RUN", "--out", "page.pdf"], "a page is an .html file, got 'page.pdf'"),
        (["RUN", "--tables", "t", "--table-formats", "docx"], "not as docx"),
        (["RUN", "--figures", "f", "--figure-formats", "gif"], "gif"),
        (["RUN", "--tables", "t", "--table-formats", ","], "--table-formats takes at least one format"),
        (["nowhere"], "is not the folder of a run"),
        (["nowhere", "--out", "page.pdf"], "a page is an .html file"),
    ],
)
def test_mistakes_get_one_line(
    logs: dict[str, RunLog], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], told: str
) -> None:
    monkeypatch.chdir(tmp_path)
    given = [str(logs["audit"].folder) if word == "RUN" else word for word in arguments]
    if "--out" not in given:
        given += ["--out", "page.html"]
    done = CliRunner().invoke(app, ["report", *given])
    assert isinstance(done.exception, LogError), done.output
    assert told in str(done.exception)
    assert "\n" not in str(done.exception)


def test_no_run_is_refused() -> None:
    with pytest.raises(LogError, match="at least one run"):
        make_page([])


def test_a_page_that_cannot_be_written(logs: dict[str, RunLog], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(LogError, match="cannot be written"):
        write_page([logs["audit"]], tmp_path / "file" / "page.html")


# Attention.


def test_attention_bars_are_the_summary_s(tmp_path: Path) -> None:
    """Mean shares in the last third of the layers, by segment and by basket, special tokens at the end."""
    log = audit_log(tmp_path / "r", sizes=(3,), plans=[("en", "en")])
    looked = summarize_attention(log)
    layers = "last third" if "last third" in looked.groups else "all"
    charts = [chart for chart in charts_in(make_page([log])) if chart["y_label"] == "share of attention"]
    assert [chart["x_label"] for chart in charts] == ["segment", "basket"]
    for chart, measure in zip(charts, ("attention_segment", "attention_basket"), strict=True):
        for series, profile in zip(chart["series"], looked.of(measure, 3, "en", layers), strict=True):
            shares = [*profile.content, *profile.around]
            assert series["name"] == profile.treatment
            assert [p["v"] for p in series["points"]] == [share.estimate for share in shares]
            assert [p["hi"] for p in series["points"]] == [share.high for share in shares]
    assert charts[0]["labels"][:3] == ["1", "2", "3"]


def test_attention_alone_has_a_page(tmp_path: Path) -> None:
    """No verdict can be told of it; the switch has the treatments that were measured."""
    log = audit_log(tmp_path / "r", measures=["attention"], treatments=["none", "paper"], asked=TREATMENTS)
    page = make_page([log])
    assert re.findall(r'name="switch0" value="(\w+)"', page) == ["0", "1", "all"]
    assert {series["number"] for chart in charts_in(page) for series in chart["series"]} == {0, 1}
    assert 'class="verdict ' not in page
