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
"""transformers writes a far larger number for a tokenizer without a limit."""


class ModelTokenizer:
    """The tokenizer of a model.

    `window` is how many tokens of text a document may have, special ones aside; None for any
    number. `fingerprint` is the same for tokenizers with the same rules and vocabulary.
    """

    def __init__(self, name: str, tokenizer: Tokenizer, limit: int | None) -> None:
        tokenizer.no_truncation()
        tokenizer.no_padding()
        self.name = name
        self._tokenizer = tokenizer
        self.window = None if limit is None else limit - tokenizer.num_special_tokens_to_add(False)
        rules = json.loads(tokenizer.to_str())
        self.fingerprint = hashlib.sha256(json.dumps(rules, sort_keys=True).encode()).hexdigest()

    def count(self, texts: Sequence[str]) -> list[int]:
        """The lengths of texts, without special tokens."""
        encodings = self._tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)
        return [len(encoding.ids) for encoding in encodings]


def load_tokenizer(model: str) -> ModelTokenizer:
    """The tokenizer of a model that is given as a folder or by its name on the hub."""
    place = model
    name = Path(model).resolve().name
    if not Path(model).is_dir():
        place = find_model(model)
        name = model
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
    for name, key in (
        ("sentence_bert_config.json", "max_seq_length"),
        ("tokenizer_config.json", "model_max_length"),
    ):
        file = model_file(place, f"{folder}{name}")
        limit = None if file is None else json.loads(file.read_text(encoding="utf-8")).get(key)
        if isinstance(limit, int) and limit < _UNLIMITED:
            return limit
    return None
