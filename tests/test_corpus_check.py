"""`check` and `fairspan corpus check`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from fairspan.cli.corpus import app
from fairspan.corpus.check import PERCENTILES, check, fitting_sets, percentiles
from fairspan.corpus.corpus import Corpus
from fairspan.corpus.segment import Segment
from fairspan.design.design import Design
from fairspan.design.documents import build_documents
from fairspan.design.lengths import measure_segments
from fairspan.design.plan import language_plans
from fairspan.errors import CorpusError, DesignError, LoadError
from fairspan.studies.audit.offer import check_offer
from tests.test_corpus import TEXTS, write_folder
from tests.tiny import tiny_model


def words(texts: Sequence[str]) -> list[int]:
    return [len(text.split()) for text in texts]


def corpus_of(lengths: dict[str, list[int]]) -> Corpus:
    return Corpus.from_segments(
        "made",
        [
            Segment(str(number), language, "word " * length)
            for language, counts in lengths.items()
            for number, length in enumerate(counts)
        ],
    )


def test_lengths_and_sets() -> None:
    """Five ids are in both languages; en has a sixth. Longest translations: 2, 4, 6, 8, 30."""
    corpus = corpus_of({"en": [2, 3, 6, 8, 30, 9], "de": [1, 4, 5, 7, 20]})
    found = check(corpus, words, [2, 3, 6], window=12)
    assert found.aligned == 5
    assert [(one.language, one.segments) for one in found.languages] == [("en", 6), ("de", 5)]
    assert found.languages[1].lengths == (1, 1, 4, 5, 7, 20, 20)
    assert [(one.size, one.sets, one.too_long, one.fitting) for one in found.sizes] == [
        (2, 2, 1, 2),  # 2+8 and 4+6; 30 fits beside none
        (3, 1, 2, 1),  # 2+4+6 = 12; 2+4+8 = 14 is already too long
        (6, 0, 0, 0),
    ]
    assert [(one.too_long, one.fitting) for one in check(corpus, words, [2]).sizes] == [(None, None)]


def test_the_json_form_is_json() -> None:
    found = check(corpus_of({"en": [1, 2, 3]}), words, [2], window=4)
    values = json.loads(json.dumps(found.to_dict()))
    assert values["languages"] == [
        {
            "language": "en",
            "segments": 3,
            "lengths": {"0": 1, "5": 1, "25": 1, "50": 2, "75": 3, "95": 3, "100": 3},
        }
    ]
    assert values["sizes"] == [{"size": 2, "sets": 1, "too_long": 0, "fitting": 1}]
    assert values["fingerprint"] == corpus_of({"en": [1, 2, 3]}).fingerprint


@pytest.mark.parametrize("size", [1, 0, True, 2.0, "3"])
def test_sizes_are_whole_numbers_from_two(size: object) -> None:
    with pytest.raises(CorpusError, match="sizes must be a whole number of at least 2, got"):
        check(corpus_of({"en": [1, 2, 3]}), words, [size])  # type: ignore[list-item]


@given(st.lists(st.integers(1, 99), min_size=1, max_size=40))
def test_percentiles_are_numpy_s_inverted_cdf(lengths: list[int]) -> None:
    assert percentiles(lengths) == tuple(np.percentile(lengths, PERCENTILES, method="inverted_cdf"))


def most_sets(lengths: tuple[int, ...], size: int, window: int) -> int:
    """By trying every way."""
    best = 0
    for chosen in combinations(range(len(lengths)), size):
        if sum(lengths[number] for number in chosen) <= window:
            rest = tuple(
                length for number, length in enumerate(lengths) if number not in chosen and number > chosen[0]
            )
            best = max(best, 1 + most_sets(rest, size, window))
    return best


@settings(max_examples=150, deadline=None)
@given(st.lists(st.integers(1, 12), max_size=8).map(tuple), st.integers(2, 4), st.integers(1, 30))
def test_the_sets_that_fit_are_never_more_than_there_can_be(lengths: tuple[int, ...], size: int, window: int) -> None:
    """For pairs they are exactly that."""
    most, found = most_sets(lengths, size, window), fitting_sets(lengths, size, window)
    assert found == most if size == 2 else found <= most


def test_too_long_is_what_no_set_can_hold() -> None:
    rng = np.random.default_rng(0)
    for _ in range(200):
        lengths = rng.integers(1, 20, size=7).tolist()
        size, window = int(rng.integers(2, 5)), int(rng.integers(5, 60))
        fits = {n for c in combinations(range(7), size) if sum(lengths[i] for i in c) <= window for n in c}
        [found] = check(corpus_of({"en": lengths}), words, [size], window).sizes
        assert found.too_long == 7 - len(fits)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model")
    tiny_model(tmp_path_factory.mktemp("checkpoint"), "bert", "cls").save_pretrained(str(path))
    return path


def run(*words: str | Path) -> str:
    done = CliRunner().invoke(app, ["check", *map(str, words)], env={"COLUMNS": "200"}, catch_exceptions=False)
    assert done.exit_code == 0
    return done.stdout


def test_the_command_counts_characters_without_a_model(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "news", TEXTS)
    said = run(folder, "--sizes", "2,3", "--languages", "en,de")
    assert "news: 3 segments in each of en, de" in said
    assert "Lengths in characters, because no --model says how to count tokens." in said.replace("are ", "")
    values = json.loads(run(folder, "--sizes", "2", "--languages", "en", "--json"))
    assert (values["unit"], values["window"]) == ("characters", None)
    assert values["languages"][0]["lengths"]["100"] == len("Another text.")


def test_the_command_counts_a_model_s_tokens(tmp_path: Path, model: Path) -> None:
    """The tiny tokenizer takes words for tokens. 600 positions, less the first and the last token."""
    folder = write_folder(tmp_path / "news", {"en": {"a": "w1 w2 w3", "b": "w4", "c": "w5 " * 700}})
    values = json.loads(run(folder, "--model", model, "--sizes", "2", "--json"))
    assert values["languages"][0]["lengths"]["100"] == 700
    limit = values["window"]
    config = json.loads((model / "sentence_bert_config.json").read_text())
    (model / "sentence_bert_config.json").write_text(json.dumps({**config, "max_seq_length": 50}))
    try:
        values = json.loads(run(folder, "--model", model, "--sizes", "2", "--json"))
        assert values["window"] == 48
        assert values["window"] != limit
        assert values["sizes"] == [{"size": 2, "sets": 1, "too_long": 1, "fitting": 1}]
        assert "A document holds up to 48 tokens of text." in run(folder, "--model", model, "--sizes", "2")
    finally:
        (model / "sentence_bert_config.json").write_text(json.dumps(config))


@pytest.mark.parametrize("inner", ["0_Transformer", "0_CalibratedTransformer"])
def test_the_command_finds_a_tokenizer_in_its_module_s_folder(tmp_path: Path, model: Path, inner: str) -> None:
    """As old models and calibrated ones are saved."""
    import shutil

    shutil.copytree(model, tmp_path / "own" / inner)
    folder = write_folder(tmp_path / "news", {"en": {"a": "w1 w2 w3", "b": "w4"}})
    assert json.loads(run(folder, "--model", tmp_path / "own", "--json"))["languages"][0]["lengths"]["100"] == 3


def test_the_command_s_mistakes(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "news", {"en": {"a": "x", "b": "y"}, "de": {"a": "x"}})
    with pytest.raises(CorpusError, match=r"partial=True"):
        run(folder)
    assert json.loads(run(folder, "--partial", "--json"))["aligned"] == 1
    with pytest.raises(DesignError, match=r"sizes takes whole numbers such as 3,4,5, got 'three'"):
        run(folder, "--partial", "--sizes", "three")
    with pytest.raises(CorpusError, match=r"sizes must be a whole number of at least 2, got 1"):
        run(folder, "--partial", "--sizes", "1")
    with pytest.raises(LoadError, match=r"nothing could not be loaded: there is no such folder"):
        run(folder, "--partial", "--model", tmp_path / "nothing")


def test_sets_by_design() -> None:
    """A language's own segments count for documents in it, and the longest translation for mixed ones."""
    found = check(corpus_of({"en": [2, 3, 6, 8, 30, 9], "de": [1, 4, 5, 7, 20]}), words, [2], window=12)
    assert [(plan.languages, plan.segments, plan.sets) for plan in found.plans] == [
        (("en",), 6, {2: 2}),  # of 2, 3, 6, 8, 9: two pairs, such as 2+8 and 3+6
        (("de",), 5, {2: 2}),  # 1+7 and 4+5
        (("en", "de"), 5, {2: 2}),
    ]
    assert [plan.sets for plan in check(corpus_of({"en": [9] * 7}), words, [2, 3]).plans] == [{2: 3, 3: 2}]


