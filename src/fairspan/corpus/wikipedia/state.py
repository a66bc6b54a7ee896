"""`State`: how far a build is, in one SQLite file that survives the end of its process at any moment."""

from __future__ import annotations

import errno
import json
import shutil
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from fairspan.corpus.wikipedia.sitelinks import Link
from fairspan.errors import CorpusError

WORK, FILE, SCRATCH = ".work", "state.sqlite", "links.sqlite"

_TABLES = """
CREATE TABLE IF NOT EXISTS fact (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS link (language TEXT, page, item INTEGER, PRIMARY KEY (language, page)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS reading (language TEXT PRIMARY KEY, number INTEGER, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS article (
    language TEXT, item INTEGER, page_id INTEGER, revision INTEGER, title TEXT, tokens INTEGER, text TEXT,
    PRIMARY KEY (language, item)
);
"""


@dataclass(frozen=True, slots=True)
class Article:
    """A page that was accepted."""

    item: int
    page_id: int
    revision: int | None
    title: str
    tokens: int
    text: str


@dataclass(slots=True)
class Reading:
    """How far the dump of one language is read.

    Attributes:
        files: what was read, as it was then.
        entered: items that were still possible; None while that is not known.
        left_out: how many of them were left out, by reason.
        shortest, longest: in tokens, of all that were counted.
        place: behind the last page that counts.
    """

    files: list[Any]
    entered: int | None = None
    pages: int = 0
    accepted: int = 0
    left_out: dict[str, int] = field(default_factory=dict)
    shortest: int | None = None
    longest: int | None = None
    place: Any = None
    done: bool = False

    def leave_out(self, reason: str) -> None:
        self.left_out[reason] = self.left_out.get(reason, 0) + 1

    def measure(self, tokens: int) -> None:
        self.shortest = tokens if self.shortest is None else min(tokens, self.shortest)
        self.longest = tokens if self.longest is None else max(tokens, self.longest)


