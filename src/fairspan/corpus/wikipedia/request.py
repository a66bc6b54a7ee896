"""`BuildRequest`: everything that was asked of a corpus, as one frozen value."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

from fairspan.corpus.corpus import parse_languages
from fairspan.errors import CorpusError, require_whole


class Tokenizer(Protocol):
    """What counts the tokens of a model; `fingerprint` is the same for tokenizers that count alike."""

    name: str
    fingerprint: str

    def count(self, texts: Sequence[str]) -> list[int]: ...


@dataclass(frozen=True, slots=True)
class BuildRequest:
    """What to build, from which files.

    Attributes:
        dumps: by language, the files of its dump.
        sitelinks: Wikidata's table of links; None aligns by the items that the dumps name.
        min_tokens: of an article (IRF, section 3: 1,000 to 2,000).
        length_language: the one language that `min_tokens` and `max_tokens` hold for; None holds every language to
            them.
        length_ratio: with `length_language`, how far the other languages' lengths may be from that one's, as a share
            of it (IRF: 0.7). None lets them have any length.
        limit: how many articles to draw; None takes all.
        seed: of that draw.
    """

    languages: tuple[str, ...]
    dumps: Mapping[str, tuple[Path, ...]]
    sitelinks: Path | None = None
    min_tokens: int = 1000
    max_tokens: int = 2000
    length_language: str | None = None
    length_ratio: float | None = None
    limit: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        parse_languages(self.languages)
        for language in self.languages:
            if not self.dumps.get(language):
                raise CorpusError(
                    f"there is no dump of {language!r}: give dump={language}=… or a folder with it."
                )
        given = [*(("dump", one) for one in self.dumps), ("length_language", self.length_language)]
        for name, named in given:
            if named not in (None, *self.languages):
                raise CorpusError(f"{name}: {named!r} is not among {', '.join(self.languages)}.")
        for name, least in (("min_tokens", 1), ("max_tokens", self.min_tokens), ("seed", 0)):
            require_whole(name, getattr(self, name), least=least, kind=CorpusError)
        if self.limit is not None:
            require_whole("limit", self.limit, kind=CorpusError)
        if self.length_ratio is not None and not (
            self.length_language and 0 < self.length_ratio < float("inf")
        ):
            raise CorpusError(
                f"length_ratio={self.length_ratio!r} must be above 0, and needs length_language."
            )

    def bounds(self, language: str) -> tuple[float, float]:
        """The least and the most tokens in a language."""
        if self.length_language in (None, language):
            return self.min_tokens, self.max_tokens
        if self.length_ratio is None:
            return 1, float("inf")
        return (1 - self.length_ratio) * self.min_tokens, (1 + self.length_ratio) * self.max_tokens

    def similar(self, tokens: Mapping[str, int]) -> bool:
        """Whether an article's tokens by language are near enough to those in `length_language`."""
        if self.length_language is None or self.length_ratio is None:
            return True
        base, ratio = tokens[self.length_language], self.length_ratio
        return all((1 - ratio) * base <= length <= (1 + ratio) * base for length in tokens.values())

    @property
    def order(self) -> tuple[str, ...]:
        """The order of reading: the smallest dump first, so that of later ones only little has to be cleaned."""
        sizes = {one: sum(size for _, size, _ in stamps(self.dumps[one])) for one in self.languages}
        return tuple(sorted(self.languages, key=lambda one: (sizes[one], one)))

    def asked(self, tokenizer: Tokenizer) -> dict[str, Any]:
        """What decides the corpus, without paths of this machine."""
        return asdict(self) | {
            "languages": list(self.languages),
            "dumps": {
                one: [stamp[:2] for stamp in stamps(self.dumps[one])] for one in self.languages
            },
            "sitelinks": None if self.sitelinks is None else self.sitelinks.name,
            "model": {"name": tokenizer.name, "tokenizer": tokenizer.fingerprint},
        }


def stamps(paths: Sequence[Path]) -> list[list[Any]]:
    """Name, bytes and time of files."""
    found = []
    for path in paths:
        try:
            stat = path.stat()
        except OSError as error:
            raise CorpusError(f"{path} cannot be read: {error.strerror}.") from None
        found.append([path.name, stat.st_size, stat.st_mtime_ns])
    return found
