"""`Dataset`: the rows of one split of a Hugging Face dataset, streamed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fairspan.corpus.hub import library_of, load_part, refuse_unreachable
from fairspan.embedding.source import Fields, Item, Place
from fairspan.errors import CorpusError


class Dataset:
    """One split, as `name`, `name:split` or `name:configuration:split`; `done` counts its rows."""

    def __init__(self, name: str, fields: Fields) -> None:
        self.name, self._fields = name, fields
        place, *rest = name.split(":")
        if len(rest) > 2 or not place or not all(rest):
            raise CorpusError(f"there is no file or folder {name!r}; a dataset is given as name or name:split.")
        library = library_of(place)
        refuse_unreachable(place)
        configuration = rest[0] if len(rest) == 2 else None
        if configuration is None:
            configurations = load_part(library, "get_dataset_config_names", place)
            if len(configurations) > 1:
                shown = ", ".join(configurations[:8])
                raise CorpusError(
                    f"{place} has several configurations ({shown}): name one, such as {place}:{configurations[0]}:"
                    f"{rest[-1] if rest else 'train'}."
                )
            configuration = configurations[0]
        splits = load_part(library, "get_dataset_split_names", place, configuration)
        if not rest and len(splits) > 1:
            raise CorpusError(f"{place} has the splits {', '.join(splits)}: name one, such as {place}:{splits[0]}.")
        split = rest[-1] if rest else splits[0]
        if split not in splits:
            raise CorpusError(f"{place} has no split {split!r}. Splits there: {', '.join(splits)}.")
        self._label = split
        self._rows = load_part(library, "load_dataset", place, configuration, split=split, streaming=True)
        known: Any = self._rows.info
        counted = (known.splits or {}).get(split)
        self.total = int(getattr(counted, "num_examples", 0) or 0)
        self.identity = {"dataset": place, "configuration": configuration, "split": split, "rows": self.total or None}
        self.identity["version"] = str(known.version) if known.version else None

    def items(self, start: Place = Place()) -> Iterator[Item]:  # noqa: B008 - a constant
        wanted = self._fields.read
        rows = self._rows
        if rows.column_names is not None:
            for name in self._fields.wanted:
                if name not in rows.column_names:
                    columns = ", ".join(rows.column_names)
                    raise CorpusError(f"{self.name} has no column '{name}'. Columns there: {columns}.")
            rows = rows.select_columns([name for name in wanted if name in rows.column_names])
        if start.row:
            rows = rows.skip(start.row)
        try:
            for number, fields in enumerate(rows, start=start.row + 1):
                yield self._fields.row(self._label, number, fields), Place(0, number, 0, number)
        except CorpusError:
            raise
        except Exception as error:  # the library lets through whatever its many layers raise
            why = f"{type(error).__name__}: " + str(error).strip().partition("\n")[0].rstrip(".")
            raise CorpusError(f"the dataset {self.name} could not be read: {why}.") from None
