"""The embedding store: every vector that was ever computed, on disk, safe against crashes and between processes."""

from __future__ import annotations

import errno
import os
import sqlite3
import time
import warnings
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

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

Result = TypeVar("Result")


def default_store() -> Path:
    """$FAIRSPAN_STORE, or a file in the user's cache folder."""
    given = os.environ.get("FAIRSPAN_STORE")
    return Path(given) if given else Path(platformdirs.user_cache_dir("fairspan", False)) / "embeddings.sqlite"


class Store:
    """Vectors by key, in one SQLite file.

    Every `put` is one transaction: after a crash it is there as a whole or not at all. Any number of processes may
    read and write at the same time; of two that put the same key, the first wins. A file that may not be written is
    read all the same, and every `put` raises.
    """

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        try:
            self._connection = self._guarded(self._open)
        except FairspanError as error:
            readable = self._open_to_read() if _is_forbidden(error.__cause__) else None
            if readable is None:
                raise
            self._connection = readable

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
        rows = [(key, np.ascontiguousarray(vector, dtype="<f4").tobytes()) for key, vector in vectors.items()]
        self._guarded(lambda: self._write(rows))

    def close(self) -> None:
        self._connection.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _open(self) -> sqlite3.Connection:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        connection = sqlite3.connect(self.path, timeout=_WAIT_SECONDS, isolation_level=None)
        try:
            self._use_journal(connection)
            connection.execute("BEGIN IMMEDIATE")
            self._refuse_others(connection)
            connection.execute(
                "CREATE TABLE IF NOT EXISTS vectors (key BLOB PRIMARY KEY, vector BLOB NOT NULL) WITHOUT ROWID"
            )
            connection.execute(f"PRAGMA application_id = {APPLICATION}")
            connection.execute(f"PRAGMA user_version = {LAYOUT}")
            connection.execute("COMMIT")
        except BaseException:
            connection.close()
            raise
        return connection

    def _open_to_read(self) -> sqlite3.Connection | None:
        """The same for a file that may not be written; None if that is not possible either."""
        address = f"{self.path.resolve().as_uri()}?mode=ro"
        log = self.path.with_name(f"{self.path.name}-wal")
        # Even to read, SQLite writes a small file beside the store, except with `immutable`. Then it ignores the
        # write-ahead log, so this one must be empty.
        settled = not log.exists() or log.stat().st_size == 0
        for more in ("", "&immutable=1") if settled else ("",):
            with suppress(sqlite3.Error):
                connection = sqlite3.connect(address + more, uri=True, timeout=_WAIT_SECONDS, isolation_level=None)
                try:
                    connection.execute("SELECT key FROM vectors LIMIT 1").fetchall()
                    self._refuse_others(connection)
                except BaseException:
                    connection.close()
                    raise
                return connection
        return None

    def _use_journal(self, connection: sqlite3.Connection) -> None:
        """Write-ahead logging, or a rollback journal where the file system does not carry it.

        Networks have no memory that processes on several machines share, which write-ahead logging needs. With a
        rollback journal `NORMAL` could lose the file itself when the power fails, so that every commit is waited for.
        """
        try:
            mode = _switched(connection, "WAL")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF not in (sqlite3.SQLITE_IOERR, sqlite3.SQLITE_PROTOCOL):
                raise
            mode = ""
        if mode in ("wal", "memory"):
            connection.execute("PRAGMA synchronous = NORMAL")
            return
        mode = _switched(connection, "DELETE")
        connection.execute("PRAGMA synchronous = FULL")
        warnings.warn(
            f"the file system of the store {self.path} has no write-ahead logging: a rollback journal ({mode}) is "
            "used, which is safe and slower. A store on a local disk is faster.",
            stacklevel=2,
        )

    def _refuse_others(self, connection: sqlite3.Connection) -> None:
        """Raise if the file belongs to another program, or to another fairspan."""
        asked = ("PRAGMA user_version", "PRAGMA application_id", "SELECT count(*) FROM sqlite_master")
        written, owner, tables = (connection.execute(query).fetchone()[0] for query in asked)
        if owner != APPLICATION and (owner or written or tables):
            raise FairspanError(f"{self.path} is a database of another program: {_ELSEWHERE}")
        if written not in (0, LAYOUT):
            raise FairspanError(
                f"the store {self.path} has layout {written}, and this fairspan writes layout {LAYOUT}: {_ELSEWHERE}"
            )

    def _select(self, columns: str, keys: Iterable[bytes]) -> list[tuple[bytes, ...]]:
        every = list(dict.fromkeys(keys))
        parts = [every[start : start + _AT_ONCE] for start in range(0, len(every), _AT_ONCE)]

        def found(part: list[bytes]) -> sqlite3.Cursor:
            places = ",".join("?" * len(part))
            return self._connection.execute(f"SELECT {columns} FROM vectors WHERE key IN ({places})", part)

        return self._guarded(lambda: [row for part in parts for row in found(part)])

    def _write(self, rows: list[tuple[bytes, bytes]]) -> None:
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            self._connection.executemany("INSERT OR IGNORE INTO vectors VALUES (?, ?)", rows)
            self._connection.execute("COMMIT")
        except BaseException:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise

    def _guarded(self, action: Callable[[], Result]) -> Result:
        try:
            return action()
        except (sqlite3.Error, OSError) as error:
            reason = getattr(error, "strerror", None) or error
            raise FairspanError(
                f"the store {self.path} cannot be used ({reason}): what it holds is kept. Put this right and run the "
                f"same again, or {_ELSEWHERE}"
            ) from error


def _switched(connection: sqlite3.Connection, mode: str) -> str:
    """The journal that is used after one was asked for.

    SQLite itself does not wait for another process that switches at the same moment.
    """
    until = time.monotonic() + _WAIT_SECONDS
    while True:
        try:
            return str(connection.execute(f"PRAGMA journal_mode = {mode}").fetchone()[0]).lower()
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > until:
                raise
        time.sleep(0.05)


def _is_forbidden(error: BaseException | None) -> bool:
    """Whether a file may be there and may not be written, or nothing beside it."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    refused = (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_CANTOPEN)
    return code in refused or getattr(error, "errno", None) in (errno.EROFS, errno.EACCES, errno.EPERM)
