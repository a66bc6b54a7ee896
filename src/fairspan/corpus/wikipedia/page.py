"""`Page`: one page of a Wikipedia, as its dump has it."""

from collections.abc import Callable
from dataclasses import dataclass

from fairspan.corpus.wikipedia.names import database
from fairspan.errors import CorpusError


@dataclass(frozen=True, slots=True)
class Page:
    """What a dump says of a page before its text is cleaned.

    Attributes:
        page_id: its number in its wiki; 0 where a damaged record does not say.
        title: with spaces, as a reader sees it.
        revision: the number of the revision; None where the dump does not say.
        kind: "article", "redirect", "disambiguation", "list" or "other", which is any page that is not an article.
        item: the Wikidata item, such as "Q42", where the dump names it.
        size: bytes of its source, a cheap bound on how long its text can be.
        clean: makes its plain text; called only for pages that are wanted, because cleaning is what costs.
    """

    page_id: int
    title: str
    revision: int | None
    kind: str
    item: str | None
    size: int
    clean: Callable[[], str]


def refuse_other_wiki(file: str, wiki: str, language: str) -> None:
    """Raise unless `wiki`, the database that a dump names, is the Wikipedia of the language; "" says nothing."""
    wanted = database(language)
    if wiki and wiki != wanted and database(wiki.removesuffix("wiki")) != wanted:
        raise CorpusError(
            f"{file} is a dump of {wiki}, and the Wikipedia of {language!r} is {wanted}. "
            "Give each language the dump of its own Wikipedia."
        )