class State:
    """The work folder of a build. Only one process can have it open.

    Everything that belongs together is written in one transaction: articles, counts, and the place behind them.
    """

    def __init__(self, out: Path) -> None:
        self.out, self.folder = out, out / WORK
        with self._guarded():
            self.folder.mkdir(parents=True, exist_ok=True)
            self._connection = sqlite3.connect(self.folder / FILE, timeout=0, isolation_level=None)
            try:
                # One process alone: that also is what write-ahead logging needs on network disks.
                self._connection.execute("PRAGMA locking_mode = EXCLUSIVE")
                self._connection.execute("PRAGMA journal_mode = WAL")
                self._connection.execute("PRAGMA synchronous = NORMAL")
                self._connection.executescript(f"BEGIN EXCLUSIVE; {_TABLES} COMMIT;")
            except BaseException:
                self._connection.close()
                raise

    @staticmethod
    def exists(out: Path) -> bool:
        return (out / WORK / FILE).is_file()

    def __enter__(self) -> State:
        return self

    def __exit__(self, *error: object) -> None:
        self._connection.close()

    def remove(self) -> None:
        """The work is over."""
        self._connection.close()
        with self._guarded():
            shutil.rmtree(self.folder)

    def fact(self, name: str) -> Any:
        row = self._one("SELECT value FROM fact WHERE name = ?", name)
        return None if row is None else json.loads(row[0])

    def set_fact(self, name: str, value: Any) -> None:
        with self._transaction():
            self._set_fact(name, value)

    def reset(self) -> None:
        """Forget everything."""
        with self._transaction():
            for table in ("fact", "link", "reading", "article"):
                self._connection.execute(f"DELETE FROM {table}")

    def align(
        self, batches: Iterable[Sequence[Link]], linked: Sequence[str], pivot: str | None, fact: Any
    ) -> dict[str, int]:
        """Keep the links of items that have a page in all of the `linked` languages.

        The links of all items go into a file of their own, which is dropped: they may be many times as many, and no
        memory has to hold them.

        Returns:
            How many links each language has.
        """
        counts = dict.fromkeys(linked, 0)
        scratch = self.folder / SCRATCH
        with self._guarded():
            for name in (scratch, scratch.with_name(f"{SCRATCH}-journal")):
                name.unlink(missing_ok=True)
            self._connection.execute("ATTACH ? AS scratch", (str(scratch),))
            self._connection.execute("PRAGMA scratch.journal_mode = OFF")
            self._connection.execute("PRAGMA scratch.synchronous = OFF")
            self._connection.execute("CREATE TABLE scratch.link (item INTEGER, language TEXT, page TEXT)")
        try:
            for batch in batches:
                for _, language, _ in batch:
                    counts[language] += 1
                with self._transaction():
                    self._connection.executemany("INSERT INTO scratch.link VALUES (?, ?, ?)", batch)
            whole = "SELECT item FROM scratch.link GROUP BY item HAVING count(DISTINCT language) = ?"
            with self._transaction():
                self._connection.execute("DELETE FROM link")
                self._connection.execute(
                    "INSERT OR IGNORE INTO link SELECT language, page, item FROM scratch.link "
                    f"WHERE item IN ({whole}) ORDER BY language, page, item",
                    (len(linked),),
                )
                if pivot is not None:
                    self._connection.execute(
                        "INSERT INTO link SELECT DISTINCT ?, item, item FROM link ORDER BY item", (pivot,)
                    )
                self._set_fact("aligned", fact)
                self._set_fact("items", self._one("SELECT count(DISTINCT item) FROM link")[0])
                self._set_fact("links", counts)
        finally:
            with suppress(sqlite3.Error, OSError):
                self._connection.execute("DETACH scratch")
                scratch.unlink()
        return counts

    def item_of(self, language: str, page: str | int) -> int | None:
        """The item that a page is linked to, by its title or, in the pivot's wiki, by its number."""
        row = self._one("SELECT item FROM link WHERE language = ? AND page = ?", language, page)
        return None if row is None else int(row[0])

    def tokens(self, language: str, item: int) -> int | None:
        """The length of an article that was accepted."""
        row = self._one("SELECT tokens FROM article WHERE language = ? AND item = ?", language, item)
        return None if row is None else int(row[0])

    def readings(self) -> dict[str, Reading]:
        """By language, in the order in which they were begun."""
        with self._guarded():
            found = self._connection.execute("SELECT language, value FROM reading ORDER BY number").fetchall()
        return {language: Reading(**json.loads(value)) for language, value in found}

    def save(self, language: str, reading: Reading, articles: Sequence[Article] = ()) -> None:
        """What was accepted, and how far reading is. Of two pages of one item, that of the lower number stays."""
        with self._transaction():
            for one in articles:
                self._connection.execute(
                    "INSERT INTO article VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET "
                    "page_id = excluded.page_id, revision = excluded.revision, title = excluded.title, "
                    "tokens = excluded.tokens, text = excluded.text WHERE excluded.page_id < page_id",
                    (language, one.item, one.page_id, one.revision, one.title, one.tokens, one.text),
                )
            (reading.accepted,) = self._one("SELECT count(*) FROM article WHERE language = ?", language)
            self._connection.execute(
                "INSERT OR REPLACE INTO reading VALUES (?, coalesce((SELECT number FROM reading WHERE language = ?), "
                "(SELECT count(*) FROM reading)), ?)",
                (language, language, json.dumps(asdict(reading))),
            )

    def forget(self, languages: Iterable[str]) -> None:
        """Drop what was read of these languages."""
        with self._transaction():
            for language in languages:
                self._connection.execute("DELETE FROM article WHERE language = ?", (language,))
                self._connection.execute("DELETE FROM reading WHERE language = ?", (language,))

    def keep_only_items_of(self, language: str) -> None:
        """Articles in other languages whose item was left out in this one are no longer needed."""
        with self._transaction():
            self._connection.execute(
                "DELETE FROM article WHERE language != ?1 AND item NOT IN "
                "(SELECT item FROM article WHERE language = ?1)",
                (language,),
            )

    def items(self, language: str) -> list[int]:
        """The items accepted in a language, in order."""
        with self._guarded():
            found = self._connection.execute("SELECT item FROM article WHERE language = ? ORDER BY item", (language,))
            return [int(item) for (item,) in found]

    def article(self, language: str, item: int) -> Article:
        row = self._one(
            "SELECT item, page_id, revision, title, tokens, text FROM article WHERE language = ? AND item = ?",
            language,
            item,
        )
        return Article(*row)

    def _one(self, query: str, *values: Any) -> Any:
        with self._guarded():
            return self._connection.execute(query, values).fetchone()

    def _set_fact(self, name: str, value: Any) -> None:
        self._connection.execute("INSERT OR REPLACE INTO fact VALUES (?, ?)", (name, json.dumps(value)))

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with self._guarded():
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            raise explained(self.out, error) from error


def explained(out: Path, error: Exception) -> CorpusError:
    """Why a corpus cannot be written, in one line."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    number = getattr(error, "errno", None)
    if code == sqlite3.SQLITE_FULL or number in (errno.ENOSPC, errno.EDQUOT):
        return CorpusError(
            f"the disk that holds {out} is full: what was done is kept. Make room, and run the same command again."
        )
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return CorpusError(f"another process is building {out}: wait until it has ended, or choose another folder.")
    if code in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT):
        return CorpusError(f"{out / WORK} is damaged: begin again with [[fresh=True]].")
    reason = getattr(error, "strerror", None) or error
    return CorpusError(f"{out} cannot be written ({reason}): choose another folder.")


def counts_of(reading: Reading) -> Mapping[str, Any]:
    """What a reader of the corpus may want to know of a reading."""
    left_out = dict(sorted(reading.left_out.items()))
    missing = 0 if reading.entered is None else reading.entered - reading.accepted - sum(left_out.values())
    return {
        "items": reading.entered,
        "pages": reading.pages,
        "left_out": {**left_out, **({"not in the dump": missing} if missing > 0 else {})},
        "accepted": reading.accepted,
    }
