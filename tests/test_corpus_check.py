"""`check` and `fairspan corpus check`."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path

from sentence_transformers import SentenceTransformer

from fairspan.corpus.check import check
from fairspan.corpus.corpus import Corpus
from fairspan.corpus.segment import Segment
from tests.commands import Run
from tests.test_corpus import TEXTS, write_folder


def words(texts: Sequence[str]) -> list[int]:
    return [len(text.split()) for text in texts]


def test_lengths_and_sets() -> None:
    """Five ids are in both languages; en has a sixth.

    A percentile is the least length that so many do not exceed.
    """
    lengths = {"en": [2, 3, 6, 8, 30, 9], "de": [1, 4, 5, 7, 20]}
    segments = [
        Segment(str(number), language, "word " * length)
        for language, counts in lengths.items()
        for number, length in enumerate(counts)
    ]
    found = check(Corpus.from_segments("made", segments), [2, 3, 6], words)
    assert (found["aligned"], found["sets"]) == (5, {2: 2, 3: 1, 6: 0})
    assert found["languages"]["en"]["segments"] == 6
    assert list(found["languages"]["de"].values()) == [5, 1, 1, 4, 5, 7, 20, 20]
    assert json.loads(json.dumps(found))["unit"] == "tokens"


CHECK = ("corpus", "check")


def test_the_command(
    run: Run, tmp_path: Path, make_tiny: Callable[..., SentenceTransformer]
) -> None:
    """Characters without a model; the tiny tokenizer takes words for tokens."""
    folder = write_folder(tmp_path / "news", TEXTS)
    said = run(*CHECK, folder, "--sizes", "2,3", "--languages", "en,de").out
    assert "news: 3 segments in en, de" in said
    assert "documents that share no segment: 1 of 2 segments, 1 of 3 segments" in said
    values = json.loads(run(*CHECK, folder, "--languages", "en", "--json").out)
    assert (values["unit"], values["sets"]) == ("characters", {"3": 1, "4": 0, "5": 0})
    assert values["languages"]["en"]["100"] == len("Another text.")
    make_tiny("bert", "mean").save_pretrained(str(tmp_path / "model"))
    longer = write_folder(
        tmp_path / "longer", {"en": {"a": "w1 w2 w3", "b": "w4", "c": "w5 " * 700}}
    )
    values = json.loads(run(*CHECK, longer, "--model", tmp_path / "model", "--json").out)
    assert (values["unit"], values["languages"]["en"]["100"]) == ("tokens", 700)


def test_the_command_s_mistakes(run: Run, tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "news", {"en": {"a": "x", "b": "y"}, "de": {"a": "x"}})
    run(*CHECK, folder).is_one_line("set partial to use only the ids")
    assert json.loads(run(*CHECK, folder, "--partial", "--json").out)["aligned"] == 1
    run(*CHECK, "sample", "--sizes", "0").is_one_line("sizes must be a whole number of at least ")
    run(*CHECK, folder, "--partial", "--model", tmp_path / "nothing").is_one_line(
        "nothing could not be loaded: there is no such folder"
    )
