"""Files of dumps in a folder, by the names that they are published under."""

import re
from collections.abc import Sequence
from pathlib import Path

from fairspan.corpus.wikipedia.names import database
from fairspan.corpus.wikipedia.site import prefix_of
from fairspan.corpus.wikipedia.sitelinks import Alignment
from fairspan.errors import CorpusError

_ARTICLES = (
    r"{wiki}-(?P<date>\d+|latest)-pages-articles-multistream\d*\.xml(-p\d+p\d+)?\.bz2",
    r"{wiki}-(?P<date>\d+|latest)-pages-articles\d*\.xml(-p\d+p\d+)?(\.bz2)?",
    r"{wiki}-NS0-(?P<date>\d+)-ENTERPRISE-HTML\.json\.tar\.gz",
    r"{wiki}-(?P<date>\d+)-cirrussearch-content\.json\.(gz|bz2)",
    r"{wiki}_content-(?P<date>\d+)-\d+\.json\.(gz|bz2)",
)
_SITELINKS = (r"wikidatawiki-(\d+|latest)-wb_items_per_site\.sql(\.gz)?", r"(latest-all|\d+-all)\.json\.(gz|bz2)")
_LANGLINKS = r"{wiki}-(\d+|latest)-langlinks\.sql(\.gz)?"


def find_dump(folder: Path, language: str) -> tuple[Path, ...]:
    """The files of a language's newest dump; nothing if there are none.

    If there are dumps in several formats, the first in the order of the formats above is taken.
    """
    wiki = re.escape(database(language))
    names = sorted(_names(folder))
    for pattern in _ARTICLES:
        known = {name: found for name in names if (found := re.fullmatch(pattern.format(wiki=wiki), name))}
        if known:
            newest = max(found["date"] for found in known.values())
            own = [name for name, found in known.items() if found["date"] == newest]
            return tuple(folder / name for name in _whole_or_parts(own))
    wanted = re.compile(rf"\d+\.{re.escape(prefix_of(language))}")
    folders = [name for name in names if wanted.fullmatch(name) and (folder / name).is_dir()]
    return (folder / folders[-1],) if folders else ()


def find_alignment(folder: Path, languages: Sequence[str]) -> Alignment:
    """The newest file of links in a folder: Wikidata's, or else the langlinks of the first language that has some."""
    names = sorted(_names(folder), reverse=True)
    for pattern in _SITELINKS:
        for name in names:
            if re.fullmatch(pattern, name):
                return Alignment("sitelinks", folder / name)
    for language in languages:
        for name in names:
            if re.fullmatch(_LANGLINKS.format(wiki=re.escape(database(language))), name):
                return Alignment("langlinks", folder / name, language)
    return Alignment()


def _whole_or_parts(names: list[str]) -> list[str]:
    """Large dumps are published in parts and, for some wikis, also whole."""
    whole = [name for name in names if not re.search(r"articles(-multistream)?\d", name)]
    return whole if whole and len(whole) < len(names) else names


def _names(folder: Path) -> list[str]:
    try:
        return [one.name for one in folder.iterdir() if not one.name.startswith(".")]
    except OSError as error:
        raise CorpusError(f"the folder {folder} cannot be read: {error.strerror or error}.") from None
