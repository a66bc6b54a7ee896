"""Lengths, offsets, windows and cuts in a model's own tokens."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

import fairspan
from fairspan.calibration.calibration import Calibration
from fairspan.encoding.attention_profile import attention_rows
from fairspan.encoding.tokens import ModelTokens, counter_of, prompt_of, tokens_of_spans, window_of
from fairspan.model.build import copy_sharing_weights
from fairspan.model.window import set_window
from tests.builders.tiny import HIDDEN, save_tiny, tiny_model, words

Make = Callable[..., SentenceTransformer]


def direct(model: SentenceTransformer, text: str) -> dict[str, Any]:
    return model.tokenizer(text, return_offsets_mapping=True)


def byte_level(folder: Path) -> SentenceTransformer:
    """Byte-level BPE without merges, as GPT-2's and RoBERTa's on a script they were not trained on:
    several tokens to one character, and the space belongs to the word after it."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {
        token: number
        for number, token in enumerate(["<s>", "<pad>", "</s>", "<unk>", *alphabet, "Ġw"])
    }
    tokenizer = Tokenizer(models.BPE(vocabulary, merges=[("Ġ", "w")], unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    save_tiny(folder, "bert", vocab_size=len(vocabulary))
    special = {"bos_token": "<s>", "cls_token": "<s>", "eos_token": "</s>", "sep_token": "</s>"}
    own = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, **special, pad_token="<pad>", unk_token="<unk>"
    )
    own.model_max_length = 512
    own.save_pretrained(folder)
    transformer = Transformer(str(folder))
    return SentenceTransformer(modules=[transformer, Pooling(HIDDEN, "mean")], device="cpu").eval()


@pytest.fixture(scope="module")
def bytewise(tmp_path_factory: pytest.TempPathFactory) -> SentenceTransformer:
    return byte_level(tmp_path_factory.mktemp("bytewise"))


@pytest.mark.parametrize(("side", "prompt"), [("right", ""), ("right", "w5"), ("left", "w1 w2 ")])
def test_counts_and_offsets_are_the_tokenizers(make_tiny: Make, side: str, prompt: str) -> None:
    model = make_tiny("bert", "mean", padding_side=side)
    texts = [words(count, count) for count in (1, 7, 40, 3)]
    tokens = ModelTokens(model, prompt)
    assert tokens.count(texts) == [1, 7, 40, 3]
    mask = model.preprocess(texts, prompt=prompt or None)["attention_mask"]
    assert tokens.count_whole(texts) == mask.sum(dim=1).tolist()
    for text, offsets in zip(texts, tokens.offsets(texts), strict=True):
        whole = direct(model, prompt + text)["offset_mapping"]
        assert len(offsets) == len(whole)
        for (begin, end), (first, last) in zip(offsets, whole, strict=True):
            if first == last:  # <s> and </s>
                assert begin == end
            else:
                assert (begin, end) == (first - len(prompt), last - len(prompt))


def test_the_last_space_of_a_prompt_belongs_to_the_text(bytewise: SentenceTransformer) -> None:
    """Tiles do not share the word after it. A pooling that skips the prompt skips what it does in
    the plain model."""
    texts = [words(5), "  w4 w5\n", "w1", " w2"]
    mask = bytewise.preprocess(texts, prompt="w3 ")["attention_mask"]
    assert ModelTokens(bytewise, "w3 ").count_whole(texts) == mask.sum(dim=1).tolist()
    text = "w" * 40
    fair = fairspan.calibrate(bytewise, "tiles-8")
    features = fair.preprocess([text], prompt="w ")
    assert bytewise.preprocess([text], prompt="w ")["prompt_length"] == 3
    assert features["prompt_length"] == 2
    shared = fair(features | {"prompt_length": 3})["sentence_embedding"].detach().numpy()
    assert not np.allclose(fair.encode([text], prompt="w "), shared, atol=1e-3)
    (row,) = attention_rows(fair, [text], prompt="w ")
    # Rows of all five tiles see the global tokens, those of one the first word.
    assert row.masses[:, 1].min() > 3 * row.masses[:, 2].max()
    skipping = copy_sharing_weights(bytewise)
    skipping[1].include_prompt = False
    assert (
        fairspan.calibrate(skipping, "tiles-8").preprocess([text], prompt="w ")["prompt_length"]
        == 3
    )


@pytest.mark.parametrize(
    ("architecture", "positions", "window"),
    [
        ("bert", 600, 512),
        ("bert", 100, 100),
        ("roberta", 100, 98),
        ("xlm-roberta", 100, 98),
        ("qwen3", 100, 100),
    ],
)
def test_the_window_is_what_the_weights_allow(
    tmp_path: Path, architecture: str, positions: int, window: int
) -> None:
    """Even where max_seq_length was raised beyond them. RoBERTa loses its padding index and the
    number before it."""
    model = tiny_model(tmp_path, architecture, "mean", max_position_embeddings=positions)
    model.max_seq_length = 512
    assert ModelTokens(model).window == window
    text = words(window - 2)
    assert ModelTokens(model).count_whole([text]) == [window]
    assert np.isfinite(model.encode(text)).all()
    model.max_seq_length = 20
    assert ModelTokens(model).window == 20


def test_a_model_in_tiles_reads_beyond_its_positions(tmp_path: Path) -> None:
    """As far as it is set to, on the sides in tiles; under a calibration without tiles it is a
    plain model again."""
    plain = tiny_model(tmp_path, "roberta", "mean", max_position_embeddings=50)
    tiles, paper = Calibration(strength=0, tile_size=8), Calibration.preset("paper")
    assert (window_of(plain), window_of(plain, tiles)) == (48, None), "any length"
    set_window(plain[0], 200, tiled=True)
    assert (window_of(plain), window_of(plain, tiles), window_of(plain, paper)) == (48, 200, 48)
    assert window_of(plain, tiles.but(sides="document"), "query") == 48
    tiled = fairspan.calibrate(plain, tiles)
    assert ModelTokens(tiled).window == window_of(tiled, Calibration.preset("plain")) == 200
    assert window_of(tiled, paper) == 48
    only = fairspan.calibrate(plain, tiles.but(sides="document"))
    assert (ModelTokens(only).window, ModelTokens(only, side="query").window) == (200, 48)
    set_window(plain[0], 20)
    raised = fairspan.calibrate(plain, tiles, max_seq_length=200)
    assert (window_of(raised), window_of(raised, paper)) == (200, 48), "instead of 20"
    assert fairspan.calibrate(raised, paper).max_seq_length == 48


def test_a_bare_tokenizer_counts_as_its_wrapper_does(make_tiny: Make) -> None:
    wrapped = make_tiny().tokenizer
    bare = Tokenizer.from_str(wrapped.backend_tokenizer.to_str())
    bare.enable_truncation(10)

    class Static:
        tokenizer = bare
        max_seq_length = None

    tokens = counter_of(Static())  # type: ignore[arg-type]
    assert isinstance(tokens, ModelTokens)
    assert tokens.window == 10
    text = words(30)
    assert tokens.count_whole([text]) == [len(wrapped(text)["input_ids"])] == [32]
    assert tokens.cut([text], 5) == [" ".join(text.split()[:5])]
    assert len(bare.encode(text).ids) == 10, "the model's own tokenizer still cuts"


def test_tokens_of_spans_by_hand() -> None:
    """ "ab cd ef": three spans, whose tokens are marked by their characters.

    <s>   "a"   "b"   " c"  "d"   " "   "ef"  </s>
    """
    offsets = np.array([(0, 0), (0, 1), (1, 2), (2, 4), (4, 5), (5, 6), (6, 8), (0, 0)])
    found = tokens_of_spans(offsets, [(0, 2), (3, 5), (6, 8)])
    # " c" begins with the joining space and goes with "cd"; " " alone goes with none; special
    # tokens with none.
    assert [list(numbers) for numbers in found] == [[1, 2], [3, 4], [6]]


@pytest.mark.parametrize("default", [None, "other"])
def test_prompts_are_the_ones_that_the_library_takes(
    make_tiny: Make, monkeypatch: pytest.MonkeyPatch, default: str | None
) -> None:
    """Of every combination: each name has no prompt, an empty one or a text. An empty one is a
    choice."""
    model = copy_sharing_weights(make_tiny("bert", "mean"))

    def taken(**asked: Any) -> str:
        return model._resolve_prompt(asked["prompt"], asked["prompt_name"]) or ""

    monkeypatch.setattr(model, "encode", taken)
    for texts in product((None, "", "w1 "), repeat=5):
        named = zip(("document", "passage", "corpus", "query", "other"), texts, strict=True)
        model.prompts = {
            name: f"{text}{name} " if text else "" for name, text in named if text is not None
        }
        model.default_prompt_name = default if default in model.prompts else None
        assert prompt_of(model, "document") == model.encode_document([]), model.prompts
        assert prompt_of(model, "query") == model.encode_query([]), model.prompts


FORK = """
import os, sys
import fairspan
from datasets import Dataset
from sentence_transformers import SentenceTransformer
from torch.utils.data import DataLoader
fair = fairspan.calibrate(SentenceTransformer(sys.argv[1], device="cpu"))
texts = ["w1 w2 w3"] * 4096
fair.encode(texts[:64])
records = [{"text": text} for text in texts]
fairspan.embed(fair, records, sys.argv[1] + "/vectors", progress=False)
child = os.fork()
if child == 0:
    fair.tokenizer(texts)
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
list(DataLoader(texts, 2048, collate_fn=fair.preprocess, num_workers=2))
Dataset.from_dict({"text": texts}).map(fair.tokenizer, input_columns="text", num_proc=2)
"""


@pytest.mark.slow
def test_a_process_may_fork_after_texts_were_embedded(tmp_path: Path) -> None:
    """As workers of a DataLoader and of datasets do: a child that tokenises ends. Tokenizers turn
    their threads off in it, unless somebody has switched them on."""
    folder = save_tiny(tmp_path / "tiny", "bert")
    environment = {key: os.environ[key] for key in os.environ if key != "TOKENIZERS_PARALLELISM"}
    command = [sys.executable, "-W", "ignore", "-c", FORK, str(folder)]
    subprocess.run(command, env=environment, check=True, timeout=120)
