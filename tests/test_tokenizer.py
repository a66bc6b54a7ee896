"""A model's tokens, counted without the model."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from transformers import AutoTokenizer

from fairspan.corpus.corpus import Corpus
from fairspan.errors import UnsupportedModel
from fairspan.model.source import DEFAULT_MODEL, find_model
from fairspan.model.tokenizer import load_tokenizer
from tests.tiny import tiny_tokenizer


def test_counts_are_those_of_transformers() -> None:
    """In all languages of the sample, and for texts that truncation or padding would change."""
    texts = [segment.text for segment in Corpus.read("sample").segments[::7]]
    texts += ["", " ", " ".join(texts[:9]), "naïve \u0301 ½ ﷺ 👩‍👩‍👧"]
    reference = AutoTokenizer.from_pretrained(find_model(DEFAULT_MODEL))
    expected = [
        len(reference(text, add_special_tokens=False, verbose=False)["input_ids"]) for text in texts
    ]
    tokenizer = load_tokenizer(DEFAULT_MODEL)
    assert tokenizer.count(texts) == expected
    assert tokenizer.window == 256 - 2
    assert tokenizer.name == DEFAULT_MODEL


def test_torch_is_not_loaded() -> None:
    code = (
        "import sys; sys.modules['torch'] = sys.modules['transformers'] = None; "
        f"from fairspan.model.tokenizer import load_tokenizer; assert "
        f"load_tokenizer({DEFAULT_MODEL!r}).count(['Hello there.']) == [3]"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_fingerprints_tell_tokenizers_apart(tmp_path: Path) -> None:
    """The folder does not matter, a word more or less does."""
    for name in ("one", "two", "three"):
        tokenizer = tiny_tokenizer()
        if name == "three":
            tokenizer.add_tokens(["w1000"])
        tokenizer.save_pretrained(tmp_path / name)
    one, two, three = (load_tokenizer(str(tmp_path / name)) for name in ("one", "two", "three"))
    assert one.fingerprint == two.fingerprint != three.fingerprint
    assert [one.name, two.name] == ["one", "two"]
    assert one.count(["w1 w2", ""]) == [2, 0]


def test_a_model_without_a_tokenizer(tmp_path: Path) -> None:
    said = rf"the tokenizer of {tmp_path.name} could not be loaded"
    with pytest.raises(UnsupportedModel, match=said):
        load_tokenizer(str(tmp_path))
    (tmp_path / "tokenizer.json").write_text("[]", encoding="utf-8")
    with pytest.raises(UnsupportedModel, match=said):
        load_tokenizer(str(tmp_path))
