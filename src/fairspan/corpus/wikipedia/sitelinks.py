"""Wikidata's table of the pages of items in wikis, reduced to items that have all languages."""

import re
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path

from fairspan.corpus.rows import damaged, opened
from fairspan.corpus.wikipedia.downloads import database
from fairspan.errors import CorpusError

# The first columns are numbers and quotes inside texts are escaped, so no text looks like a row.
_ROW = rb"\(\d+,(\d+),(?:_binary )?'(%s)',(?:_binary )?'([^'\\]*+(?:(?:\\.|'')[^'\\]*+)*+)'\)"
_ESCAPE = re.compile(r"\\(.)|''", re.DOTALL)
_BLOCK = 1 << 20


def item_of(links: sqlite3.Connection, language: str, title: str) -> int | None:
    """The item of a page, in a file of links."""
    query = "SELECT item FROM link WHERE language = ? AND title = ?"
    row = links.execute(query, (language, title)).fetchone()
    return None if row is None else int(row[0])


def write_sitelinks(
    path: Path, languages: Sequence[str], file: Path, reached: Callable[[int, str], None]
) -> None:
    """Reduce Wikidata's table to an SQLite file; `reached` takes the bytes read."""
    file.unlink(missing_ok=True)
    with closing(sqlite3.connect(file)) as links:
        links.executescript("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;")
        links.execute("CREATE TABLE every (item INTEGER, language TEXT, title TEXT)")
        for batch, position in _links(path, languages):
            links.executemany("INSERT INTO every VALUES (?, ?, ?)", batch)
            links.commit()
            reached(position, "")
        links.execute(
            "CREATE TABLE link (language, title, item, PRIMARY KEY (language, title)) WITHOUT ROWID"
        )
        links.execute(
            "INSERT OR IGNORE INTO link SELECT language, title, item FROM every WHERE item IN "
            "(SELECT item FROM every GROUP BY item HAVING count(DISTINCT language) = ?) "
            "ORDER BY 1, 2, 3",
            [len(languages)],
        )
        if links.execute("SELECT count(*) FROM link").fetchone() == (0,):
            wikis = f"{', '.join(map(database, languages))}, as wb_items_per_site would name it"
            raise CorpusError(f"no item of {path.name} has a page in all of {wikis}.")
        links.execute("DROP TABLE every")
        links.commit()


def _links(
    path: Path, languages: Sequence[str]
) -> Iterator[tuple[list[tuple[int, str, str]], int]]:
    """Items, languages and titles, some thousand at a time, with the bytes read so far."""
    sites = {database(language).encode(): language for language in languages}
    row = re.compile(_ROW % b"|".join(map(re.escape, sites)), re.DOTALL)
    last = b""
    with opened(path) as (raw, file):
        while block := file.read(_BLOCK):
            block += file.readline()
            last = block.rstrip().rpartition(b"\n")[2]
            batch = [
                (int(item), sites[site], _plain(title)) for item, site, title in row.findall(block)
            ]
            yield batch, raw.tell()
    if not last.endswith((b";", b"*/")) and not last.startswith(b"--"):
        raise damaged(path)


def _plain(title: bytes) -> str:
    """A title without the escapes of SQL."""
    return _ESCAPE.sub(lambda match: match[1] or "'", title.decode("utf-8", "replace"))
