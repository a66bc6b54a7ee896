"""The features of a pass that computed only the rows that are pooled."""

from collections.abc import Callable, ItemsView, Iterator, ValuesView
from typing import Any

from torch import Tensor

TOKENS = "token_embeddings"


class PooledFeatures(dict[str, Any]):
    """Features whose token embeddings hold one token per text, the pooled one, until somebody asks for all of them.

    The pooling module reads the one row that it needs. Whoever reads `token_embeddings` after it (an `encode` for
    token embeddings, a module further on) gets those of all tokens, computed then.
    """

    def __init__(self, features: dict[str, Any], all_tokens: Callable[[], Tensor]) -> None:
        super().__init__(features)
        self._all_tokens: Callable[[], Tensor] | None = all_tokens

    def _complete(self) -> None:
        if self._all_tokens is not None and "sentence_embedding" in self:
            compute, self._all_tokens = self._all_tokens, None
            self[TOKENS] = compute()

    def __getitem__(self, key: str) -> Any:
        if key == TOKENS:
            self._complete()
        return super().__getitem__(key)

    def __iter__(self) -> Iterator[str]:
        # With an iterator of its own, dict(...) and {**...} go through __getitem__ instead of copying the table.
        self._complete()
        return super().__iter__()

    def pop(self, key: str, *default: Any) -> Any:
        self._complete()
        return super().pop(key, *default)

    def copy(self) -> dict[str, Any]:
        return dict(self.items())

    def __or__(self, other: dict[str, Any]) -> dict[str, Any]:  # type: ignore[override]
        return self.copy() | other

    def get(self, key: str, default: Any = None) -> Any:
        try:
            return self[key]
        except KeyError:
            return default

    def items(self) -> ItemsView[str, Any]:  # type: ignore[override]
        self._complete()
        return super().items()

    def values(self) -> ValuesView[Any]:  # type: ignore[override]
        self._complete()
        return super().values()
