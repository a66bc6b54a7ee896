"""Parquet files, of which only the columns of a corpus are read."""

from collections.abc import Iterator
from pathlib import Path

from fairspan.corpus.rows import Row, Source
from fairspan.errors import CorpusError


def parquet(path: Path, id_field: str = "id") -> Source:
    """The rows of a file."""
    return Source(path.name, "row", _rows(path, (id_field, "language", "text", "title")))


def _rows(path: Path, columns: tuple[str, ...]) -> Iterator[Row]:
    import polars as pl

    try:
        lazy = pl.scan_parquet(path, glob=False)  # a folder's name may hold brackets and asterisks
        there = lazy.collect_schema()
        for column in ("text", columns[0]):
            if column not in there:
                raise CorpusError(f"{path.name} has no column '{column}'. Columns there: {', '.join(there)}.")
        table = lazy.select(column for column in columns if column in there).collect()
    except OSError as error:
        raise CorpusError(f"{path} cannot be read: {error.strerror or error}.") from None
    except pl.exceptions.PolarsError as error:
        raise CorpusError(f"{path.name} is not a Parquet file: {str(error).splitlines()[0]}.") from None
    for number, fields in enumerate(table.iter_rows(named=True), start=1):
        yield Row(number, fields)
