"""The corpus that comes with fairspan."""

from collections.abc import Sequence
from dataclasses import replace
from importlib.resources import as_file, files

from fairspan.corpus.readers import read_folder
from fairspan.corpus.rows import Reading

SAMPLE = "sample"
LANGUAGES = ("en", "zh", "de", "it", "ko", "hi")


def sample(languages: Sequence[str] | None = None) -> Reading:
    """The embedded corpus; `Corpus.read("sample")` is the same as a `Corpus`."""
    with as_file(files("fairspan.corpus") / "data" / SAMPLE) as folder:
        return replace(read_folder(folder, languages), name=SAMPLE, available=LANGUAGES)
