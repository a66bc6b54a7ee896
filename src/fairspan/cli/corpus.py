"""`fairspan corpus build OUT` and `fairspan corpus check PATH`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from cyclopts import App

from fairspan.cli.command import command
from fairspan.cli.progress import running
from fairspan.cli.showing import print_result, say
from fairspan.corpus.wikipedia.request import BuildRequest


@command(BuildRequest)
def build(
    out: Path,
    *,
    languages: Sequence[str],
    model: str,
    dumps: Path | None = None,
    dump: Sequence[str] = (),
    as_json: bool = False,
    **limits: Any,
) -> None:
    """Build a corpus of articles that exist in several languages, from downloaded Wikipedia dumps.

    OUT gets one file per language with the same ids, for `audit`, and corpus.json with its sources.
    Files are streamed. The same command continues an interrupted build. Dumps are CirrusSearch,
    pages-articles XML (needs `pip install 'fairspan[wikipedia]'`) or Hugging Face's
    wikimedia/wikipedia.

    For example:

        fairspan corpus build my-corpus --languages en,de,hi --dumps downloads --model MODEL
        fairspan corpus build out --languages en,de --dumps downloads --model MODEL --limit 1000
        fairspan corpus build out --languages en,de --model MODEL --dump en=en.xml.bz2 --dump de=de

    Args:
        out: folder to write. An interrupted build in it is continued.
        languages: languages of the corpus, such as en,de,hi.
        model: count tokens as this model does: a folder or a name on the hub.
        dumps: folder with downloaded files, found by their usual names.
        dump: dump of one language, such as en=FILE. Repeat it for a dump of several files.
        as_json: print the result as JSON.
    """
    from fairspan.corpus.wikipedia.build import build
    from fairspan.corpus.wikipedia.downloads import dump_files, find_sitelinks
    from fairspan.model.tokenizer import load_tokenizer

    with running() as progress:
        files: dict[str, tuple[Path, ...]] = {}
        if dumps is not None:
            files = {language: dump_files(dumps, language) for language in languages}
            limits.setdefault("sitelinks", find_sitelinks(dumps))
        request = BuildRequest(tuple(languages), {**files, **_named_files(dump)}, **limits)
        progress.stage(f"loading the tokenizer of {model}")
        facts = build(out, request, load_tokenizer(model), progress.reach)
        progress.stop()
    print_result({"folder": str(out), **facts}, _built(out, languages, facts), as_json=as_json)


def _named_files(dumps: Sequence[str]) -> dict[str, tuple[Path, ...]]:
    """The files of each language, from words such as en=FILE."""
    from fairspan.corpus.wikipedia.downloads import dump_files

    files: dict[str, tuple[Path, ...]] = {}
    for word in dumps:
        language, _, path = word.partition("=")
        files[language] = (*files.get(language, ()), *dump_files(Path(path).expanduser(), language))
    return files


def _built(out: Path, languages: Sequence[str], facts: dict[str, Any]) -> Iterator[str]:
    """What was built, in words; dumps in the order of reading."""
    for language, dump in facts["dumps"].items():
        counts = {"pages": dump["pages"], **dump["left_out"], "accepted": dump["accepted"]}
        counted = ", ".join(f"{count:,} {what}" for what, count in counts.items())
        yield f"{language} {dump['format']}: {counted}"
    articles = f"{facts['articles']:,} articles in each of {', '.join(languages)}"
    yield f"{out}: {articles}, of {facts['found']:,} found."
    yield f"Licence: {facts['licence']}. {facts['attribution']}"


@command()
def check(
    path: str,
    *,
    model: str | None = None,
    languages: Sequence[str] | None = None,
    sizes: Sequence[int] = (3, 4, 5),
    partial: bool = False,
    as_json: bool = False,
) -> None:
    """Check that a corpus can be read, and print what it contains.

    For each language: the number of segments and their lengths. For each size: how many documents
    with disjoint segments can be built. `fairspan audit --dry-run` prints what fits a model under a
    treatment.

    For example:

        fairspan corpus check sample
        fairspan corpus check my-corpus --model MODEL --languages en,de --sizes 3,4,5
        fairspan corpus check articles.jsonl --languages en --json

    Args:
        path: "sample", a folder of en.jsonl, de.jsonl, … or of texts, one file, or a dataset.
        model: count tokens as this model does: a folder or a name on the hub.
        languages: languages to check. By default all.
        sizes: numbers of segments per document.
        partial: accept segments that lack a translation.
        as_json: print the result as JSON.
    """
    from fairspan.corpus.check import check
    from fairspan.corpus.corpus import Corpus

    count = None
    segments = Corpus.read(path, languages, partial)
    if model is not None:
        from fairspan.model.tokenizer import load_tokenizer

        say(f"loading the tokenizer of {model} …")
        count = load_tokenizer(model).count
    facts = check(segments, sizes, count)
    print_result(facts, _contents(facts), as_json=as_json)


def _contents(facts: dict[str, Any]) -> Iterator[str]:
    """What a corpus contains, in words."""
    yield f"{facts['corpus']}: {facts['aligned']} segments in {', '.join(facts['languages'])}"
    for language, lengths in facts["languages"].items():
        ends = f"{lengths['0']:,} to {lengths['100']:,} {facts['unit']}"
        yield f"{language}: {lengths['segments']:,} segments of {ends}, median {lengths['50']:,}"
    documents = [f"{count:,} of {size} segments" for size, count in facts["sets"].items()]
    yield f"documents that share no segment: {', '.join(documents)}"
    yield from (f"note: {note}" for note in facts["notes"])


corpus = App(name="corpus", help="Build and check corpora.")
corpus.command(build)
corpus.command(check)
