"""`BuildRequest`: everything that decides a corpus from dumps, as one frozen value."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

from fairspan.corpus.corpus import parse_languages
from fairspan.corpus.rows import unreadable
from fairspan.errors import CorpusError, require_whole


class Tokenizer(Protocol):
    """Counts a model's tokens; `fingerprint` is the same for tokenizers that count alike."""

    name: str
    fingerprint: str

    def count(self, texts: Sequence[str]) -> list[int]: ...


@dataclass(frozen=True, slots=True)
class BuildRequest:
    """What to build, from which files.

    Attributes:
        languages: languages of the corpus.
        dumps: by language, the files of its dump.
        sitelinks: Wikidata's table of links, wb_items_per_site. By default the items that the dumps
            name.
        min_tokens: omit shorter articles (IRF, section 3: 1,000 to 2,000 tokens).
        max_tokens: omit longer articles.
        length_language: apply these limits to this language only.
        length_ratio: with `length_language`, the allowed difference of other languages' lengths, as
            a share of its length, such as 0.7 (IRF). By default they may have any length.
        limit: number of articles to draw. By default all.
        seed: seed of that draw.
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
        """Raise on values that cannot be used."""
        parse_languages(self.languages)
        for language in self.languages:
            if not self.dumps.get(language):
                remedy = f"give dump={language}=… or a folder with it"
                raise CorpusError(f"there is no dump of {language!r}: {remedy}.")
        options = [("dump", language) for language in self.dumps]
        if self.length_language is not None:
            options.append(("length_language", self.length_language))
        for name, language in options:
            if language not in self.languages:
                raise CorpusError(f"{name}: {language!r} is not among {', '.join(self.languages)}.")
        for name, least in (("min_tokens", 1), ("max_tokens", self.min_tokens), ("seed", 0)):
            require_whole(name, getattr(self, name), least=least, kind=CorpusError)
        if self.limit is not None:
            require_whole("limit", self.limit, kind=CorpusError)
        ratio = self.length_ratio
        if ratio is not None and not (self.length_language and 0 < ratio < float("inf")):
            raise CorpusError(f"length_ratio={ratio!r} must be above 0, and needs length_language.")

    def bounds(self, language: str) -> tuple[float, float]:
        """The least and the most tokens in a language."""
        if self.length_language in (None, language):
            return self.min_tokens, self.max_tokens
        if self.length_ratio is None:
            return 1, float("inf")
        return (1 - self.length_ratio) * self.min_tokens, (1 + self.length_ratio) * self.max_tokens

    def similar(self, tokens: Mapping[str, int]) -> bool:
        """Whether an article's tokens by language are near those in `length_language`."""
        ratio = self.length_ratio
        if self.length_language is None or ratio is None:
            return True
        base = tokens[self.length_language]
        return all((1 - ratio) * base <= length <= (1 + ratio) * base for length in tokens.values())

    @property
    def order(self) -> tuple[str, ...]:
        """The order of reading: the smallest dump first, so that less of later ones is cleaned."""
        sizes = {}
        for language in self.languages:
            sizes[language] = sum(size for _, size, _ in stamps(self.dumps[language]))
        return tuple(sorted(sizes, key=lambda language: (sizes[language], language)))

    def asked(self, tokenizer: Tokenizer) -> dict[str, Any]:
        """What decides the corpus, without paths of this machine."""
        dumps = {}
        for language in self.languages:
            dumps[language] = [stamp[:2] for stamp in stamps(self.dumps[language])]
        return asdict(self) | {
            "languages": list(self.languages),
            "dumps": dumps,
            "sitelinks": None if self.sitelinks is None else self.sitelinks.name,
            "model": {"name": tokenizer.name, "tokenizer": tokenizer.fingerprint},
        }


def stamps(paths: Sequence[Path]) -> list[list[Any]]:
    """Name, bytes and time of files."""
    states = []
    for path in paths:
        try:
            stat = path.stat()
        except OSError as error:
            raise unreadable(path, error) from None
        states.append([path.name, stat.st_size, stat.st_mtime_ns])
    return states
