"""Datasets of the Hugging Face hub with one split or configuration per language, or with a language column."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path, PurePath
from types import ModuleType
from typing import Any

from fairspan.corpus.rows import Reading, Row, Source, collect, join
from fairspan.errors import CorpusError, MissingExtra

# Names that say what a split is for, so they cannot be meant as its language.
PURPOSES = ("train", "test", "validation")
_UNREACHED = "the Hugging Face hub could not be reached to look for a dataset of that name"
_SECONDS = 3.0


def read_hub(name: str, languages: Sequence[str] | None = None, id_field: str = "id") -> Reading:
    """A dataset with columns `id`, `text` and perhaps `title`.

    Without a column `id`, row numbers align the languages, provided that all are equally long; a note says so.

    Args:
        name: of a dataset on the hub, or the path of a clone of one.
    """
    library = library_of(name)
    refuse_unreachable(name)
    configurations = load_part(library, "get_dataset_config_names", name)
    if len(configurations) > 1:
        chosen = [one for one in configurations if languages is None or one in languages]
        tables = {one: _only_split(name, one, load_part(library, "load_dataset", name, one)) for one in chosen}
        return _by_language(name, tables, configurations, id_field)
    splits: Mapping[str, Any] = load_part(library, "load_dataset", name, configurations[0])
    if all("language" in table.column_names for table in splits.values()):
        sources = [_source(f"{name} ({split})", table, id_field) for split, table in splits.items()]
        return join(_short(name), [collect(source, None, languages, id_field) for source in sources])
    if any(split in PURPOSES for split in splits):
        if len(splits) > 1 or languages is None or len(languages) > 1:
            raise CorpusError(
                f"{name} does not say which language its rows are in (its splits: {', '.join(splits)}). A corpus has "
                "one split or one configuration per language, or a column 'language'; one split alone is read as the "
                "single language that you name: [[languages=en,]]."
            )
        splits = dict(zip(languages, splits.values(), strict=True))
    tables = {split: table for split, table in splits.items() if languages is None or split in languages}
    return _by_language(name, tables, list(splits), id_field)


def _by_language(name: str, tables: Mapping[str, Any], available: Sequence[str], id_field: str) -> Reading:
    notes: tuple[str, ...] = ()
    number_rows = bool(tables) and id_field == "id" and not any("id" in t.column_names for t in tables.values())
    if number_rows:
        lengths = {language: len(table) for language, table in tables.items()}
        if len(set(lengths.values())) > 1:
            counts = ", ".join(f"{language} {length}" for language, length in lengths.items())
            raise CorpusError(
                f"{name} has no column 'id', and row numbers cannot replace it, because its languages differ in "
                f"length ({counts}). Name the column that aligns them: [[id_field=]]."
            )
        notes = (f"{name} has no column 'id': row numbers serve as ids, so equal rows must be translations.",)
    parts = [
        collect(_source(f"{name} ({language})", table, id_field, number_rows), language, None, id_field)
        for language, table in tables.items()
    ]
    return replace(join(_short(name), parts, notes), available=tuple(available))


def _source(label: str, table: Any, id_field: str, number_rows: bool = False) -> Source:
    columns = [column for column in (id_field, "language", "text", "title") if column in table.column_names]
    for column in ["text"] if number_rows else ["text", id_field]:
        if column not in columns:
            raise CorpusError(f"{label} has no column '{column}'. Columns there: {', '.join(table.column_names)}.")

    records = enumerate(table.select_columns(columns), start=1)
    rows = (Row(number, {"id": number, **fields} if number_rows else fields) for number, fields in records)
    return Source(label, "row", rows)


def _only_split(name: str, configuration: str, splits: Mapping[str, Any]) -> Any:
    if len(splits) != 1:
        raise CorpusError(
            f"the configuration {configuration!r} of {name} has the splits {', '.join(splits)}: a corpus needs one."
        )
    return next(iter(splits.values()))


def _short(name: str) -> str:
    return PurePath(name).name if PurePath(name).is_absolute() else name


def library_of(name: str) -> ModuleType:
    """The library that reads datasets, for a dataset of that name."""
    try:
        return import_module("datasets")
    except ModuleNotFoundError as error:
        if error.name != "datasets":
            raise
        raise MissingExtra(
            f"there is no file or folder {name!r}, and looking for a Hugging Face dataset of that name needs a "
            "library that is not installed: pip install 'fairspan[datasets]'."
        ) from None


def refuse_unreachable(name: str) -> None:
    """Raise if the hub does not answer within seconds: the library would go on trying for half a minute."""
    from huggingface_hub import HfApi, constants
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError

    if Path(name).exists() or constants.HF_HUB_OFFLINE:
        return
    try:
        HfApi().dataset_info(name, timeout=_SECONDS)
    except (HfHubHTTPError, HFValidationError):
        return  # it answers; loading finds out what is wrong
    except Exception:
        if not (Path(constants.HF_HUB_CACHE) / f"datasets--{name.replace('/', '--')}").exists():
            raise CorpusError(f"there is no file or folder {name!r}, and {_UNREACHED}.") from None


def load_part(library: ModuleType, function: str, name: str, *arguments: str, **options: Any) -> Any:
    """What a function of the library returns; whatever it raises in one line."""
    try:
        return getattr(library, function)(name, *arguments, **options)
    except ConnectionError:
        reason = _UNREACHED
    except library.exceptions.DatasetNotFoundError:
        reason = "the Hugging Face hub has no dataset of that name that you may read"
    except Exception as error:  # the library lets through whatever its many layers raise
        first = str(error).strip().partition("\n")[0].rstrip(".")
        raise CorpusError(f"the dataset {name} could not be loaded: {type(error).__name__}: {first}.") from None
    raise CorpusError(f"there is no file or folder {name!r}, and {reason}.")
