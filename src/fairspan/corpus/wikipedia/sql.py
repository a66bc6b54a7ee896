"""Rows of a table in an SQL dump, as mysqldump writes it for MediaWiki's tables."""

import re
from collections.abc import Collection, Iterator, Sequence

from fairspan.corpus.wikipedia.link_file import LinkFile
from fairspan.errors import CorpusError

Row = tuple[bytes | None, ...]

# Text in quotes, or a number, NULL or 0x…, none of which has a quote, a bracket or a comma.
_TEXT = rb"(?:_binary )?'[^'\\]*+(?:(?:\\.|'')[^'\\]*+)*+'"
_NUMBER = rb"[^',()`\s]++"
_VALUE = rb"(?:" + _TEXT + rb"|" + _NUMBER + rb")"
_ESCAPE = re.compile(rb"\\(.)|''", re.DOTALL)
_ESCAPED = {b"0": b"\0", b"n": b"\n", b"r": b"\r", b"t": b"\t", b"b": b"\b", b"Z": b"\x1a"}


def rows(
    file: LinkFile, table: str, columns: Sequence[str], only: tuple[str, Collection[str]] | None = None
) -> Iterator[list[Row]]:
    """The rows of a table, some thousand at a time, with the values of these columns.

    Args:
        only: a column of text and the values that it may have; other rows are skipped, which is much faster. All
            columns before it must be numbers: then no text inside a row can be taken for a row.
    """
    pattern, order = None, list[tuple[int, bool]]()
    block = b""
    for block in file.blocks():
        if pattern is None:
            start = block.find(f"INSERT INTO `{table}`".encode())
            if start < 0:
                break
            names = _columns(block[:start], table, file.path.name)
            missing = [name for name in columns if name not in names]
            if missing:
                raise CorpusError(
                    f"the table {table} in {file.path.name} has no column {missing[0]}. Columns there: "
                    f"{', '.join(names)}."
                )
            pattern, known = _row(names, columns, only), names[: names.index(only[0]) + 1] if only else []
            places = sorted(columns, key=names.index)
            order = [(places.index(column), column in known) for column in columns]
            block = block[start:]
        # Line breaks inside texts are escaped, so this is another table.
        own, other, _ = block.partition(b"\nCREATE TABLE ")
        found = list(zip(*pattern.findall(own), strict=True))
        if found:
            # Numbers and the text that was asked for are plain already.
            values = [found[place] if known else map(_plain, found[place]) for place, known in order]
            yield list(zip(*values, strict=True))
        if other:
            return
    if pattern is None:
        raise CorpusError(f"{file.path.name} is no dump of the table {table}: it has no such rows.")
    last = block.rstrip().rpartition(b"\n")[2]
    if not last.endswith((b";", b"*/")) and not last.startswith(b"--"):
        raise CorpusError(f"{file.path.name} is cut off: download it again, and run the same command.")


def _columns(head: bytes, table: str, label: str) -> list[str]:
    _, _, definition = head.partition(f"CREATE TABLE `{table}` (".encode())
    names = re.findall(rb"^\s*`(\w+)` ", definition.partition(b"\n)")[0], re.MULTILINE)
    if not names:
        raise CorpusError(f"{label} does not define the table {table}: its columns are not known.")
    return [name.decode() for name in names]


def _row(names: Sequence[str], columns: Sequence[str], only: tuple[str, Collection[str]] | None) -> re.Pattern[bytes]:
    parts = []
    filtered = -1 if only is None else names.index(only[0])
    for number, name in enumerate(names):
        value = _NUMBER if number < filtered else _VALUE
        if only is not None and name == only[0]:
            choices = b"|".join(re.escape(choice.encode()) for choice in only[1])
            group = rb"(" if name in columns else rb"(?:"
            parts.append(rb"(?:_binary )?'" + group + choices + rb")'")
            continue
        parts.append(b"(" + value + b")" if name in columns else value)
    # With a group more, `findall` gives tuples even for one column.
    return re.compile(rb"\(" + b",".join(parts) + rb"\)()", re.DOTALL)


def _plain(value: bytes) -> bytes | None:
    """A value without its quotes and escapes.

    >>> _plain(rb"'d\\'Arc'"), _plain(b"12"), _plain(b"NULL")
    (b"d'Arc", b'12', None)
    """
    if value[-1:] == b"'":
        text = value[value.index(b"'") + 1 : -1]
        return _ESCAPE.sub(_unescaped, text) if b"\\" in text or b"'" in text else text
    if value == b"NULL":
        return None
    return bytes.fromhex(value[2:].decode()) if value.startswith(b"0x") else value


def _unescaped(found: re.Match[bytes]) -> bytes:
    letter = found[1]
    return b"'" if letter is None else _ESCAPED.get(letter, letter)
