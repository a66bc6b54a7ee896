"""A progress bar over tokens, where sentence_transformers' own would stand still in long texts."""

from __future__ import annotations

import inspect
import logging
import math
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from types import MethodType
from typing import Any

from sentence_transformers import MultiVectorEncoder, SentenceTransformer
from tqdm.auto import tqdm

from fairspan.attention.baskets import is_traced


class TokenBar:
    """The tokens of the batches of one call, of which the first ones tell how many there will be.

    Args:
        characters: of all texts of the call.
    """

    def __init__(self, characters: int) -> None:
        self._bar = tqdm(desc="Tokens", unit=" tokens", unit_scale=True)
        self._characters_left = characters
        self._characters = 0
        self._tokens = 0

    def begin_batch(self, texts: Sequence[str], tokens: int) -> None:
        """Note texts of so many tokens, before which all others are done."""
        self._move_to(self._tokens)
        characters = sum(map(len, texts))
        self._characters += characters
        self._characters_left -= characters
        self._tokens += tokens
        more = self._characters_left * self._tokens / max(1, self._characters)
        self._bar.total = self._tokens + round(more)
        self._bar.refresh()

    def advance(self, tokens: float) -> None:
        """Count tokens, padding perhaps included, of the batch that was begun."""
        self._move_to(min(self._bar.n + tokens, self._tokens))

    def close(self) -> None:
        self._bar.close()

    def _move_to(self, tokens: float) -> None:
        self._bar.update(tokens - self._bar.n)


class _Current(threading.local):
    bar: TokenBar | None = None


_current = _Current()


def current_bar() -> TokenBar | None:
    """The bar that this thread shows; None in graphs."""
    return None if is_traced() else _current.bar


@contextmanager
def _showing(characters: int) -> Iterator[None]:
    """Show a bar inside this block."""
    before = _current.bar
    bar = TokenBar(characters)
    _current.bar = bar
    try:
        yield
        bar.advance(math.inf)
    finally:
        _current.bar = before
        bar.close()


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
    with _showing(sum(map(len, texts or ()))):
        return encode(*call.args, **call.kwargs)
