"""`fairspan tune`, run through the command's own entry on a tiny model: results, mistakes, and runs that go on."""

from __future__ import annotations

import json
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import polars as pl
import pytest
from sentence_transformers import SentenceTransformer

import fairspan
from fairspan import Calibration
from fairspan.encoding.store import Store
from fairspan.errors import StoreError, UnsupportedModel
from fairspan.stats.choice import make_sample, prefer, shortlist
from fairspan.studies.logs import read_log
from fairspan.studies.tune.budget import Budget
from fairspan.studies.tune.decision import decide
from tests.commands import Run
from tests.test_evaluate import Collection, in_beir, text_of, write_lines
from tests.test_mteb import mteb, sts_task
from tests.tiny import words

__all__ = ["mteb"]

pytestmark = pytest.mark.filterwarnings("ignore:The fill_missing parameter is deprecated:DeprecationWarning")
Typed = list[str | Path]
STRONG, TILES, MORE = "tempscale+temperature=0.5", "tiles+tile_size=8", "paper+basket_size=8"
PAGES = 16


@pytest.fixture(scope="module")
def model(save_tiny: Callable[..., Path]) -> Path:
    return save_tiny("bert", "mean")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Articles in two languages for sixteen pages of two, a collection of other documents, and grids."""
    place = tmp_path_factory.mktemp("place")
    (place / "articles").mkdir()
    for shift, language in enumerate(("en", "it")):
        rows = [{"id": f"a{n:02}", "text": text_of(100 * shift + n, 6)} for n in range(2 * PAGES)]
        write_lines(place / "articles" / f"{language}.jsonl", rows)
    documents = {f"d{n}": text_of(300 + n) for n in range(10)}
    queries = {f"q{n}": words(6, 700 + n) for n in range(10)}
    relevant = {f"q{n}": {f"d{n}": 1.0} for n in range(10)}
    in_beir(place / "beir", Collection(documents, queries, relevant))
    in_beir(place / "one", Collection(documents, queries, {query: {"d0": 1.0} for query in queries}))
    in_beir(place / "none", Collection(documents, queries, {query: {"d0": 0.0} for query in queries}))
    shutil.copytree(place / "beir", place / "copy")
    for name, candidates in {"two": [STRONG, TILES], "three": [STRONG, TILES, MORE], "empty": []}.items():
        (place / f"{name}.toml").write_text(f"treatments = {json.dumps(candidates)}\n", encoding="utf-8")
    (place / "unknown.toml").write_text('treatments = ["tiles"]\nmetric = "mrr"\n', encoding="utf-8")
    (place / "field.toml").write_text('[[treatment]]\nname = "mine"\ntile_sizes = 8\n', encoding="utf-8")
    return place


@pytest.fixture
def usual(model: Path, place: Path) -> Typed:
    pages = ["--corpus", place / "articles", "--languages", "en", "--size", "2", "--sets", f"{PAGES}"]
    return ["tune", model, "pages", *pages, "--grid", place / "two.toml", "--chunk-tokens", "16"]


def counted(folder: Path) -> int:
    return int(read_log(folder).header["timings"]["texts_computed"])


# --- results


def test_a_tuning_says_what_to_use_and_where_everything_is(run: Run, usual: Typed, tmp_path: Path) -> None:
    done = run(*usual, "--out", "here")
    assert done.code == 0, done.err
    log = read_log(tmp_path / "here")
    assert log.status == "complete"
    assert log.view.cards[0].sentences[0] in " ".join(done.out.split())
    assert done.out.rstrip().splitlines()[-3:] == [
        "log: here",
        "calibration: here/calibration.json",
        "page: here/tune.html",
    ]
    assert "2 candidates, " in done.err
    parts = log.header["tasks"][0]["parts"]
    assert [own["clusters"] for own in parts.values()] == [PAGES // 2, PAGES // 4, PAGES // 4]
    # Four clusters cannot decide, so that the plain model's calibration is left there.
    assert decide(log).answer == "inconclusive"
    assert not Calibration.from_json((tmp_path / "here" / "calibration.json").read_text("utf-8")).acts


def test_a_dry_run_says_what_a_run_embeds_and_writes_nothing(run: Run, usual: Typed, tmp_path: Path) -> None:
    """To the token: both candidates change queries and documents, and one of them is tested."""
    done = run(*usual, "--dry-run", "--json", "--budget", "0.000001")
    assert done.code == 0, done.err
    said = json.loads(done.out)
    assert list(tmp_path.iterdir()) == []
    assert [(one["stage"], one["candidates"], one["clusters"]) for one in said["stages"]] == [
        ("tune", 2, PAGES // 2),
        ("guard", 1, PAGES // 4),
        ("report", 1, PAGES // 4),
    ]
    assert said["seconds"] == pytest.approx(sum(one["seconds"] for one in said["stages"]))
    assert said["fits_budget"] is False
    shown = run(*usual, "--dry-run", "--budget", "0.000001").out
    assert f"2 candidates, {said['tokens']:,} tokens to embed, about " in shown
    assert "does not fit into 1e-06 min" in shown
    assert "does not fit" not in run(*usual, "--dry-run").out
    assert run(*usual, "--out", "here").code == 0
    log = read_log(tmp_path / "here")
    assert len(decide(log).tested) == 1, "the premise"
    assert log.header["timings"]["tokens_computed"] == said["tokens"]


def test_a_forecast_of_a_large_grid_has_rounds(run: Run, usual: Typed) -> None:
    """24 candidates on 104 clusters: 26 and 52 of them first, and half of the candidates go on each time."""
    articles = [{"id": f"a{n:03}", "language": "en", "text": text_of(500 + n, 6)} for n in range(416)]
    write_lines(Path("many.jsonl"), articles)
    done = run(*usual[:3], "--corpus", "many.jsonl", "--size", "2", "--sets", "208", "--grid", "full", "--dry-run")
    assert done.code == 0, done.err
    rows = [line.replace("│", " ").split() for line in done.out.splitlines() if line.startswith("│")]
    assert [row[:-3] for row in rows] == [
        ["tune,", "round", "1", "24", "26"],
        ["tune,", "round", "2", "12", "52"],
        ["tune,", "round", "3", "6", "104"],
        ["guard", "1", "52"],
        ["report", "1", "52"],
    ]


def test_json_is_the_result_and_nothing_else(run: Run, usual: Typed, place: Path, tmp_path: Path) -> None:
    """Also from the log, without a model; what was lost beside the log is written again."""
    done = run(*usual, "--out", "here", "--json", "--guard", place / "beir")
    assert done.code == 0, done.err
    said = json.loads(done.out, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    assert said["verdicts"][0]["verdict"] == "inconclusive"
    assert [(one["task"], one["role"]) for one in said["parts"]][-1] == ("beir", "guard")
    for name in ("calibration.json", "tune.html"):
        (tmp_path / "here" / name).unlink()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fairspan.runs.subject.load_with_limit", lambda *_: pytest.fail("a model was loaded"))
        again = run(*usual, "--out", "here", "--json", "--guard", place / "beir")
    assert json.loads(again.out) == said
    assert {"calibration.json", "tune.html"} <= {file.name for file in (tmp_path / "here").iterdir()}


def test_a_picture_is_drawn_beside_the_result(run: Run, usual: Typed, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    done = run(*usual, "--picture", "p.svg", "--json")
    assert done.code == 0, done.err
    json.loads(done.out)
    assert "picture: p.svg" in done.err
    assert (tmp_path / "p.svg").stat().st_size > 1000


def test_every_option_reaches_the_spec(run: Run, usual: Typed, place: Path, tmp_path: Path) -> None:
    more = "--languages en --mixed it:en --sets 10 --editions 1 --distractors 2 --query first-sentence --seed 3"
    more += " --query-tokens 9 --min-tokens 3 --max-tokens 99 --too-long error --metric mrr --fairness language"
    more += " --epsilon 0.02 --max-cost 90 --prompt w1 --query-prompt w2 --chunk-tokens 20 --split test --opening 12"
    done = run(*usual, *shlex.split(more), "--guard", place / "beir", "--out", "here")
    assert done.code == 0, done.err
    spec = read_log(tmp_path / "here").spec
    (task,), (guard,) = spec["tasks"], spec["guards"]
    assert (task["languages"], task["mixed"], guard["split"]) == (["en"], ["it:en"], "test")
    queries = {"kind": "first-sentence", "tokens": 9, "language": None, "editions": 1, "distractors": 2}
    assert task["queries"] == queries
    design = {name: task["design"][name] for name in ("sizes", "sets", "seed", "min_tokens", "max_tokens", "opening")}
    assert list(design.values()) == [[2], 10, 3, 3, 99, 12]
    names = (
        "metric",
        "fairness",
        "epsilon",
        "max_cost",
        "too_long",
        "prompt",
        "query_prompt",
        "chunk_tokens",
        "seed",
    )
    assert [spec[name] for name in names] == ["mrr", "language", 0.02, 90.0, "error", "w1", "w2", 20, 3]
    assert [one["name"] for one in spec["treatments"]] == ["none", STRONG, TILES]


def test_a_page_shows_no_local_folder(run: Run, usual: Typed, place: Path, tmp_path: Path) -> None:
    assert run(*usual, "--guard", f"beir:{place / 'beir'}", "--out", "here").code == 0
    page = (tmp_path / "here" / "tune.html").read_text("utf-8")
    assert "pages of articles" in page
    assert str(place) not in page
    assert str(usual[1]) not in page


def test_a_changed_corpus_is_noticed(run: Run, usual: Typed, place: Path, tmp_path: Path) -> None:
    """In the corpus of a task and in the folder of a guard."""
    for name in ("articles", "beir"):
        shutil.copytree(place / name, tmp_path / name)
    typed = [*usual, "--corpus", "articles", "--guard", "beir"]
    for count, file in enumerate((None, "articles/en.jsonl", "beir/queries.jsonl")):
        if file is not None:
            lines = (tmp_path / file).read_text("utf-8").splitlines()
            (tmp_path / file).write_text("\n".join([lines[0].replace('"text": "', '"text": "w1 '), *lines[1:]]))
        assert run(*typed).code == 0
        assert len(list((tmp_path / "fairspan-runs").iterdir())) == 1 + count


# --- runs that go on


def test_one_more_candidate_costs_one_candidate(run: Run, usual: Typed, place: Path, tmp_path: Path) -> None:
    assert run(*usual, "--out", "two").code == 0
    assert run(*usual, "--grid", place / "three.toml", "--out", "three").code == 0
    two, three = (read_log(tmp_path / name) for name in ("two", "three"))
    assert decide(two).looked_at == decide(three).looked_at, "the premise: nothing else is searched"
    embedded = {one["treatment"] for one in three.header["costs"] if one["seconds"] is not None}
    assert embedded == {MORE}
    assert 0 < counted(tmp_path / "three") < counted(tmp_path / "two") / 2
    assert two.rows.drop("run").equals(three.rows.filter(pl.col("treatment") != MORE).drop("run"))


@pytest.mark.parametrize("how", ["interrupted", "failed"])
def test_what_was_stopped_goes_on_and_ends_the_same(
    run: Run, usual: Typed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    assert run(*usual, "--out", "whole", "--store", "whole.db").code == 0
    plain, count = Store.put, [0]

    def put(self: Store, vectors: Any) -> None:
        # A trial of the speed keeps nothing.
        count[0] += self.path.name != ":memory:"
        if count[0] == 5:
            raise KeyboardInterrupt if how == "interrupted" else StoreError("the disk is full.")
        plain(self, vectors)

    with monkeypatch.context() as patch:
        patch.setattr(Store, "put", put)
        stopped = run(*usual, "--out", "here")
    assert stopped.code == (130 if how == "interrupted" else 2)
    assert "Traceback" not in stopped.err
    assert read_log(tmp_path / "here").status == how
    assert decide(read_log(tmp_path / "here")).answer == "unfinished"
    assert run(*usual, "--out", "here").code == 0
    whole, again = (read_log(tmp_path / name) for name in ("whole", "here"))
    assert (again.status, again.view.cards) == ("complete", whole.view.cards)
    assert again.rows.drop("run").equals(whole.rows.drop("run"))
    assert 0 < counted(tmp_path / "here") < counted(tmp_path / "whole")


def test_a_budget_leaves_candidates_out_and_a_larger_one_adds_them(
    run: Run, usual: Typed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run(*usual, "--out", "whole", "--store", "whole.db").code == 0
    asked = list[float]()

    def fits(self: Budget, seconds: float) -> bool:
        asked.append(seconds)
        return len(asked) <= 1

    with monkeypatch.context() as patch:
        patch.setattr(Budget, "fits", fits)
        done = run(*usual, "--out", "here", "--budget", "5")
    assert done.code == 0, done.err
    log = read_log(tmp_path / "here")
    assert (log.status, log.header["left_out"]) == ("partial", {TILES: "the budget was spent"})
    assert "this run ended with its budget" in done.out
    assert run(*usual, "--out", "here", "--budget", "500").code == 0
    whole, again = (read_log(tmp_path / name) for name in ("whole", "here"))
    assert (again.status, again.header["left_out"]) == ("complete", {})
    assert again.rows.drop("run").equals(whole.rows.drop("run"))
    # A complete run answers whatever the budget.
    assert run(*usual, "--out", "here", "--budget", "0.000001").code == 0


def test_a_search_that_finds_nothing_is_left_as_it_is() -> None:
    """Every value is 0, so that PSI is 0 / 0."""
    groups, clusters = [1, 2] * 8, [number // 2 for number in range(16)]
    sample = make_sample({"none": [0.0] * 16, TILES: [0.0] * 16}, groups, clusters)
    assert prefer([sample], [TILES, "none"], {"none": 0.0, TILES: 0.1}).chosen == "none"
    assert shortlist([sample], "none", {"none": 0.0, TILES: 0.1}) == []


# --- mistakes


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("--grid PLACE/empty.toml", "empty.toml has no treatment: name at least one"),
        ("--grid PLACE/unknown.toml", "a grid has no field 'metric'. Fields: extends, treatments, treatment"),
        ("--grid PLACE/field.toml", "'mine': Calibration has no field 'tile_sizes'"),
        ("--grid nowhere.toml", "there is no grid 'nowhere.toml': --grid takes small, full or a TOML file"),
        ("--grid PLACE/beir/qrels/test.tsv", "test.tsv is not TOML"),
        *((f"--epsilon {value}", "--epsilon must be between 0 and 1") for value in ("0", "1", "nan", "-1", "inf")),
        *((f"--max-cost {value}", "--max-cost is the time relative to the plain") for value in ("0", "-1", "nan")),
        ("--max-cost inf", "such as 1.2, got inf"),
        *((f"--budget {value}", "--budget is the number of minutes") for value in ("0", "-3", "nan", "inf")),
        ("--budget 0.000001", "the plain model and one candidate need about "),
        ("--metric good", "there is no metric 'good': choose from ndcg@k, recall@k, mrr"),
        ("--fairness age", "--fairness must be one of position, language, length, got 'age'"),
        ("--fairness language", "--fairness language compares groups of queries, and all queries and documents are"),
        ("--unit paragraph", "--unit would do nothing for pages: omit it"),
        ("--documents PLACE", "--documents would do nothing for pages: omit it"),
        ("--sets 3", "pages of articles cannot be divided: "),
        ("--sets 7", "7 clusters of queries that share no document, and 8 are needed to divide it into tune, guard"),
        ("--sets 1", "sets must be a whole number of at least 2, got 1"),
        ("--size 33", "the corpus has 32 segments in en, and a document of 33 needs 33"),
        ("--seed -1", "--seed must be a whole number of at least 0, got -1"),
        ("--chunk-tokens 0", "--chunk-tokens must be a whole number of at least 1, got 0"),
        ("--chunk-tokens 600", "--chunk-tokens must be at least 1 and at most"),
        ("--too-long redraw", "--too-long must be one of leave-out, shorten, cut, error, got 'redraw'"),
        ("--guard pages", "pages of PLACE/articles is a task and a guard: a guard needs other documents"),
        ("--guard pages:PLACE/articles", "is a task and a guard"),
        ("--guard pages:PLACE/../PLACE_NAME/articles", "share 32 documents, so that one would be judged by data"),
        ("--guard PLACE/one", "one cannot be divided: one-test has 1 clusters"),
        ("--guard PLACE/none", "none-test has no queries"),
        ("--guard nowhere", "there is no task 'nowhere'"),
        ("--guard beir:nowhere", "there is no folder 'nowhere'"),
        ("--guard PLACE/beir --guard PLACE/beir", "beir is named twice: omit one"),
        ("--guard PLACE/beir --guard PLACE/copy", "copy and beir share 10 documents"),
        ("--guard pages:nowhere.jsonl", "there is no file or folder 'nowhere.jsonl'"),
        ("--corpus nowhere.jsonl", "there is no file or folder 'nowhere.jsonl'"),
        ("--languages xx", "has no language 'xx'"),
        ("--window 20", "no 2 segments fit into the model's 20 tokens"),
        ("--picture p.jpg", "a picture is one of .png, .svg, .pdf, got 'p.jpg'"),
        ("--store PLACE/two.toml/store", "cannot be written"),
        ("--out PLACE/two.toml", "two.toml cannot be written: it is not a folder"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_two(
    run: Run, usual: Typed, place: Path, options: str, said: str
) -> None:
    """The last option counts, so that each is added to a command that works."""

    def filled(text: str) -> str:
        return text.replace("PLACE_NAME", place.name).replace("PLACE", str(place))

    run(*usual, *shlex.split(filled(options))).is_one_line(filled(said))


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("PLACE/beir --corpus sample", "--corpus would do nothing for PLACE/beir: omit it"),
        ("PLACE/beir --sets 20", "--sets would do nothing"),
        ("PLACE/beir --unit paragraph", "--unit would do nothing"),
        ("PLACE/beir --fairness position", "where the evidence is in its document is not known"),
        ("PLACE/beir PLACE/beir", "beir is named twice: omit one"),
        ("PLACE/beir --guard PLACE/beir", "beir is a task and a guard"),
        ("PLACE/beir --guard beir:PLACE/beir", "share 10 documents"),
        ("PLACE/one", "1 clusters of queries that share no document, and 8 are needed to divide"),
        ("PLACE/none", "none-test has no queries"),
        ("mteb:NFCorpu", "mteb has no task 'NFCorpu': did you mean 'NFCorpus'?"),
    ],
)
def test_a_mistake_about_tasks_is_one_line(
    run: Run, model: Path, place: Path, mteb: ModuleType, typed: str, said: str
) -> None:
    done = run("tune", model, *shlex.split(typed.replace("PLACE", str(place))), "--grid", place / "two.toml")
    done.is_one_line(said.replace("PLACE", str(place)))


def test_a_task_of_mteb_that_is_no_search_is_one_line(
    run: Run, model: Path, mteb: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = sts_task(mteb, [(words(5, n), words(5, 20 + n)) for n in range(4)], [1.0, 2.0, 3.0, 4.0])
    monkeypatch.setattr("fairspan.retrieval.mteb_reading.find_task", lambda name, **options: task)
    run("tune", model, "mteb:TinySTS").is_one_line("TinySTS is a task of type STS, whose score is no mean over")


def test_a_model_that_is_no_sentence_transformer(run: Run, usual: Typed, place: Path, tmp_path: Path) -> None:
    run("tune", place / "beir", *usual[2:]).is_one_line("it has neither modules.json nor config.json")

    class Embedder:
        def encode(self, texts: list[str]) -> Any:
            raise AssertionError("nothing was to be embedded")

    with pytest.raises(UnsupportedModel, match="tune needs a SentenceTransformer, got Embedder"):
        fairspan.tune(Embedder(), corpus=str(place / "articles"), out=tmp_path / "out", progress=False)


def test_another_runs_folder_is_refused(run: Run, usual: Typed, tmp_path: Path) -> None:
    assert run(*usual, "--out", "here").code == 0
    before = {file.name: file.read_bytes() for file in (tmp_path / "here").iterdir()}
    run(*usual, "--out", "here", "--seed", "1").is_one_line("choose another folder with --out")
    assert {file.name: file.read_bytes() for file in (tmp_path / "here").iterdir()} == before


@pytest.mark.parametrize("stage", [[], ["--dry-run"]], ids=["run", "forecast"])
def test_a_model_that_fails_is_one_line(
    run: Run, usual: Typed, monkeypatch: pytest.MonkeyPatch, stage: list[str]
) -> None:
    def forward(*args: Any, **options: Any) -> Any:
        raise RuntimeError("no such kernel")

    monkeypatch.setattr(SentenceTransformer, "forward", forward)
    run(*usual, *stage).is_one_line("no such kernel")
