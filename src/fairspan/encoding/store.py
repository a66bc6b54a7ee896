"""The embedding store: all computed vectors on disk, safe against crashes, for many processes."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import platformdirs

from fairspan.errors import FairspanError

LAYOUT = 1
"""Raised when the meaning of stored bytes changes; a store of another layout is refused."""

APPLICATION = int.from_bytes(b"fair")
"""Marks the file as ours, so that no other program's database is ever written to."""

_WAIT_SECONDS = 120
_AT_ONCE = 500
_ELSEWHERE = "choose another file with store or FAIRSPAN_STORE."


def default_store() -> Path:
    """$FAIRSPAN_STORE, or a file in the user's cache folder."""
    path = os.environ.get("FAIRSPAN_STORE")
    if path:
        return Path(path)
    return Path(platformdirs.user_cache_dir("fairspan", False)) / "embeddings.sqlite"


class Store:
    """Vectors by key, in one SQLite file.

    Every `put` is one transaction. Any number of processes may read and write at the same time,
    also over a network, where SQLite's write-ahead log does not work; of two that put the same key,
    the first wins. A `fresh` store sees only what it has put itself, which replaces older vectors.
    """

    def __init__(self, path: Path | str, *, fresh: bool = False) -> None:
        self.path = Path(path)
        self._renewed: set[bytes] | None = set() if fresh else None
        with self._guarded():
            self._connection = self._open()

    def get(self, keys: Iterable[bytes]) -> dict[bytes, np.ndarray]:
        """The stored vectors among `keys`, float32, flat."""
        rows = self._select("key, vector", keys)
        return {bytes(key): np.frombuffer(vector, dtype="<f4") for key, vector in rows}

    def missing(self, keys: Iterable[bytes]) -> set[bytes]:
        """The keys that nothing is stored for."""
        wanted = set(keys)
        return wanted - {bytes(key) for (key,) in self._select("key", wanted)}

    def put(self, vectors: Mapping[bytes, np.ndarray]) -> None:
        """Store vectors, all or none."""
        rows = [
            (key, np.ascontiguousarray(vector, dtype="<f4").tobytes())
            for key, vector in vectors.items()
        ]
        with self._guarded(), self._connection:
            self._connection.execute("BEGIN IMMEDIATE")
            otherwise = "IGNORE" if self._renewed is None else "REPLACE"
            self._connection.executemany(f"INSERT OR {otherwise} INTO vectors VALUES (?, ?)", rows)
        if self._renewed is not None:
            self._renewed.update(vectors)

    def close(self) -> None:
        self._connection.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _open(self) -> sqlite3.Connection:
        """A connection to the file, with our table in it."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        connection = sqlite3.connect(self.path, timeout=_WAIT_SECONDS, isolation_level=None)
        try:
            with connection:
                connection.execute("BEGIN IMMEDIATE")
                self._refuse_others(connection)
                connection.execute(
                    "CREATE TABLE IF NOT EXISTS vectors "
                    "(key BLOB PRIMARY KEY, vector BLOB NOT NULL) WITHOUT ROWID"
                )
                connection.execute(f"PRAGMA application_id = {APPLICATION}")
                connection.execute(f"PRAGMA user_version = {LAYOUT}")
        except BaseException:
            connection.close()
            raise
        return connection

    def _refuse_others(self, connection: sqlite3.Connection) -> None:
        """Raise if the file belongs to another program, or to another fairspan."""
        layout = connection.execute("PRAGMA user_version").fetchone()[0]
        owner = connection.execute("PRAGMA application_id").fetchone()[0]
        tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        if owner != APPLICATION and (owner or layout or tables):
            raise FairspanError(f"{self.path} is a database of another program: {_ELSEWHERE}")
        if layout not in (0, LAYOUT):
            raise FairspanError(
                f"the store {self.path} has layout {layout}, and this fairspan writes layout "
                f"{LAYOUT}: {_ELSEWHERE}"
            )

    def _select(self, columns: str, keys: Iterable[bytes]) -> list[tuple[bytes, ...]]:
        """These columns of the rows with one of the keys."""
        different = list(dict.fromkeys(keys))
        if self._renewed is not None:
            different = [key for key in different if key in self._renewed]
        rows: list[tuple[bytes, ...]] = []
        with self._guarded():
            for start in range(0, len(different), _AT_ONCE):
                part = different[start : start + _AT_ONCE]
                places = ",".join("?" * len(part))
                rows += self._connection.execute(
                    f"SELECT {columns} FROM vectors WHERE key IN ({places})", part
                )
        return rows

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        """Errors of a disk, a lock or another program's file in one line."""
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            reason = getattr(error, "strerror", None) or error
            raise FairspanError(
                f"the store {self.path} cannot be used ({reason}): its contents are kept. Fix this "
                f"and run the same command again, or {_ELSEWHERE}"
            ) from error