class Words:
    """Words as tokens, for a design."""

    unit, window = "words", 460

    def count(self, texts: Sequence[str]) -> list[int]:
        return words(texts)

    count_whole = count

    def cut(self, texts: Sequence[str], length: int) -> list[str]:
        return [" ".join(text.split()[:length]) for text in texts]


@pytest.mark.parametrize("segments", [48, 30])
def test_what_a_configuration_finds_is_what_its_audit_draws(segments: int) -> None:
    """irf-laptop: openings of 115, sizes 3 and 4 in English and German, 12 sets each. Four of 115 and the joints do
    not fit into 460, but the few shorter segments do."""
    rng = np.random.default_rng(1)
    corpus = corpus_of({language: rng.integers(60, 200, segments).tolist() for language in ("en", "de")})
    lengths = {(one.id, one.language): len(one.text.split()) for one in corpus.segments}
    found = check_offer("irf-laptop", corpus, lengths, Words.window)
    design = Design(sizes=(3, 4), sets=12, opening=115)
    material = measure_segments(corpus, ["en", "de"], design, Words())
    drawn = build_documents(material, language_plans(["en", "de"], ()), design, Words())
    assert found.wanted == {3: 12, 4: 12}
    assert found.disjoint == drawn.disjoint
    assert found.disjoint[4] < 12
    assert f"n=4 {found.disjoint[4]} of 12 sets" in found.words


def test_configurations_that_are_not_possible() -> None:
    small = corpus_of({"en": [5, 6, 7]})
    lengths = {(one.id, one.language): len(one.text.split()) for one in small.segments}
    assert check_offer("irf", small, lengths, None).words == "irf: not possible, the corpus has no zh, de, it, ko, hi"
    six = corpus_of(dict.fromkeys(["en", "zh", "de", "it", "ko", "hi"], [900] * 9))
    lengths = {(one.id, one.language): len(one.text.split()) for one in six.segments}
    assert check_offer("irf", six, lengths, None).words.startswith("irf: not possible, 0 segments keep its length")
