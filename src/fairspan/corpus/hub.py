"""`Repository`: a dataset on the Hugging Face hub, whose splits are sources of records."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from fairspan.corpus.rows import START, Fields, Found, Place, Row
from fairspan.errors import CorpusError, MissingExtra

# Names that say what a split is for, so they cannot be meant as its language.
PURPOSES = ("train", "test", "validation")
_UNREACHED = "the Hugging Face hub could not be reached to look for a dataset of that name"
_SECONDS = 3.0


class Repository:
    """A dataset's configurations and splits, in one revision.

    Args:
        name: on the hub, or the path of a clone.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        try:
            self._library = import_module("datasets")
        except ModuleNotFoundError as error:
            if error.name != "datasets":
                raise
            raise MissingExtra(
                f"there is no file or folder {name!r}, and looking for a Hugging Face dataset of that name needs a "
                "library that is not installed: pip install 'fairspan[datasets]'."
            ) from None
        self._revision = _revision(name)
        self._configurations: list[str] = self._call("get_dataset_config_names")

    @property
    def languages(self) -> Sequence[str]:
        """Its configurations, or its splits if it has one configuration; none where splits have other names."""
        if len(self._configurations) > 1:
            return self._configurations
        splits: list[str] = self._call("get_dataset_split_names", self._configurations[0])
        return () if {*splits} & {*PURPOSES} else splits

    def open_language(self, language: str, fields: Fields) -> Dataset:
        several = len(self._configurations) > 1
        return self.open(language if several else None, None if several else language, fields)

    def open(self, configuration: str | None, split: str | None, fields: Fields) -> Dataset:
        """A split; what is not named is the only one that there is."""
        configuration = self._chosen("configuration", configuration, self._configurations)
        split = self._chosen("split", split, self._call("get_dataset_split_names", configuration))
        table = self._call("load_dataset", configuration, split=split, streaming=True)
        named = {"dataset": self.name, "configuration": configuration, "split": split}
        return Dataset(named, self._revision or _state(Path(self.name)), table, fields)

    def _chosen(self, what: str, given: str | None, there: Sequence[str]) -> str:
        if given in there or (given is None and len(there) == 1):
            return given or there[0]
        wrong = f"has no {what} {given!r}" if given is not None else f"has several {what}s"
        shown = ", ".join(there[:8])
        forms = f"{self.name}:split or {self.name}:configuration:split"
        raise CorpusError(f"{self.name} {wrong}: name one of {shown}, as {forms}.")

    def _call(self, function: str, *arguments: str, **options: Any) -> Any:
        """What a function of the library returns; whatever it raises in one line."""
        if self._revision is not None:
            options["revision"] = self._revision
        try:
            return getattr(self._library, function)(self.name, *arguments, **options)
        except ConnectionError:
            reason = _UNREACHED
        except self._library.exceptions.DatasetNotFoundError:
            reason = "the Hugging Face hub has no dataset of that name that you may read"
        except Exception as error:  # the library lets through whatever its many layers raise
            raise CorpusError(
                f"the dataset {self.name} could not be loaded: {_first_line(error)}."
            ) from None
        raise CorpusError(f"there is no file or folder {self.name!r}, and {reason}.")


class Dataset:
    """The rows of one split; `done` counts them. It is a `fairspan.corpus.source.Source`."""

    def __init__(
        self, named: dict[str, str], revision: str | None, table: Any, fields: Fields
    ) -> None:
        self.name = ":".join(named.values())
        counted = (table.info.splits or {}).get(named["split"])
        self.total = int(getattr(counted, "num_examples", 0) or 0)
        self.identity: dict[str, Any] = {**named, "rows": self.total or None, "revision": revision}
        columns = (
            None if table.column_names is None else fields.columns(self.name, table.column_names)
        )
        self._rows = table if columns is None else table.select_columns(columns)

    def rows(self, start: Place = START) -> Iterator[Found]:
        try:
            for number, fields in enumerate(self._rows.skip(start.row), start=start.row + 1):
                yield Row(self.name, number, fields), Place(0, number, 0, number)
        except Exception as error:  # as above
            raise CorpusError(
                f"the dataset {self.name} could not be read: {_first_line(error)}."
            ) from None


def _revision(name: str) -> str | None:
    """The revision that the hub has now; an error if it does not answer within seconds.

    The library itself would go on trying for half a minute. None for a clone, and for what is in the cache only.
    """
    from huggingface_hub import HfApi, constants
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError

    if Path(name).exists() or constants.HF_HUB_OFFLINE:
        return None
    try:
        found: str | None = HfApi().dataset_info(name, timeout=_SECONDS).sha
        return found
    except (HfHubHTTPError, HFValidationError):
        return None  # it answers; loading finds out what is wrong
    except Exception:
        if not (Path(constants.HF_HUB_CACHE) / f"datasets--{name.replace('/', '--')}").exists():
            raise CorpusError(f"there is no file or folder {name!r}, and {_UNREACHED}.") from None
    return None


def _state(clone: Path) -> str | None:
    """What stands for the revision of a clone: a hash of its files' names, sizes and times; None for no clone."""
    files = {
        file.relative_to(clone).as_posix(): file.stat()
        for file in clone.rglob("*")
        if file.is_file()
    }
    states = [
        [name, own.st_size, own.st_mtime_ns]
        for name, own in files.items()
        if "/." not in f"/{name}"
    ]
    return hashlib.sha256(repr(sorted(states)).encode()).hexdigest()[:16] if states else None


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: " + str(error).strip().partition("\n")[0].rstrip(".")
