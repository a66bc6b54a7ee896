"""Corpora in files: one file for all languages, or a folder with one for each."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from fairspan.corpus.jsonl import jsonl
from fairspan.corpus.rows import Reading, Row, Source, collect, join, peek
from fairspan.errors import CorpusError

FOLDER_ENDINGS = (".jsonl", ".jsonl.gz", ".parquet")
FILE_ENDINGS = (*FOLDER_ENDINGS, ".json", ".json.gz")
QUESTION_FIELDS = {"query", "question", "start_in_article"}


def is_corpus_file(name: str) -> bool:
    return _ending(name, FILE_ENDINGS) is not None


def read_file(path: Path, languages: Sequence[str] | None = None, id_field: str = "id") -> Reading:
    """A file of records `{id, language, text, title}`, or `{id, text, title}` when one language is asked for."""
    ending = _ending(path.name, FILE_ENDINGS)
    if ending is None:
        raise CorpusError(f"{path} is no corpus file: its name must end in {', '.join(FILE_ENDINGS)}.")
    first, source = peek(_open(path, id_field))
    _refuse_questions(path, first)
    language = None
    if first is not None and "language" not in first.fields:
        if languages is None or len(languages) != 1:
            raise CorpusError(
                f"{source.place(first.number)}: there is no field 'language'. If the whole file is in one language, "
                "name that language: [[languages=en,]]."
            )
        language = languages[0]
    return join(path.name.removesuffix(ending), [collect(source, language, languages, id_field)])


def read_folder(folder: Path, languages: Sequence[str] | None = None, id_field: str = "id") -> Reading:
    """A folder of `{language}.jsonl` or `.parquet` files; a single file may name its languages itself.

    Only the files of the languages asked for are opened.
    """
    name = folder.resolve().name
    files = corpus_files(folder)
    if len(files) == 1:
        [(stem, file)] = files.items()
        first, source = peek(_open(file, id_field))
        _refuse_questions(file, first)
        language = None if first is not None and "language" in first.fields else stem
        return join(name, [collect(source, language, languages, id_field)])
    chosen = {stem: file for stem, file in files.items() if languages is None or stem in languages}
    parts = []
    for stem, file in (chosen or files).items():
        first, source = peek(_open(file, id_field))
        _refuse_questions(file, first)
        parts += [collect(source, stem, None, id_field)] if stem in chosen else []
    return replace(join(name, parts), available=tuple(files))


def _refuse_questions(path: Path, first: Row | None) -> None:
    """A task for `evaluate` in the place of a corpus."""
    asks = first is not None and QUESTION_FIELDS & {*first.fields} and "text" not in first.fields
    if asks or path.name.startswith("queries.jsonl"):
        raise CorpusError(
            f"{path} holds questions, and a corpus holds texts. Questions and their documents are a task, which "
            "evaluate searches; of a task, give the file of its documents as the corpus."
        )


def corpus_files(folder: Path) -> dict[str, Path]:
    """The files of a corpus folder by language, in the order of their names."""
    files: dict[str, Path] = {}
    for file in sorted(folder.iterdir()):
        ending = _ending(file.name, FOLDER_ENDINGS)
        if ending is None or not file.is_file() or file.name.startswith("."):
            continue
        language = file.name.removesuffix(ending)
        if language in files:
            raise CorpusError(
                f"{folder} has two files for {language!r}, {files[language].name} and {file.name}: remove one."
            )
        files[language] = file
    if not files:
        raise CorpusError(
            f"{folder} holds no corpus: it needs one file per language, such as en.jsonl and de.jsonl (or .parquet), "
            'with lines like {"id": "a1", "text": "…"}.'
        )
    return files


def _open(path: Path, id_field: str) -> Source:
    if path.suffix != ".parquet":
        return jsonl(path)
    return Source(path.name, "row", _parquet_rows(path, (id_field, "language", "text", "title")))


def _parquet_rows(path: Path, columns: tuple[str, ...]) -> Iterator[Row]:
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


def _ending(name: str, endings: Sequence[str]) -> str | None:
    return next((ending for ending in endings if name.endswith(ending) and name != ending), None)
