"""Building a comparable corpus from dumps: align, read language by language, write.

Work in progress is in `.work`: one file for Wikidata's links and one for every file of a dump, each written as a
whole. Their names hold a digest of their inputs, so a build continues with those that it finds.
"""

import hashlib
import json
import os
import shutil
import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

from fairspan.corpus.wikipedia.dump import CIRRUS, recognise
from fairspan.corpus.wikipedia.reading import Articles, LanguageReader
from fairspan.corpus.wikipedia.request import BuildRequest, Tokenizer, stamps
from fairspan.corpus.wikipedia.sitelinks import write_sitelinks
from fairspan.errors import CorpusError

MANIFEST, WORK = "corpus.json", ".work"
_LICENCE = "CC BY-SA 4.0 and GFDL (dumps before June 2023: CC BY-SA 3.0 and GFDL)"
_ATTRIBUTION = (
    "The texts are from Wikipedia, by its contributors, and were changed: markup, tables, references and templates "
    "were removed. The field url of each text links to its page, whose history names its authors. If you share the "
    "texts, name this source and the licence, and share them under the same licence."
)

BuildProgress = Callable[[Path, int, str], None]
"""Takes a file, how many of its bytes are read, and what was found in them."""


def build(
    out: Path,
    request: BuildRequest,
    tokenizer: Tokenizer,
    progress: BuildProgress = lambda file, done, found: None,
) -> dict[str, Any]:
    """Build a corpus in the folder `out`, or go on with one that was begun there.

    The same request and the same files give the same bytes, however often the build was interrupted.

    Returns:
        What `corpus.json` holds.
    """
    asked, work = request.asked(tokenizer), out / WORK
    built = _read_manifest(out)
    if built is not None:
        other = [name for name, value in asked.items() if built["asked"].get(name) != value]
        if other:
            raise CorpusError(
                f"{out} holds a corpus with another {other[0]}: choose another folder, or delete it."
            )
        shutil.rmtree(work, ignore_errors=True)
        return built
    formats = {language: recognise(request.dumps[language][0]) for language in request.languages}
    nameless = [f"{language} ({name})" for language, name in formats.items() if name != CIRRUS]
    if request.sitelinks is None and nameless:
        raise CorpusError(
            f"the dump of {nameless[0]} does not name Wikidata items: give sitelinks."
        )
    links_of = stamps(() if request.sitelinks is None else (request.sitelinks,))
    key = _digest([value for name, value in asked.items() if name != "dumps"], links_of)
    try:
        work.mkdir(parents=True, exist_ok=True)
        links = _open_links(work, key, request, progress)
        with closing(links) if links else nullcontext():
            found: dict[str, Articles] = {}
            common = None
            for language in request.order:
                key = _digest(key, language, stamps(request.dumps[language]))
                reader = LanguageReader(request, tokenizer, language, common, links)
                found[language] = _read(reader, work, key, progress)
                common = found[language].by_item
            manifest = _write_corpus(out, request, asked, found, formats)
        shutil.rmtree(work)
    except (sqlite3.Error, OSError) as error:
        reason = getattr(error, "strerror", None) or error
        raise CorpusError(f"{out} cannot be written ({reason}). What was done is kept.") from error
    return manifest


def draw(items: Sequence[int], limit: int | None, seed: int) -> list[int]:
    """`limit` of the items, in their order; the same for the same seed."""
    by_chance = sorted(items, key=lambda item: hashlib.sha256(f"{seed} Q{item}".encode()).digest())
    return sorted(by_chance[:limit])


def _read_manifest(out: Path) -> dict[str, Any] | None:
    """What a finished corpus says of itself; None for a folder that is empty or was begun by a build."""
    try:
        there = sorted(one.name for one in out.iterdir()) if out.exists() else []
        if MANIFEST in there:
            found: dict[str, Any] = json.loads((out / MANIFEST).read_text(encoding="utf-8"))
            return found if found["asked"] and found["files"] else None
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise CorpusError(
            f"{out} is not the folder of a built corpus ({error}): choose another one."
        ) from None
    if there and WORK not in there:
        raise CorpusError(f"{out} holds other files, such as {there[0]}: choose a new folder.")
    return None


def _open_links(
    work: Path, key: str, request: BuildRequest, progress: BuildProgress
) -> sqlite3.Connection | None:
    """The items that have a page in every language; None if the dumps name them."""
    path, file = request.sitelinks, work / f"links-{key}.sqlite"
    if path is None:
        return None
    if not file.exists():
        unfinished = _unfinished(work)
        write_sitelinks(path, request.languages, unfinished, partial(progress, path))
        unfinished.replace(file)
    return sqlite3.connect(file)


def _read(reader: LanguageReader, work: Path, key: str, progress: BuildProgress) -> Articles:
    """The articles of a language, file by file; a file that was read to its end before is not read again."""
    articles = Articles()
    for number, path in enumerate(reader.request.dumps[reader.language]):
        file = work / f"{reader.language}-{key}-{number}.jsonl"
        if not file.exists():
            _write(work, file, reader.lines(path, partial(progress, path)))
        articles.add(file)
    if not articles.by_item:
        counts = ", ".join(
            f"{count:,} {reason}" for reason, count in sorted(articles.counts.items())
        )
        raise CorpusError(
            f"no article of {reader.language!r} is left ({counts}): widen min_tokens and max_tokens."
        )
    return articles


def _write_corpus(
    out: Path,
    request: BuildRequest,
    asked: Mapping[str, Any],
    found: Mapping[str, Articles],
    formats: Mapping[str, str],
) -> dict[str, Any]:
    """One file per language, then `corpus.json`, which makes the corpus complete."""
    items = sorted(found[request.order[-1]].by_item)
    common = [
        item
        for item in items
        if request.similar({one: own.by_item[item].tokens for one, own in found.items()})
    ]
    if not common:
        raise CorpusError(
            f"none of {len(items):,} articles has similar lengths in all languages: widen length_ratio."
        )
    chosen = draw(common, request.limit, request.seed)
    work, names = out / WORK, {one: f"{one}.jsonl" for one in request.languages}
    files = {
        name: _write(work, out / name, found[one].lines(chosen)) for one, name in names.items()
    }
    dumps = {}
    for language, articles in found.items():
        left_out = dict(sorted(articles.counts.items()))
        dumps[language] = {
            "format": formats[language],
            "pages": left_out.pop("pages", 0),
            "left_out": left_out,
            "accepted": len(articles.by_item),
        }
    manifest = {
        "articles": len(chosen),
        "found": len(common),
        "licence": _LICENCE,
        "attribution": _ATTRIBUTION,
        "asked": asked,
        "dumps": dumps,
        "files": files,
    }
    _write(
        work, out / MANIFEST, [json.dumps(manifest, ensure_ascii=False, indent=2).encode() + b"\n"]
    )
    return manifest


def _write(work: Path, file: Path, lines: Iterable[bytes]) -> str:
    """Write a file as a whole or not at all; returns its SHA-256."""
    unfinished, digest = _unfinished(work), hashlib.sha256()
    with unfinished.open("wb") as written:
        for line in lines:
            written.write(line)
            digest.update(line)
        written.flush()
        os.fsync(written.fileno())
    unfinished.replace(file)
    return digest.hexdigest()


def _unfinished(work: Path) -> Path:
    """What a file is called while it is written: by this process alone, so that two builds give the same bytes."""
    return work / f"{os.getpid()}.part"


def _digest(*values: Any) -> str:
    return hashlib.sha256(json.dumps(values).encode()).hexdigest()[:16]
