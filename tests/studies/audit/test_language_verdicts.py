"""Verdicts on languages of mixed documents: in logs, on pages, in pipelines, of models."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import fairspan
from fairspan.cli.gate import fail_on_run, read_conditions
from fairspan.errors import DesignError
from fairspan.runs.log import RunLog
from fairspan.studies.audit.rows import with_languages
from tests.builders.simulated import Plan, simulated_log, simulated_rows
from tests.builders.tiny import tiny_model
from tests.builders.verbs import write_articles
from tests.corpus.test_corpus import write_folder
from tests.report.example import printed

BOTH: list[Plan] = [("en", "de"), ("de", "en")]
ALONE: list[Plan] = [("en", "en"), ("de", "de")]


def spoken(
    folder: Path,
    leads: dict[str, float],
    plans: list[Plan] | None = None,
    *,
    n: int = 3,
    sets: int = 20,
    measure: str = "representation",
    noise: float = 0.002,
) -> RunLog:
    """Position 1 is .1 above; in mixed documents English is above others, by treatment."""

    def rows(plan: Plan, treatment: str, lead: float) -> pl.DataFrame:
        def value(position: int, number: int) -> float:
            language = plan[0] if position == 1 else plan[1]
            # A tenth more or less by set, so that what changes between treatments varies too.
            favour = lead * (1 + 0.1 * (-1) ** number)
            return 0.6 + 0.1 * (position == 1) + favour * (language == "en") * (plan[0] != plan[1])

        return simulated_rows(
            value, plan=plan, n=n, sets=sets, treatment=treatment, noise=noise, measure=measure
        )

    tables = [rows(plan, name, lead) for name, lead in leads.items() for plan in plans or BOTH]
    return simulated_log(folder, tables, tuple(leads), run=folder.name)


@pytest.mark.parametrize(
    ("measure", "done"), [("representation", "represented"), ("retention", "retained")]
)
def test_a_favoured_language_is_biased_everywhere(tmp_path: Path, measure: str, done: str) -> None:
    """English is .06 above German under plain, and not at all under paper."""
    log = spoken(tmp_path / "run", {"plain": 0.06, "paper": 0.0}, [*ALONE, *BOTH], measure=measure)
    biased, fair = log.frame("language_verdicts").iter_rows(named=True)
    assert (biased["verdict"], fair["verdict"]) == ("biased", "fair")
    assert biased["sentence"].startswith(f"en is 0.06 more {done} than de [0.0")
    assert biased["sentence"].endswith("; compared at the same position and length")
    assert fair["sentence"] == "within ±0.02; compared at the same position and length"
    pairs = log.frame("languages")
    assert pairs.select("language", "against").unique().rows() == [("en", "de")]
    np.testing.assert_allclose(pairs["estimate"], [0.06, 0.0], atol=0.005)
    page = log.save_page(tmp_path / "page.html").read_text("utf-8")
    said = json.dumps(log.to_dict(), ensure_ascii=False, allow_nan=False)
    for words in (" ".join(printed(log.view).split()), page, said):
        assert f"more {done} than de" in words
    chart = log.view.chart(f"{measure}-languages")
    assert (chart.kind, chart.x, chart.margin) == ("dots", "pair", 0.02)
    [(title, drawn)] = chart.panels()
    assert (title, set(drawn["pair"])) == ("3 segments", {"en − de"})
    assert drawn.select(pairs.columns).equals(pairs)
    names = [table.name for table in log.view.tables()]
    assert f"{measure}-languages" in names
    assert log.verdicts["treatment"].to_list() == ["plain", "paper"], (
        "one verdict on positions as before"
    )


def test_without_mixed_documents_there_is_a_note(tmp_path: Path) -> None:
    """Documents in one language say nothing of it, and an only language needs no such note."""
    log = spoken(tmp_path / "several", {"plain": 0.06}, ALONE)
    assert not {"language_verdicts", "languages"} & set(log.view.frames)
    [note] = [note for note in log.view.notes if "languages have no verdict" in note]
    assert note.endswith("use mixed documents in both orders (mixed en:de,de:en)")
    single = spoken(tmp_path / "single", {"plain": 0.06}, ALONE[:1])
    assert not {"language_verdicts", "languages"} & set(single.view.frames)
    assert single.view.notes == ()
    assert len(single.view.cards) == 1
    assert not any("language" in paragraph for paragraph in single.view.methods[4:])


def test_one_order_says_what_is_missing(tmp_path: Path) -> None:
    log = spoken(tmp_path / "run", {"plain": 0.06}, [("de", "en")])
    assert "language_verdicts" not in log.view.frames
    missing = "not compared as languages: de and en, of which one order is missing (mixed en:de)"
    assert missing in log.view.notes
    partly = spoken(tmp_path / "partly", {"plain": 0.06}, [*BOTH, ("hi", "en")])
    [row] = partly.frame("language_verdicts").iter_rows(named=True)
    assert row["verdict"] == "biased"
    assert partly.view.notes[-1].endswith("hi and en, of which one order is missing (mixed en:hi)")


@pytest.mark.parametrize(
    ("leads", "conditions", "fails"),
    [
        ({"plain": 0.06}, "language-biased", True),
        ({"plain": 0.06}, "biased", False),
        ({"plain": 0.06, "paper": 0.0}, "paper:language-biased,language-inconclusive", False),
        ({"plain": 0.06, "paper": 0.0}, "language-biased", True),
    ],
)
def test_pipelines_end_on_languages(
    tmp_path: Path,
    leads: dict[str, float],
    conditions: str,
    fails: bool,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Positions are the same in all of them: conditions on positions never fail."""
    log = spoken(tmp_path / "run", leads)
    if not fails:
        fail_on_run(log, read_conditions("audit", conditions))
        return
    with pytest.raises(SystemExit) as ended:
        fail_on_run(log, read_conditions("audit", conditions))
    assert ended.value.code == 1
    said = capsys.readouterr().err
    assert "on languages: biased: en is" in said


