"""The kinds of model that tests run through."""

from __future__ import annotations

ARCHITECTURES = ["bert", "roberta", "xlm-roberta", "camembert", "electra", "distilbert", "albert"]
ARCHITECTURES += ["modernbert", "eurobert", "nomic_bert", "gte", "jina_embeddings_v3"]
ARCHITECTURES += ["qwen3", "mistral", "gemma3_text", "t5", "mpnet"]
POOLINGS = ["cls", "lasttoken", "mean"]
SIDES = ["right", "left"]
Kind = tuple[str, str, str]

# Every architecture once, with poolings and padding sides in turn; test_architectures.py has all.
ONE_EACH: list[Kind] = [
    (name, POOLINGS[number % 3], SIDES[number % 2]) for number, name in enumerate(ARCHITECTURES, 1)
]
# One pooled row; all rows, with a position bias and attention of its own; causal, grouped and
# padded on the left.
REPRESENTATIVES: list[Kind] = [
    *(("bert", "cls", "right"), ("mpnet", "mean", "right")),
    ("qwen3", "lasttoken", "left"),
]
