"""The files of a corpus that was built, and what it says of itself in `corpus.json`."""

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

from fairspan.corpus.wikipedia.dump import describe
from fairspan.corpus.wikipedia.names import database
from fairspan.corpus.wikipedia.reading import given
from fairspan.corpus.wikipedia.request import BuildRequest
from fairspan.corpus.wikipedia.site import prefix_of
from fairspan.corpus.wikipedia.state import State, counts_of, explained
from fairspan.errors import CorpusError

MANIFEST, LAYOUT = "corpus.json", 1
_ATTRIBUTION = (
    "The texts are from Wikipedia, by its contributors, and were changed: markup, tables, references and templates "
    "were removed. The field url of each text leads to its page, whose history names its authors. Whoever passes the "
    "texts on has to name this source and the licence, and to pass them on under the same licence."
)


def read_manifest(out: Path) -> dict[str, Any] | None:
    """What a finished corpus says of itself; None if there is none."""
    try:
        found = json.loads((out / MANIFEST).read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as error:
        raise CorpusError(f"{out / MANIFEST} cannot be read ({error}): choose another folder.") from None
    return found if isinstance(found, dict) and "asked" in found else None


def draw(items: Sequence[str], limit: int | None, seed: int) -> list[str]:
    """`limit` of the items, whatever their order, the same for the same seed."""
    if limit is None or limit >= len(items):
        return list(items)
    chosen = {*sorted(items, key=lambda item: hashlib.sha256(f"{seed} {item}".encode()).digest())[:limit]}
    return [item for item in items if item in chosen]


def write_corpus(out: Path, request: BuildRequest, state: State, asked: Mapping[str, Any]) -> dict[str, Any]:
    """One file per language, then `corpus.json`, which makes the corpus complete."""
    numbers = {request.alignment.item_id(number): number for number in state.items(request.order[-1])}
    chosen = draw(list(numbers), request.limit, request.seed)
    digests = {}
    for language in request.languages:
        lines = (_line(state, language, item, numbers[item]) for item in chosen)
        digests[language] = _write(out, out / f"{language}.jsonl", lines)
    manifest = _manifest(request, state, asked, len(chosen), digests)
    _write(out, out / MANIFEST, [json.dumps(manifest, ensure_ascii=False, indent=2) + "\n"])
    return manifest


def _line(state: State, language: str, item: str, number: int) -> str:
    article = state.article(language, number)
    fields = {
        "id": item,
        "title": article.title,
        "text": article.text,
        "page_id": article.page_id,
        "revision": article.revision,
        "url": f"https://{prefix_of(language)}.wikipedia.org/wiki/{quote(article.title.replace(' ', '_'))}",
        "tokens": article.tokens,
    }
    return json.dumps(fields, ensure_ascii=False) + "\n"


def _manifest(
    request: BuildRequest, state: State, asked: Mapping[str, Any], drawn: int, digests: Mapping[str, str]
) -> dict[str, Any]:
    readings = state.readings()
    dumps = {}
    for language in request.order:
        info = describe(given(request, language), language)
        dumps[language] = {
            "wiki": database(language),
            "files": request.files(language),
            "format": info.format,
            "date": info.date,
            "licence": info.licence,
            **counts_of(readings[language]),
        }
    licences = sorted({one["licence"] for one in dumps.values()})
    return {
        "layout": LAYOUT,
        "articles": drawn,
        "found": len(state.items(request.order[-1])),
        "licence": "; ".join(licences),
        "attribution": _ATTRIBUTION,
        "asked": dict(asked),
        "links": state.fact("links"),
        "items": state.fact("items"),
        "dumps": dumps,
        "files": {f"{language}.jsonl": digest for language, digest in digests.items()},
    }


def partial_of(file: Path) -> Path:
    """Where a file is while it is written."""
    return file.with_name(f".{file.name}.part")


def _write(out: Path, file: Path, lines: Iterable[str]) -> str:
    """Write a file as a whole or not at all.

    Returns:
        Its SHA-256.
    """
    partial, digest = partial_of(file), hashlib.sha256()
    with _explained(out):
        with partial.open("wb") as written:
            for line in lines:
                data = line.encode("utf-8", "replace")
                written.write(data)
                digest.update(data)
            written.flush()
            os.fsync(written.fileno())
        partial.replace(file)
    return digest.hexdigest()


@contextmanager
def _explained(out: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise explained(out, error) from error