def test_a_pipeline_without_languages_does_not_pass(tmp_path: Path) -> None:
    log = spoken(tmp_path / "run", {"plain": 0.0, "paper": 0.0}, ALONE)
    with pytest.raises(
        DesignError, match=r"has no verdicts on languages, which .* languages have no verdict"
    ):
        fail_on_run(log, read_conditions("audit", "language-biased"))


# --- models


class Bag:
    """Each word has its direction; inside a text, English words weigh `weight` times as much."""

    def __init__(self, texts: list[str], weight: float) -> None:
        self.places = {
            word: place
            for place, word in enumerate(sorted({w for text in texts for w in text.split()}))
        }
        self.weight = weight

    def encode(self, sentences: list[str], /) -> Any:
        vectors = np.zeros((len(sentences), len(self.places)), np.float32)
        for row, sentence in enumerate(sentences):
            # An audit also asks for cut texts, to see whether they are read to the end.
            for word in filter(self.places.__contains__, sentence.split()):
                vectors[row, self.places[word]] += self.weight if word.startswith("en") else 1.0
        return vectors


@pytest.mark.parametrize("weight", [1.0, 1.5])
def test_a_model_that_favours_english_inside_documents(tmp_path: Path, weight: float) -> None:
    """Segments of six words, all different: D = w·A + B + C, and cosines are those of the weights.

    A segment alone has the same direction whatever its language weighs, so only documents tell.
    """
    corpus = {
        language: {str(n): " ".join(f"{language}{n}x{k}" for k in range(6)) for n in range(24)}
        for language in ("en", "de")
    }
    log = fairspan.audit(
        Bag([text for own in corpus.values() for text in own.values()], weight),
        corpus=str(write_folder(tmp_path, corpus)),
        mixed="all",
        sizes=[2, 3],
        sets=8,
        treatments=["plain"],
        out=tmp_path / "run",
        store=tmp_path / "store.sqlite",
        progress=False,
    )
    [row] = log.frame("language_verdicts").iter_rows(named=True)
    w = weight

    def difference(n: int) -> float:
        later = n - 1
        leads, follows = np.sqrt(w**2 + later), np.sqrt(1 + later * w**2)
        return float(((w / leads - 1 / follows) + later * (w / follows - 1 / leads)) / n)

    found = {
        (one["n"], one["language"]): one["estimate"]
        for one in log.frame("languages").iter_rows(named=True)
    }
    [language] = {name for _, name in found}
    sign = 1 if language == "en" else -1
    for n in (2, 3):
        # Cosines of float32 vectors.
        assert sign * found[n, language] == pytest.approx(difference(n), abs=1e-6)
    if weight == 1.0:
        assert row["verdict"] == "fair"
        assert row["sentence"].startswith("within ±0.02 in all 2 comparisons of two languages")
    else:
        assert row["verdict"] == "biased"
        assert "en is 0." in row["sentence"]
        assert "more represented than de" in row["sentence"]


@pytest.mark.slow
def test_a_small_audit_by_hand(tmp_path: Path) -> None:
    """Both measures of a tiny model: numpy's least squares on plan × position and log lengths."""
    log = fairspan.audit(
        tiny_model(tmp_path / "weights", "bert", "mean"),
        corpus=str(write_articles(tmp_path / "corpus", 12)),
        mixed="all",
        sizes=[3],
        sets=4,
        measures=["representation", "retention"],
        treatments=["plain", "tiles-8"],
        out=tmp_path / "run",
        store=tmp_path / "store.sqlite",
        progress=False,
    )
    assert len(log.frame("language_verdicts")) == 4
    for one in log.frame("languages").iter_rows(named=True):
        mixed = with_languages(log.rows).filter(pl.col("lead") != pl.col("later"))
        rows = mixed.filter(measure=one["measure"], treatment=one["treatment"])
        cells = rows.select(pl.concat_str("lead", "position")).to_series()
        names = sorted(set(cells))
        design = np.column_stack([[float(cell == name) for cell in cells] for name in names])
        if one["same_length"]:
            design = np.column_stack([design, np.log(rows["tokens"].to_numpy())])
        found = np.linalg.lstsq(design, rows["value"].to_numpy(), rcond=None)[0]
        mean = dict(zip(names, found, strict=False))
        a, b = one["language"], one["against"]
        # At position 1 a leads; at later ones it follows b.
        parts = [
            mean[f"{a}1"] - mean[f"{b}1"],
            *(mean[f"{b}{p}"] - mean[f"{a}{p}"] for p in (2, 3)),
        ]
        assert one["estimate"] == pytest.approx(np.mean(parts), abs=1e-9)
