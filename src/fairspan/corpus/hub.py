"""`Dataset`: one split of a dataset on the Hugging Face hub, and which of a dataset's splits are languages."""

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
        self.revision: str | None = _revision(name)
        self.configurations: list[str] = self._call("get_dataset_config_names")

    def splits(self, configuration: str) -> list[str]:
        return list(self._call("get_dataset_split_names", configuration))

    def table(self, configuration: str, split: str) -> Any:
        return self._call("load_dataset", configuration, split=split, streaming=True)

    def _call(self, function: str, *arguments: str, **options: Any) -> Any:
        """What a function of the library returns; whatever it raises in one line."""
        if self.revision is not None:
            options["revision"] = self.revision
        try:
            return getattr(self._library, function)(self.name, *arguments, **options)
        except ConnectionError:
            reason = _UNREACHED
        except self._library.exceptions.DatasetNotFoundError:
            reason = "the Hugging Face hub has no dataset of that name that you may read"
        except Exception as error:  # the library lets through whatever its many layers raise
            raise CorpusError(f"the dataset {self.name} could not be loaded: {_first_line(error)}.") from None
        raise CorpusError(f"there is no file or folder {self.name!r}, and {reason}.")


class Dataset:
    """The rows of one split; `done` counts them. It is a `fairspan.corpus.source.Source`."""

    def __init__(self, repository: Repository, configuration: str, split: str, fields: Fields) -> None:
        place = repository.name
        self.name = f"{place}:{configuration}:{split}"
        table = repository.table(configuration, split)
        counted = (table.info.splits or {}).get(split)
        self.total = int(getattr(counted, "num_examples", 0) or 0)
        named = {"dataset": place, "configuration": configuration, "split": split}
        self.identity: dict[str, Any] = {**named, "rows": self.total or None, "revision": repository.revision}
        columns = None if table.column_names is None else fields.columns(self.name, table.column_names)
        self._rows = table if columns is None else table.select_columns(columns)

    def rows(self, start: Place = START) -> Iterator[Found]:
        rows = self._rows.skip(start.row) if start.row else self._rows
        try:
            for number, fields in enumerate(rows, start=start.row + 1):
                yield Row(self.name, number, fields), Place(0, number, 0, number)
        except Exception as error:  # as above
            raise CorpusError(f"the dataset {self.name} could not be read: {_first_line(error)}.") from None


def open_dataset(name: str, fields: Fields) -> Dataset:
    """One split, as `name`, `name:split` or `name:configuration:split`."""
    place, *rest = name.split(":")
    repository = Repository(place)
    configuration = _chosen(place, "configuration", rest[0] if len(rest) == 2 else None, repository.configurations)
    split = _chosen(place, "split", rest[-1] if rest else None, repository.splits(configuration))
    return Dataset(repository, configuration, split, fields)


def _chosen(place: str, what: str, given: str | None, there: Sequence[str]) -> str:
    if given in there or (given is None and len(there) == 1):
        return given or there[0]
    wrong = f"has no {what} {given!r}" if given is not None else f"has several {what}s"
    shown = ", ".join(there[:8])
    raise CorpusError(f"{place} {wrong}: name one of {shown}, as {place}:split or {place}:configuration:split.")


def open_languages(name: str, languages: Sequence[str] | None, fields: Fields) -> dict[str | None, Dataset | None]:
    """A dataset with one split or one configuration per language: its languages, with those opened that are wanted.

    Where rows name their language, or nothing says which it is, there is one split under None.
    """
    repository = Repository(name)
    configurations = repository.configurations
    several = len(configurations) > 1
    available = configurations if several else repository.splits(configurations[0])
    if not several and {*available} & {*PURPOSES}:
        return {None: open_dataset(name, fields)}
    opened: dict[str | None, Dataset | None] = dict.fromkeys(available)
    for one in available:
        if languages is None or one in languages:
            configuration = one if several else configurations[0]
            split = _chosen(name, "split", None, repository.splits(one)) if several else one
            opened[one] = Dataset(repository, configuration, split, fields)
    return opened


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


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: " + str(error).strip().partition("\n")[0].rstrip(".")
