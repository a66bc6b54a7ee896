"""Which pages of several Wikipedias are about the same thing: links from Wikidata, or those of one wiki to others."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairspan.corpus.wikipedia.link_file import LinkFile
from fairspan.corpus.wikipedia.names import database
from fairspan.corpus.wikipedia.site import prefix_of
from fairspan.corpus.wikipedia.sql import rows
from fairspan.errors import CorpusError

Link = tuple[int, str, str]
"""The number of an item, a language, and the title of the item's page in that language, with spaces."""

_AT_ONCE = 1000
# Items whose pages are no articles: for disambiguation (two kinds), lists, sets, categories, templates, modules,
# portals, project pages.
_NO_TOPICS = {
    "Q4167410",
    "Q22808320",
    "Q13406463",
    "Q15623926",
    "Q4167836",
    "Q11266439",
    "Q15184295",
    "Q4663903",
    "Q14204246",
}


@dataclass(frozen=True, slots=True)
class Alignment:
    """Where links between languages are read from.

    Attributes:
        kind: "sitelinks" of Wikidata; "langlinks" of one wiki; "items", which are those that the dumps name.
        path: the file; None for items.
        pivot: the language of the wiki whose langlinks these are.
    """

    kind: str = "items"
    path: Path | None = None
    pivot: str | None = None

    @property
    def is_json(self) -> bool:
        """Whether these are Wikidata's entities, of which only those that have all languages are given."""
        return self.kind == "sitelinks" and self.path is not None and ".json" in self.path.suffixes

    def linked(self, languages: Sequence[str]) -> tuple[str, ...]:
        """The languages that have links: the pivot's own pages are known by their numbers."""
        return tuple(language for language in languages if language != self.pivot)

    def item_id(self, number: int) -> str:
        """What an item is called in a corpus."""
        return str(number) if self.kind == "langlinks" else f"Q{number}"

    def links(self, file: LinkFile, languages: Sequence[str]) -> Iterator[list[Link]]:
        """All links to pages in these languages, some thousand at a time."""
        linked = self.linked(languages)
        if self.kind == "langlinks":
            return _langlinks(file, linked)
        return _entities(file, linked) if self.is_json else _items_per_site(file, linked)


def _items_per_site(file: LinkFile, languages: Sequence[str]) -> Iterator[list[Link]]:
    """Wikidata's table of sitelinks."""
    known = {database(language).encode(): language for language in languages}
    columns = ("ips_item_id", "ips_site_id", "ips_site_page")
    only = ("ips_site_id", [site.decode() for site in known])
    for found in rows(file, "wb_items_per_site", columns, only):
        yield _links(found, known)


def _langlinks(file: LinkFile, languages: Sequence[str]) -> Iterator[list[Link]]:
    """A wiki's table of links to other languages. The numbers of its own pages stand for items."""
    known = {prefix_of(language).encode(): language for language in languages}
    columns = ("ll_from", "ll_lang", "ll_title")
    only = ("ll_lang", [prefix.decode() for prefix in known])
    for found in rows(file, "langlinks", columns, only):
        yield _links(found, known)


def _links(found: Sequence[tuple[bytes | None, ...]], known: Mapping[bytes, str]) -> list[Link]:
    return [
        (int(item), known[code], title.decode("utf-8", "replace").replace("_", " "))
        for item, code, title in found
        if item and code and title
    ]


def _entities(file: LinkFile, languages: Sequence[str]) -> Iterator[list[Link]]:
    """Wikidata's dump of entities in JSON, one per line.

    Most lines lack a language, which is seen without parsing them.
    """
    known = {database(language): language for language in languages}
    names = [f'"{site}"'.encode() for site in known]
    links: list[Link] = []
    last = b""
    for line in file.lines():
        last = line.strip() or last
        if not all(name in line for name in names):
            continue
        entity = _parsed(line, file)
        sites = entity.get("sitelinks")
        item = str(entity.get("id", ""))
        if not isinstance(sites, dict) or not item.startswith("Q") or not all(site in sites for site in known):
            continue
        if not _NO_TOPICS.isdisjoint(_classes(entity)):
            continue
        links += [(int(item[1:]), known[site], str(sites[site]["title"])) for site in known]
        if len(links) >= _AT_ONCE:
            yield links
            links = []
    if last != b"]":
        raise CorpusError(f"{file.path.name} is cut off: download it again, and run the same command.")
    yield links


def _parsed(line: bytes, file: LinkFile) -> dict[str, Any]:
    try:
        entity = json.loads(line.strip().rstrip(b","))
    except ValueError:
        raise CorpusError(
            f"{file.path.name} is damaged or cut off: a line before byte {file.position:,} is not JSON. Download "
            "it again, and run the same command."
        ) from None
    return entity if isinstance(entity, dict) else {}


def _classes(entity: Mapping[str, Any]) -> Iterator[str]:
    """What an item is an instance of."""
    claims = entity.get("claims")
    for claim in claims.get("P31", ()) if isinstance(claims, dict) else ():
        value = claim.get("mainsnak", {}).get("datavalue", {}).get("value", {})
        yield str(value.get("id")) if isinstance(value, dict) else ""
