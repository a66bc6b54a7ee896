"""`ModelTokenizer`: counts a model's tokens without loading the model or torch."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

from tokenizers import Tokenizer

from fairspan.errors import UnsupportedModel
from fairspan.model.source import FOLDERS, find_model, model_file

_UNLIMITED = 10**9
"""transformers' way to say that a tokenizer names no limit is a far larger number."""


class ModelTokenizer:
    """The tokenizer of a model.

    Attributes:
        name: that of the model; of a folder, its last part.
        fingerprint: the same for tokenizers with the same rules and vocabulary.
        window: how many tokens of text a document may have: the model's limit less its special tokens; None if the
            model names no limit.
    """

    def __init__(self, name: str, tokenizer: Tokenizer, limit: int | None) -> None:
        tokenizer.no_truncation()
        tokenizer.no_padding()
        self.name, self._tokenizer = name, tokenizer
        self.window = None if limit is None else limit - tokenizer.num_special_tokens_to_add(False)
        rules = json.loads(tokenizer.to_str())
        self.fingerprint = hashlib.sha256(json.dumps(rules, sort_keys=True).encode()).hexdigest()

    def count(self, texts: Sequence[str]) -> list[int]:
        """The lengths of texts, without special tokens."""
        return [
            len(one.ids)
            for one in self._tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)
        ]


def load_tokenizer(model: str) -> ModelTokenizer:
    """The tokenizer of a model that is given as a folder or by its name on the hub.

    Raises:
        UnsupportedModel: if there is no such model, or it has no tokenizer.json.
    """
    is_folder = Path(model).is_dir()
    place, name = (model, Path(model).resolve().name) if is_folder else (find_model(model), model)
    why = "there is no tokenizer.json"
    try:
        for folder in FOLDERS:
            file = model_file(place, f"{folder}tokenizer.json")
            if file is not None:
                return ModelTokenizer(name, Tokenizer.from_file(str(file)), _limit(place, folder))
    except Exception as error:  # tokenizers has no class of its own
        why = str(error).splitlines()[0]
    raise UnsupportedModel(f"the tokenizer of {name} could not be loaded: {why}.")


def _limit(place: str, folder: str) -> int | None:
    """How many tokens the model reads, as a file of it says."""
    limits = []
    for name, key in (
        ("sentence_bert_config.json", "max_seq_length"),
        ("tokenizer_config.json", "model_max_length"),
    ):
        file = model_file(place, f"{folder}{name}")
        limits.append(
            None if file is None else json.loads(file.read_text(encoding="utf-8")).get(key)
        )
    return next((limit for limit in limits if isinstance(limit, int) and limit < _UNLIMITED), None)
