"""`Repository`: a dataset on the Hugging Face hub, whose splits are sources of records."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from fairspan.corpus.files import Columns
from fairspan.corpus.record import Record
from fairspan.corpus.segment import few
from fairspan.errors import CorpusError, MissingExtra, first_line

_UNREACHED = "the Hugging Face hub could not be reached to look for a dataset of that name"
_SECONDS = 3.0


class Repository:
    """A dataset, by its name on the hub or the path of a clone, in one revision."""

    def __init__(self, name: str) -> None:
        """Find out its configurations."""
        self.name = name
        if find_spec("datasets") is None:
            raise MissingExtra(
                f"there is no file or folder {name!r}, and looking for a Hugging Face dataset of "
                "that name needs a library that is not installed: pip install 'fairspan[datasets]'."
            )
        self._library = import_module("datasets")
        self._revision = _revision(name)
        self._configurations: list[str] = self._call("get_dataset_config_names")

    @property
    def places(self) -> dict[str, tuple[str, str | None]]:
        """Its configurations, or the splits of its only one, with both for `open`."""
        if len(self._configurations) > 1:
            return {name: (name, None) for name in self._configurations}
        only = self._configurations[0]
        return {split: (only, split) for split in self._call("get_dataset_split_names", only)}

    def open(self, configuration: str | None, split: str | None, columns: Columns) -> Dataset:
        """A split; None stands for the only one. A configuration may be named in its place."""
        several = len(self._configurations) > 1
        if several and configuration is None and split in self._configurations:
            configuration = split
            split = None
        place = self.name
        configuration = self._chosen("configuration", configuration, self._configurations, place)
        if several:
            place = f"{self.name}:{configuration}"
        splits = self._call("get_dataset_split_names", configuration)
        split = self._chosen("split", split, splits, place)
        table = self._call("load_dataset", configuration, split=split, streaming=True)
        names = {"dataset": self.name, "configuration": configuration, "split": split}
        return Dataset(names, self._revision or _state(Path(self.name)), table, columns)

    @staticmethod
    def _chosen(what: str, name: str | None, present: Sequence[str], place: str) -> str:
        """The name, or the only one that is present."""
        if name in present or (name is None and len(present) == 1):
            return name or present[0]
        wrong = f"has no {what} {name!r}" if name is not None else f"has several {what}s"
        raise CorpusError(
            f"{place} {wrong}: name one of {few(present, 8)}, as in {place}:{present[0]}."
        )

    def _call(self, function: str, *arguments: str, **options: Any) -> Any:
        """The result of a function of the library."""
        if self._revision is not None:
            options["revision"] = self._revision
        try:
            return getattr(self._library, function)(self.name, *arguments, **options)
        except ConnectionError:
            reason = _UNREACHED
        except self._library.exceptions.DatasetNotFoundError:
            reason = "the Hugging Face hub has no dataset of that name that you may read"
        except Exception as error:  # the library raises errors of many kinds
            raise _failed(self.name, "loaded", error) from None
        raise CorpusError(f"there is no file or folder {self.name!r}, and {reason}.")


class Dataset:
    """The rows of one split; `done` counts them."""

    notes = ()

    def __init__(
        self, names: dict[str, str], revision: str | None, table: Any, columns: Columns
    ) -> None:
        """A split from a streamed table."""
        self.name = ":".join(names.values())
        split = (table.info.splits or {}).get(names["split"])
        self.total = int(getattr(split, "num_examples", 0) or 0)
        self.identity: dict[str, Any] = {**names, "rows": self.total or None, "revision": revision}
        self._rows = table
        if table.column_names is not None:
            self._rows = table.select_columns(columns.of(self.name, table.column_names))

    def records(self) -> Iterator[Record]:
        try:
            for number, fields in enumerate(self._rows, start=1):
                yield Record(self.name, number, fields, done=number)
        except Exception as error:  # as above
            raise _failed(self.name, "read", error) from None


def _failed(name: str, what: str, error: Exception) -> CorpusError:
    reason = f"{type(error).__name__}: {first_line(error).rstrip('.')}"
    return CorpusError(f"the dataset {name} could not be {what}: {reason}.")


def _revision(name: str) -> str | None:
    """The revision that the hub has now; None for a clone, and for a dataset that is only cached.

    An error if it does not answer within seconds: the library would try for half a minute.
    """
    from huggingface_hub import HfApi, constants
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError

    if Path(name).exists() or constants.HF_HUB_OFFLINE:
        return None
    revision: str | None = None
    try:
        revision = HfApi().dataset_info(name, timeout=_SECONDS).sha
    except (HfHubHTTPError, HFValidationError):
        pass  # it answers; loading finds out what is wrong
    except Exception:
        if not (Path(constants.HF_HUB_CACHE) / f"datasets--{name.replace('/', '--')}").exists():
            raise CorpusError(f"there is no file or folder {name!r}, and {_UNREACHED}.") from None
    return revision


def _state(clone: Path) -> str | None:
    """The revision of a clone: a hash of its files' names, sizes and times; None for no clone."""
    states = []
    for file in clone.rglob("*"):
        name = file.relative_to(clone).as_posix()
        if file.is_file() and "/." not in f"/{name}":
            states.append([name, file.stat().st_size, file.stat().st_mtime_ns])
    return hashlib.sha256(repr(sorted(states)).encode()).hexdigest()[:16] if states else None
