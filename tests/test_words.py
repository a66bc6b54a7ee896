"""The word control against rows looked up by hand; repeated words against the tokenizer."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import StaticEmbedding
from transformers import PreTrainedTokenizerFast

from fairspan.encoding.tokens import ModelTokens
from fairspan.errors import UnsupportedModel
from fairspan.studies.collapse.measures import repeated_pairs, word_means
from tests.saying import said_by
from tests.tiny import ARCHITECTURES, SPECIAL, WORDS, mostly_slow, tiny_tokenizer, words

Make = Callable[..., SentenceTransformer]


def by_hand(model: SentenceTransformer, text: str) -> np.ndarray:
    """Rows of the embedding matrix, one word a token, summed one by one."""
    matrix = model.transformers_model.get_input_embeddings().weight.detach().double().numpy()
    rows = [matrix[len(SPECIAL) + WORDS.index(word)] for word in text.split()]
    return np.asarray(sum(rows) / len(rows))


@pytest.mark.parametrize(
    "architecture", mostly_slow(ARCHITECTURES, ("bert", "gemma3_text", "mpnet", "t5"))
)
def test_means_of_the_words_own_rows(make_tiny: Make, architecture: str) -> None:
    """Texts of unequal length, and neither <s>, </s>, <pad> nor a prompt among the rows.

    Gemma's table multiplies its rows by √d, so that directions are compared.
    """
    model = make_tiny(architecture, "mean")
    texts = [words(3), words(40, seed=1), "w5", "w5 w5 w5 w6"]
    found = word_means(model, texts)
    assert found.dtype == np.float64
    for row, text in zip(found, texts, strict=True):
        expected = by_hand(model, text)
        scale = np.linalg.norm(row) / np.linalg.norm(expected)
        # The rows are float32: their sums of up to 40 agree to about 1e-7.
        np.testing.assert_allclose(row, expected * scale, rtol=1e-5, atol=1e-6)
        assert scale == pytest.approx(32**0.5 if architecture == "gemma3_text" else 1, rel=1e-3)


def test_prompts_are_not_words(make_tiny: Make) -> None:
    model = make_tiny("bert", "mean")
    plain = word_means(model, ["w1 w2"])
    before, default = model.prompts, model.default_prompt_name
    try:
        model.prompts, model.default_prompt_name = {"document": "w7 w8 "}, "document"
        assert np.array_equal(word_means(model, ["w1 w2"]), plain)
    finally:
        model.prompts, model.default_prompt_name = before, default


def test_models_without_word_embeddings_are_refused(
    make_tiny: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    static = SentenceTransformer(
        modules=[StaticEmbedding(tiny_tokenizer().backend_tokenizer, embedding_dim=8)]
    )
    said = said_by(word_means, static, ["w1"], kind=UnsupportedModel)
    assert "SentenceTransformer has no input word embeddings" in said
    model = make_tiny("bert", "mean")

    def refuse(self: Any) -> torch.nn.Module:
        raise NotImplementedError

    monkeypatch.setattr(type(model.transformers_model), "get_input_embeddings", refuse)
    assert "BertModel has no input word embeddings" in said_by(word_means, model, ["w1"])


def test_real_words(minilm: SentenceTransformer) -> None:
    """The mean of several texts' tokens, looked up by the tokenizer's own names for them."""
    tokenizer: PreTrainedTokenizerFast = minilm.tokenizer
    matrix = minilm.transformers_model.embeddings.word_embeddings.weight.detach().double().numpy()
    texts = ["The dog chased an unbelievably quick cat.", "长度", "한국어 문장."]
    for row, text in zip(word_means(minilm, texts), texts, strict=True):
        names = tokenizer.tokenize(text)
        assert not {"[CLS]", "[SEP]", "[PAD]"} & set(names)
        np.testing.assert_allclose(
            row, matrix[tokenizer.convert_tokens_to_ids(names)].mean(0), atol=1e-7
        )


# --- repeated words


def test_pairs_fill_the_window_and_no_more(minilm: SentenceTransformer) -> None:
    """512 tokens, two of them special: 256 repetitions are the last doubling, and 510 fit."""
    counter = ModelTokens(minilm)
    pairs = repeated_pairs(counter)
    every = [1, 2, 4, 8, 16, 32, 64, 128, 256]
    assert pairs == [(" ".join(["dog"] * times), " ".join(["cat"] * times)) for times in every]


def test_words_of_several_tokens_and_prompts_take_their_room(minilm: SentenceTransformer) -> None:
    """Five tokens a word, two of the prompt, two special ones: 101 words in 512, so 64."""
    counter = ModelTokens(minilm, "passage: ")
    assert counter.count(["thermodynamics"]) == [5], "the premise"
    pairs = repeated_pairs(counter, words=("thermodynamics", "cat"))
    assert len(pairs[-1][0].split()) == 64
