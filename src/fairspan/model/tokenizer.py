"""`ModelTokenizer`: counts a model's tokens without loading the model, and where possible without torch."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from fairspan.errors import UnsupportedModel
from fairspan.model.source import Source, find_model

_FOLDERS = ("", "0_Transformer", "0_CalibratedTransformer")
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

    def __init__(self, name: str, count: Callable[[list[str]], list[int]], rules: Any, window: int | None) -> None:
        self.name, self.window, self._count = name, window, count
        self.fingerprint = hashlib.sha256(json.dumps(rules, sort_keys=True).encode()).hexdigest()

    def count(self, texts: Sequence[str]) -> list[int]:
        """The lengths of texts, without special tokens."""
        return self._count(list(texts))


def load_tokenizer(model: str) -> ModelTokenizer:
    """The tokenizer of a model that is given as a folder or by its name on the hub.

    Raises:
        UnsupportedModel: if there is no such model, or it has no tokenizer.
    """
    is_folder = Path(model).is_dir()
    source, name = (Source(model), Path(model).resolve().name) if is_folder else (find_model(model), model)
    try:
        for folder in _FOLDERS:
            file = _file(source, folder, "tokenizer.json")
            if file is not None:
                return _from_rules(name, file, source, folder)
        return _from_transformers(name, source)
    except Exception as error:  # tokenizers has no class of its own
        raise UnsupportedModel(f"the tokenizer of {name} could not be loaded: {str(error).splitlines()[0]}") from None


def _from_rules(name: str, file: Path, source: Source, folder: str) -> ModelTokenizer:
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(file))
    tokenizer.no_truncation()
    tokenizer.no_padding()

    def count(texts: list[str]) -> list[int]:
        return [len(one.ids) for one in tokenizer.encode_batch_fast(texts, add_special_tokens=False)]

    window = _window(source, folder, tokenizer.num_special_tokens_to_add(False))
    return ModelTokenizer(name, count, json.loads(tokenizer.to_str()), window)


def _from_transformers(name: str, source: Source) -> ModelTokenizer:
    """Tokenizers that are not written as rules in one file: transformers knows how to make them."""
    from transformers import AutoTokenizer

    folder = next((one for one in _FOLDERS if _file(source, one, "tokenizer_config.json")), "")
    tokenizer = AutoTokenizer.from_pretrained(source.place, subfolder=folder)

    def count(texts: list[str]) -> list[int]:
        found = tokenizer(texts, add_special_tokens=False, truncation=False, verbose=False)
        return [len(ids) for ids in found["input_ids"]]

    window = _window(source, folder, tokenizer.num_special_tokens_to_add())
    return ModelTokenizer(name, count, sorted(tokenizer.get_vocab().items()), window)


def _file(source: Source, folder: str, name: str) -> Path | None:
    """A file of the model, if it has one of that name."""
    place = Path(source.place)
    if place.is_dir():
        file = place / folder / name
        return file if file.is_file() else None
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import EntryNotFoundError

    with suppress(OSError, EntryNotFoundError):
        return Path(hf_hub_download(source.place, name, subfolder=folder or None))
    return None


def _window(source: Source, folder: str, special: int) -> int | None:
    """The limit that a file of the model sets, less the special tokens."""
    limits = [source.max_seq_length]
    for name, key in (("sentence_bert_config.json", "max_seq_length"), ("tokenizer_config.json", "model_max_length")):
        file = _file(source, folder, name)
        limits.append(None if file is None else json.loads(file.read_text(encoding="utf-8")).get(key))
    found = next((limit for limit in limits if isinstance(limit, int) and limit < _UNLIMITED), None)
    return None if found is None else found - special
