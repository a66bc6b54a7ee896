"""A progress bar over tokens, where sentence_transformers' own would stand still in long texts."""

from __future__ import annotations

import inspect
import logging
import math
import threading
from collections.abc import Sequence
from functools import wraps
from types import MethodType
from typing import Any

from sentence_transformers import MultiVectorEncoder, SentenceTransformer
from tqdm.auto import tqdm

from fairspan.attention.baskets import is_traced


class TokenBar:
    """The tokens of the batches of a call, of which the first ones tell how many there will be."""

    def __init__(self, drawn: Any, characters: int) -> None:
        """Count in a bar of tqdm, for texts of so many characters."""
        self._drawn = drawn
        self._all_characters = characters
        self._characters = 0
        self._tokens = 0

    def begin_batch(self, texts: Sequence[str], tokens: int) -> None:
        """Note texts of so many tokens, before which all others are done."""
        self.advance(math.inf)
        self._characters += sum(map(len, texts))
        self._tokens += tokens
        expected = self._tokens * self._all_characters / max(1, self._characters)
        self._drawn.total = round(expected)
        self._drawn.refresh()

    def advance(self, tokens: float) -> None:
        """Count tokens of the batch that was begun; padding may be among them."""
        self._drawn.update(min(tokens, self._tokens - self._drawn.n))


class _Current(threading.local):
    bar: TokenBar | None = None


_current = _Current()


def current_bar() -> TokenBar | None:
    """The bar that this thread shows; None in graphs."""
    return None if is_traced() else _current.bar


def count_tokens_in_bar(model: SentenceTransformer | MultiVectorEncoder) -> None:
    """Let `encode` of a model in tiles show a bar over tokens whenever it would show its own."""
    model.encode = MethodType(_encode, model)


@wraps(SentenceTransformer.encode)
def _encode(model: SentenceTransformer | MultiVectorEncoder, *args: Any, **kwargs: Any) -> Any:
    """What `encode` of the model's class returns, under a bar over tokens if it shows one."""
    encode = type(model).encode
    call = inspect.signature(encode).bind_partial(model, *args, **kwargs)
    options = call.arguments
    is_shown = options.get("show_progress_bar")
    if is_shown is None:
        level = logging.getLogger(encode.__module__).getEffectiveLevel()
        is_shown = level in (logging.INFO, logging.DEBUG)
    texts = options.get("inputs")
    texts = [texts] if isinstance(texts, str) else texts
    are_texts = isinstance(texts, list) and all(isinstance(text, str) for text in texts)
    in_processes = options.get("pool") is not None or isinstance(options.get("device"), list)
    in_tiles = any(getattr(module, "tiling", None) is not None for module in model.modules())
    if not (is_shown and are_texts and in_tiles) or in_processes:
        return encode(model, *args, **kwargs)
    options["show_progress_bar"] = False
    with tqdm(desc="Tokens", unit=" tokens", unit_scale=True) as drawn:
        bar = TokenBar(drawn, sum(map(len, texts or ())))
        _current.bar = bar
        try:
            vectors = encode(*call.args, **call.kwargs)
        finally:
            _current.bar = None
        bar.advance(math.inf)
    return vectors
