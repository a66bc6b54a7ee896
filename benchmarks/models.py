"""Random-weight models of real shapes: speed does not depend on what the weights are."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass

import torch
import transformers
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
from tests.builders.tiny import tiny_tokenizer
from transformers import AutoConfig, AutoModel

VOCABULARY = 1000
WINDOW = 512


@dataclass(frozen=True, slots=True)
class Shape:
    """The size of a model."""

    name: str
    layers: int
    hidden: int
    heads: int


SMALL = Shape("small (6 layers, 384 wide, 12 heads; the shape of all-MiniLM-L6-v2)", 6, 384, 12)
BASE = Shape("base (12 layers, 768 wide, 12 heads; the shape of XLM-R base)", 12, 768, 12)


_OWN = {
    "modernbert": {"pad_token_id": 1, "cls_token_id": 0, "sep_token_id": 2},
    "qwen3": {"num_key_value_heads": 2},
}


def random_model(
    shape: Shape, pooling: str, longest: int, architecture: str = "xlm-roberta"
) -> SentenceTransformer:
    """A model of that shape with random weights and room for `longest` tokens."""
    torch.manual_seed(0)
    transformers.logging.disable_progress_bar()
    own = dict(_OWN.get(architecture, {}))
    if architecture in ("qwen3", "nomic_bert"):
        own["head_dim"] = shape.hidden // shape.heads
    config = AutoConfig.for_model(
        architecture,
        vocab_size=VOCABULARY,
        hidden_size=shape.hidden,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        intermediate_size=4 * shape.hidden,
        max_position_embeddings=longest + 2,
        **own,
    )
    with tempfile.TemporaryDirectory() as folder:
        AutoModel.from_config(config).save_pretrained(folder)
        tokenizer = tiny_tokenizer()
        tokenizer.model_max_length = longest
        tokenizer.save_pretrained(folder)
        transformer = Transformer(folder)
    return SentenceTransformer(
        modules=[transformer, Pooling(shape.hidden, pooling)], device="cpu"
    ).eval()


def random_batch(texts: int, tokens: int, generator: torch.Generator) -> dict[str, torch.Tensor]:
    """Features of fresh random texts, without padding."""
    ids = torch.randint(5, VOCABULARY, (texts, tokens), generator=generator)
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
