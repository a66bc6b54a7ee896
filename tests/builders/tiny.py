"""Tiny models with random weights, saved to a folder and loaded as users load theirs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Normalize, Pooling, Transformer
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import AutoConfig, AutoModel, PreTrainedTokenizerFast, T5EncoderModel
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

from tests.builders.kinds import ARCHITECTURES, ONE_EACH, POOLINGS, REPRESENTATIVES, SIDES, Kind  # noqa: F401

WORDS = [f"w{number}" for number in range(90)]
SPECIAL = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
HIDDEN, HEADS, LAYERS = 32, 4, 4

_BASE: dict[str, Any] = {
    "vocab_size": len(SPECIAL) + len(WORDS),
    "hidden_size": HIDDEN,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
    "intermediate_size": 64,
    "max_position_embeddings": 600,
    "pad_token_id": 1,
    "bos_token_id": 0,
    "eos_token_id": 2,
    "initializer_range": 0.5,  # wide enough for attention to be far from uniform
}
_GROUPED = {"num_key_value_heads": 2, "head_dim": 8}
_OWN: dict[str, dict[str, Any]] = {
    "electra": {"embedding_size": HIDDEN},
    "distilbert": {"dim": HIDDEN, "n_layers": LAYERS, "n_heads": HEADS, "hidden_dim": 64},
    "albert": {"embedding_size": 16, "num_hidden_groups": 1},
    "modernbert": {"local_attention": 16, "global_attn_every_n_layers": 2}
    | {"cls_token_id": 0, "sep_token_id": 2, "initializer_cutoff_factor": 2.0},
    "eurobert": {"num_key_value_heads": 2, "mask_token_id": 4},
    "qwen3": _GROUPED,
    "mistral": {**_GROUPED, "sliding_window": 12},
    "gemma3_text": {**_GROUPED, "sliding_window": 12, "query_pre_attn_scalar": 8},
    "t5": {"d_model": HIDDEN, "d_kv": 8, "d_ff": 64, "num_layers": LAYERS, "num_heads": HEADS},
}


def mostly_slow(
    every: Sequence[str], quick: Sequence[str] = ("bert", "mpnet", "qwen3")
) -> list[Any]:
    """Parameters for a test of something other than the engine: all but the quick ones are slow."""
    return [pytest.param(name, marks=() if name in quick else pytest.mark.slow) for name in every]


def available(architecture: str) -> bool:
    """Older transformers releases of the supported range lack some architectures."""
    return architecture in CONFIG_MAPPING


def tiny_tokenizer(padding_side: str = "right") -> PreTrainedTokenizerFast:
    """One token a word, between <s> and </s>."""
    vocabulary = {word: number for number, word in enumerate(SPECIAL + WORDS)}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    special = {"bos_token": "<s>", "cls_token": "<s>", "eos_token": "</s>", "sep_token": "</s>"}
    special |= {"pad_token": "<pad>", "unk_token": "<unk>", "mask_token": "<mask>"}
    limits = {"padding_side": padding_side, "model_max_length": 512}
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, **special, **limits)


def save_tiny(
    folder: Path, architecture: str, *, padding_side: str = "right", **changes: Any
) -> Path:
    """Write a random transformers checkpoint of that architecture, with its tokenizer."""
    torch.manual_seed(7)
    fields = {**_BASE, **_OWN.get(architecture, {}), **changes}
    config = AutoConfig.for_model(architecture, **fields)
    model = T5EncoderModel(config) if architecture == "t5" else AutoModel.from_config(config)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            # Some architectures initialise too evenly for their attention to prefer any key.
            if parameter.ndim == 2 and "embed" not in name:
                parameter.copy_(torch.randn_like(parameter) * 0.2)
    model.save_pretrained(folder)
    tiny_tokenizer(padding_side).save_pretrained(folder)
    return folder


def tiny_model(
    folder: Path,
    architecture: str = "bert",
    pooling: str = "cls",
    *,
    padding_side: str = "right",
    normalize: bool = False,
    **changes: Any,
) -> SentenceTransformer:
    """A random SentenceTransformer of that architecture, on the CPU."""
    path = save_tiny(folder, architecture, padding_side=padding_side, **changes)
    transformer = Transformer(str(path))
    modules = [transformer, Pooling(transformer.get_embedding_dimension(), pooling)]
    modules += [Normalize()] if normalize else []
    return SentenceTransformer(modules=modules, device="cpu").eval()


def words(count: int, seed: int = 0) -> str:
    """A text of that many tokens, special tokens aside."""
    generator = torch.Generator().manual_seed(seed)
    return " ".join(WORDS[int(i)] for i in torch.randint(len(WORDS), (count,), generator=generator))
