"""`BuildRequest`: everything that was asked of a corpus, as one frozen value."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from fairspan.corpus.corpus import parse_languages
from fairspan.corpus.wikipedia.site import require_code
from fairspan.corpus.wikipedia.sitelinks import Alignment
from fairspan.errors import CorpusError, require_whole

MIN_TOKENS, MAX_TOKENS = 1000, 2000
"""IRF, section 3."""


class Tokenizer(Protocol):
    """What counts the tokens of a model.

    `fingerprint` is the same for tokenizers that count alike.
    """

    name: str
    fingerprint: str

    def count(self, texts: Sequence[str]) -> list[int]: ...


@dataclass(frozen=True, slots=True)
class Limits:
    """How long an article may be, in tokens.

    Attributes:
        length_language: the one language that `min_tokens` and `max_tokens` hold for; None holds every language to
            them.
        length_ratio: with `length_language`, how far the other languages' lengths may be from that one's, as a share
            of it (IRF: 0.7). None lets them have any length.
    """

    min_tokens: int = MIN_TOKENS
    max_tokens: int = MAX_TOKENS
    length_language: str | None = None
    length_ratio: float | None = None

    def __post_init__(self) -> None:
        require_whole("min_tokens", self.min_tokens, kind=CorpusError)
        require_whole("max_tokens", self.max_tokens, kind=CorpusError)
        if self.min_tokens > self.max_tokens:
            raise CorpusError(
                f"[[min_tokens={self.min_tokens}]] is more than [[max_tokens={self.max_tokens}]]: no article is both."
            )
        if self.length_ratio is not None:
            if isinstance(self.length_ratio, bool) or not 0 < self.length_ratio < float("inf"):
                raise CorpusError(f"[[length_ratio]] must be above 0, such as 0.7, got {self.length_ratio!r}.")
            if self.length_language is None:
                raise CorpusError(
                    "[[length_ratio]] compares lengths with those of one language: name it, for example "
                    "[[length_language=en]]."
                )

    def bounds(self, language: str, base: int | None) -> tuple[float, float]:
        """The least and the most tokens in a language.

        Args:
            base: the tokens of the same article in `length_language`, if they are known.

        >>> Limits(100, 200, "en", 0.5).bounds("de", None), Limits(100, 200, "en", 0.5).bounds("de", 120)
        ((50.0, 300.0), (60.0, 180.0))
        """
        if self.length_language in (None, language):
            return self.min_tokens, self.max_tokens
        if self.length_ratio is None:
            return 1, float("inf")
        least, most = (self.min_tokens, self.max_tokens) if base is None else (base, base)
        return (1 - self.length_ratio) * least, (1 + self.length_ratio) * most


@dataclass(frozen=True, slots=True)
class BuildRequest:
    """What to build, from which files.

    Attributes:
        dumps: by language, the files of its dump.
        limit: how many articles to draw; None takes all.
        seed: of that draw.
    """

    languages: tuple[str, ...]
    dumps: Mapping[str, tuple[Path, ...]]
    alignment: Alignment
    limits: Limits
    limit: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        parse_languages(self.languages)
        for language in self.languages:
            require_code(language)
        missing = [language for language in self.languages if not self.dumps.get(language)]
        if missing:
            raise CorpusError(
                f"there is no dump of {missing[0]!r}: name it with [[dump={missing[0]}=…]], or put it into the "
                "folder of [[dumps=]] under its usual name."
            )
        others = [language for language in self.dumps if language not in self.languages]
        if others:
            raise CorpusError(
                f"[[dump={others[0]}=…]] names a language that is not among [[languages={','.join(self.languages)}]]."
            )
        base = self.limits.length_language
        if base is not None and base not in self.languages:
            raise CorpusError(f"[[length_language={base}]] is not among the languages {', '.join(self.languages)}.")
        if self.limit is not None:
            require_whole("limit", self.limit, kind=CorpusError)
        require_whole("seed", self.seed, least=0, kind=CorpusError)

    @property
    def order(self) -> tuple[str, ...]:
        """The order of reading: the smallest dump first, so that of later ones only little has to be cleaned."""
        return tuple(sorted(self.languages, key=lambda language: (self.size(language), language)))

    def size(self, language: str) -> int:
        """Bytes of a language's dump."""
        return sum(_size(path) for path in self.dumps[language])

    def files(self, language: str) -> list[dict[str, Any]]:
        """A dump's files as a reader of the corpus may know them."""
        return [{"name": path.name, "bytes": _size(path)} for path in self.dumps[language]]

    def exact_files(self, language: str | None) -> list[list[Any]]:
        """The files of a language, or of the alignment, as they are now on this machine."""
        own = self.alignment.path
        paths = self.dumps[language] if language is not None else (own,) if own is not None else ()
        return [[str(path.resolve()), _size(path), _changed(path)] for path in paths]

    def asked(self, tokenizer: Tokenizer) -> dict[str, Any]:
        """What decides the corpus, without paths of this machine."""
        aligned, limits = self.alignment, self.limits
        return {
            "languages": list(self.languages),
            "min_tokens": limits.min_tokens,
            "max_tokens": limits.max_tokens,
            "length_language": limits.length_language,
            "length_ratio": limits.length_ratio,
            "limit": self.limit,
            "seed": self.seed,
            "model": {"name": tokenizer.name, "tokenizer": tokenizer.fingerprint},
            "alignment": {
                "kind": aligned.kind,
                "pivot": aligned.pivot,
                "file": None if aligned.path is None else {"name": aligned.path.name, "bytes": _size(aligned.path)},
            },
        }


def _parts(path: Path) -> list[Path]:
    return sorted(one for one in path.rglob("*") if one.is_file()) if path.is_dir() else [path]


def _size(path: Path) -> int:
    try:
        return sum(part.stat().st_size for part in _parts(path))
    except OSError as error:
        raise CorpusError(f"{path} cannot be read: {error.strerror or error}.") from None


def _changed(path: Path) -> list[int]:
    return [part.stat().st_mtime_ns for part in _parts(path)]
