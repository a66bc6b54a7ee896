"""The store: what was put is there, whatever dies or fails on the way."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairspan.encoding import store as store_module
from fairspan.encoding.store import LAYOUT, Store
from fairspan.errors import FairspanError
from tests.builders.saying import said_by

DIMENSION = 16


def key(number: int) -> bytes:
    """As long as the SHA-256 digests that the encoders use."""
    return number.to_bytes(32, "big")


def vector(number: int, scale: float = 1.0) -> np.ndarray:
    """A vector that only this number has."""
    return (np.random.default_rng(number).standard_normal(DIMENSION) * scale).astype(np.float32)


def numbered(*numbers: int, scale: float = 1.0) -> dict[bytes, np.ndarray]:
    return {key(number): vector(number, scale) for number in numbers}


def assert_holds(path: Path, *numbers: int) -> None:
    """A store opened anew gives these vectors, bit for bit."""
    with Store(path) as store:
        found = store.get(key(number) for number in numbers)
    assert set(found) == {key(number) for number in numbers}
    for number in numbers:
        assert np.array_equal(found[key(number)], vector(number))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "embeddings.sqlite"


def test_what_is_put_comes_back_bit_for_bit(path: Path) -> None:
    path = path.parent / "folders" / "are made" / path.name
    with Store(path) as store:
        store.put(numbered(1, 2, 3))
        store.put({})
        assert store.missing([key(1), key(9), key(2)]) == {key(9)}
        assert np.array_equal(store.get([key(2)])[key(2)], vector(2))
    assert_holds(path, 1, 2, 3)


@given(st.lists(st.floats(width=32), min_size=1, max_size=40))
def test_every_float32_survives(values: list[float]) -> None:
    """Also subnormal numbers, signed zeros, infinities and NaN: the store judges nothing."""
    given = np.array(values, dtype=np.float32)
    with Store(":memory:") as store:
        store.put({b"k": given})
        assert store.get([b"k"])[b"k"].tobytes() == given.tobytes()


def test_the_first_writer_wins(path: Path) -> None:
    """The second one's other keys are stored all the same."""
    with Store(path) as first, Store(path) as second:
        first.put(numbered(1))
        second.put(numbered(1, 2, scale=5.0))
        found = first.get([key(1), key(2)])
    assert np.array_equal(found[key(1)], vector(1))
    assert np.array_equal(found[key(2)], vector(2, 5.0))


def test_a_put_that_fails_stores_nothing_of_it(path: Path) -> None:
    """The third row cannot be bound, after two that can."""
    with Store(path) as store:
        store.put(numbered(1))
        rows = {**numbered(2, 3), object(): vector(4)}
        with pytest.raises(FairspanError):
            store.put(rows)  # type: ignore[arg-type]
        assert store.missing([key(1), key(2), key(3)]) == {key(2), key(3)}
        store.put(numbered(2))
    assert_holds(path, 1, 2)


def test_many_keys_at_once(path: Path) -> None:
    """More than SQLite took as parameters in older releases (999), some asked for twice."""
    count = 2501
    with Store(path) as store:
        store.put(numbered(*range(0, count, 2)))
        keys = [key(number) for number in range(count)]
        assert store.missing(keys + keys) == {key(number) for number in range(1, count, 2)}
        found = store.get(iter(keys + keys))
    assert set(found) == {key(number) for number in range(0, count, 2)}
    assert np.array_equal(found[key(count - 1)], vector(count - 1))


# What other processes run. Every put is a pair of neighbouring keys, told on stdout once it has
# returned.
_WRITER = """
import sys
from tests.encoding.test_store import Store, numbered
path, first, last, scale = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])
with Store(path) as store:
    for number in range(first, last, 2):
        store.put(numbered(number, number + 1, scale=scale))
        print(number, flush=True)
"""


@pytest.fixture
def writer(path: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    started: list[subprocess.Popen[str]] = []

    def start(first: int, last: int, scale: float = 1.0) -> subprocess.Popen[str]:
        words = [sys.executable, "-c", _WRITER, str(path), str(first), str(last), str(scale)]
        root = Path(__file__).parents[2]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        process = subprocess.Popen(words, cwd=root, text=True, **pipes)
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


@pytest.mark.slow
def test_two_processes_write_at_once(
    path: Path, writer: Callable[..., subprocess.Popen[str]]
) -> None:
    """Half of their keys are the same; each key holds one of the two vectors whole.

    With four more they also create it together: whoever comes first makes the table.
    """
    more = [writer(number, number + 2) for number in range(600, 608, 2)]
    for process in (writer(0, 400, 1.0), writer(200, 600, 3.0), *more):
        _, said = process.communicate(timeout=120)
        assert process.returncode == 0, said
    with Store(path) as store:
        found = store.get(key(number) for number in range(600))
    assert len(found) == 600
    for number in range(600):
        stored = found[key(number)]
        by_one, by_other = (np.array_equal(stored, vector(number, scale)) for scale in (1.0, 3.0))
        assert by_one or by_other
        assert by_one or number >= 200
        assert by_other or number < 400
    assert_holds(path, *range(600, 608))


def test_a_full_disk_keeps_what_was_stored(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that cannot grow beyond four pages has SQLite's own error for a full disk."""
    with Store(path) as store:
        store.put(numbered(1, 2))
    plain = sqlite3.connect

    def connect(path: Path, **options: Any) -> sqlite3.Connection:
        connection = plain(path, **options)
        connection.execute("PRAGMA max_page_count = 4")
        return connection

    many = numbered(*range(10, 300))  # 20 KB, and a page has 4
    with monkeypatch.context() as patch:
        patch.setattr(store_module.sqlite3, "connect", connect)
        with Store(path) as store:
            store.put(numbered(3))
            assert "is full): its contents are kept" in said_by(store.put, many)
            # The connection lives on, and nothing of the failed put is there.
            assert store.missing(many) == many.keys()
            store.put(numbered(4))
    assert_holds(path, 1, 2, 3, 4)
    with Store(path) as store:
        store.put(many)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (f"PRAGMA user_version = {LAYOUT + 1}", f"has layout {LAYOUT + 1}, and this fairspan"),
        ("PRAGMA application_id = 5", "is a database of another program"),
    ],
)
def test_a_database_of_another_layout_or_program(path: Path, change: str, said: str) -> None:
    with Store(path) as store:
        store.put(numbered(1))
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(change)
    before = path.read_bytes()
    assert said in said_by(Store, path)
    assert path.read_bytes() == before


def test_a_lock_that_is_never_given_back(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A put waits for another process's transaction, and says so when it has waited long enough."""
    monkeypatch.setattr(store_module, "_WAIT_SECONDS", 0.2)
    with Store(path) as store:
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        assert "database is locked" in said_by(store.put, numbered(1))
        assert store.get([key(1)]) == {}  # reading goes on meanwhile
        other.execute("ROLLBACK")
        other.close()
        store.put(numbered(1))
    assert_holds(path, 1)
