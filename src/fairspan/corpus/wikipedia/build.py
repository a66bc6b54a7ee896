"""Building a comparable corpus from dumps: align, read language by language, write.

Work in progress is in `.work`: a file for Wikidata's links and one for every file of a dump. Their
names contain a digest of their inputs, so a build continues with those that it finds.
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

from fairspan.corpus.source import BUILT
from fairspan.corpus.wikipedia.dump import CIRRUS, recognise
from fairspan.corpus.wikipedia.reading import Articles, LanguageReader
from fairspan.corpus.wikipedia.request import BuildRequest, Tokenizer, stamps
from fairspan.corpus.wikipedia.sitelinks import write_sitelinks
from fairspan.errors import CorpusError, first_line

WORK = ".work"
_LICENCE = "CC BY-SA 4.0 and GFDL (dumps before June 2023: CC BY-SA 3.0 and GFDL)"
_ATTRIBUTION = (
    "The texts are from Wikipedia, by its contributors, and were changed: markup, tables, "
    "references and templates were removed. The field url of each text links to its page, whose "
    "history names its authors. If you share the texts, name this source and the licence, and "
    "share them under the same licence."
)

BuildProgress = Callable[[Path, int, str], None]
"""Takes a file, how many of its bytes are read, and a count of what they contain."""


def build(
    out: Path,
    request: BuildRequest,
    tokenizer: Tokenizer,
    progress: BuildProgress = lambda file, done, counted: None,
) -> dict[str, Any]:
    """Build a corpus in the folder `out`, or continue one; returns the content of `corpus.json`.

    The same request and files give the same bytes, however often the build was interrupted.
    """
    asked = request.asked(tokenizer)
    work = out / WORK
    built = _read_manifest(out)
    if built is not None:
        other = [name for name, value in asked.items() if built["asked"].get(name) != value]
        if other:
            folder = f"{out} holds a corpus with another {other[0]}"
            raise CorpusError(f"{folder}: choose another folder, or delete it.")
        shutil.rmtree(work, ignore_errors=True)
        return built
    formats = {language: recognise(request.dumps[language][0]) for language in request.languages}
    nameless = [f"{language} ({name})" for language, name in formats.items() if name != CIRRUS]
    if request.sitelinks is None and nameless:
        wrong = f"the dump of {nameless[0]} does not name Wikidata items"
        raise CorpusError(f"{wrong}: give sitelinks.")
    try:
        work.mkdir(parents=True, exist_ok=True)
        articles = _read_languages(work, request, asked, tokenizer, progress)
        manifest = _write_corpus(out, request, asked, articles, formats)
        shutil.rmtree(work)
    except (sqlite3.Error, OSError) as error:
        reason = first_line(error)
        raise CorpusError(f"{out} cannot be written ({reason}). What was done is kept.") from error
    return manifest


def _read_languages(
    work: Path,
    request: BuildRequest,
    asked: Mapping[str, Any],
    tokenizer: Tokenizer,
    progress: BuildProgress,
) -> dict[str, Articles]:
    """The articles of every language; each one reads only the items that those before have."""
    links_of = stamps(() if request.sitelinks is None else (request.sitelinks,))
    key = _digest([value for name, value in asked.items() if name != "dumps"], links_of)
    articles: dict[str, Articles] = {}
    common = None
    links = _open_links(work, key, request, progress)
    with closing(links) if links else nullcontext():
        for language in request.order:
            key = _digest(key, language, stamps(request.dumps[language]))
            reader = LanguageReader(request, tokenizer, language, common, links)
            articles[language] = _read(reader, work, key, progress)
            common = articles[language].by_item
    return articles


def draw(items: Sequence[int], limit: int | None, seed: int) -> list[int]:
    """`limit` of the items, in their order; the same for the same seed."""
    by_chance = sorted(items, key=lambda item: hashlib.sha256(f"{seed} Q{item}".encode()).digest())
    return sorted(by_chance[:limit])


def _read_manifest(out: Path) -> dict[str, Any] | None:
    """The content of a finished `corpus.json`; None for a folder that is empty or begun."""
    try:
        names = sorted(path.name for path in out.iterdir()) if out.exists() else []
        if BUILT in names:
            manifest: dict[str, Any] = json.loads((out / BUILT).read_text(encoding="utf-8"))
            return manifest if manifest["asked"] and manifest["files"] else None
    except (OSError, ValueError, TypeError, KeyError) as error:
        wrong = f"{out} is not the folder of a built corpus ({error})"
        raise CorpusError(f"{wrong}: choose another one.") from None
    if names and WORK not in names:
        raise CorpusError(f"{out} holds other files, such as {names[0]}: choose a new folder.")
    return None


def _open_links(
    work: Path, key: str, request: BuildRequest, progress: BuildProgress
) -> sqlite3.Connection | None:
    """The items that have a page in every language; None if the dumps name them."""
    path = request.sitelinks
    if path is None:
        return None
    file = work / f"links-{key}.sqlite"
    if not file.exists():
        unfinished = _unfinished(work)
        write_sitelinks(path, request.languages, unfinished, partial(progress, path))
        unfinished.replace(file)
    return sqlite3.connect(file)


def _read(reader: LanguageReader, work: Path, key: str, progress: BuildProgress) -> Articles:
    """The articles of a language; files that were read before are not read again."""
    articles = Articles()
    for number, path in enumerate(reader.request.dumps[reader.language]):
        file = work / f"{reader.language}-{key}-{number}.jsonl"
        if not file.exists():
            _write(work, file, reader.lines(path, partial(progress, path)))
        articles.add(file)
    if not articles.by_item:
        reasons = sorted(articles.counts.items())
        counts = ", ".join(f"{count:,} {reason}" for reason, count in reasons)
        wrong = f"no article of {reader.language!r} is left ({counts})"
        raise CorpusError(f"{wrong}: widen min_tokens and max_tokens.")
    return articles


def _write_corpus(
    out: Path,
    request: BuildRequest,
    asked: Mapping[str, Any],
    articles: Mapping[str, Articles],
    formats: Mapping[str, str],
) -> dict[str, Any]:
    """One file per language, then `corpus.json`, which makes the corpus complete."""
    items = sorted(articles[request.order[-1]].by_item)
    common = []
    for item in items:
        tokens = {name: part.by_item[item].tokens for name, part in articles.items()}
        if request.similar(tokens):
            common.append(item)
    if not common:
        wrong = f"none of {len(items):,} articles has similar lengths in all languages"
        raise CorpusError(f"{wrong}: widen length_ratio.")
    chosen = draw(common, request.limit, request.seed)
    work = out / WORK
    files = {}
    for language in request.languages:
        name = f"{language}.jsonl"
        files[name] = _write(work, out / name, articles[language].lines(chosen))
    manifest = {
        "articles": len(chosen),
        "found": len(common),
        "licence": _LICENCE,
        "attribution": _ATTRIBUTION,
        "asked": asked,
        "dumps": {name: _dump_counts(part, formats[name]) for name, part in articles.items()},
        "files": files,
    }
    content = json.dumps(manifest, ensure_ascii=False, indent=2) + "\n"
    _write(work, out / BUILT, [content.encode()])
    return manifest


def _dump_counts(articles: Articles, form: str) -> dict[str, Any]:
    """What the manifest says about the dump of one language."""
    left_out = dict(sorted(articles.counts.items()))
    pages = left_out.pop("pages", 0)
    accepted = len(articles.by_item)
    return {"format": form, "pages": pages, "left_out": left_out, "accepted": accepted}


def _write(work: Path, file: Path, lines: Iterable[bytes]) -> str:
    """Write a file as a whole or not at all; returns its SHA-256."""
    unfinished = _unfinished(work)
    digest = hashlib.sha256()
    with unfinished.open("wb") as written:
        for line in lines:
            written.write(line)
            digest.update(line)
        written.flush()
        os.fsync(written.fileno())
    unfinished.replace(file)
    return digest.hexdigest()


def _unfinished(work: Path) -> Path:
    """A file while it is written; one per process, so that two builds do not mix."""
    return work / f"{os.getpid()}.part"


def _digest(*values: Any) -> str:
    return hashlib.sha256(json.dumps(values).encode()).hexdigest()[:16]
