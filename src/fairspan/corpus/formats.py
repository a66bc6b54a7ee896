"""The endings of files that are read."""

LINES = (".jsonl", ".jsonl.gz", ".ndjson", ".ndjson.gz")
# Also one object per line if such a file is named; in a folder they are not read.
JSON = (".json", ".json.gz")
PARQUET = (".parquet",)
MARKDOWN = (".md", ".markdown", ".mdown", ".mkd")
HTML = (".html", ".htm")
PDF = (".pdf",)
# One document per file.
TEXTS = (".txt", ".rst", *MARKDOWN, *HTML, *PDF)
DATA = (*LINES, *PARQUET)
ENDINGS = (*LINES, *JSON, *PARQUET, *TEXTS)


def ends_in(name: str, endings: tuple[str, ...]) -> bool:
    """Whether a file has one of the endings, in capitals or not."""
    return name.lower().endswith(endings)
