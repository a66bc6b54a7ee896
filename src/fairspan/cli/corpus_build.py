"""`fairspan corpus build OUT`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fairspan.cli.command import command
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
    from fairspan.cli.progress import running
    from fairspan.cli.showing import print_json
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
    if as_json:
        print_json({"folder": str(out), **facts})
    else:
        _print_facts(out, languages, facts)


def _named_files(dumps: Sequence[str]) -> dict[str, tuple[Path, ...]]:
    """The files of each language, from words such as en=FILE."""
    from fairspan.corpus.wikipedia.downloads import dump_files

    files: dict[str, tuple[Path, ...]] = {}
    for word in dumps:
        language, _, path = word.partition("=")
        files[language] = (*files.get(language, ()), *dump_files(Path(path).expanduser(), language))
    return files


def _print_facts(out: Path, languages: Sequence[str], facts: dict[str, Any]) -> None:
    """What was built, in words; dumps in the order of reading."""
    for language, dump in facts["dumps"].items():
        counts = {"pages": dump["pages"], **dump["left_out"], "accepted": dump["accepted"]}
        counted = ", ".join(f"{count:,} {what}" for what, count in counts.items())
        print(f"{language} {dump['format']}: {counted}")
    print(
        f"{out}: {facts['articles']:,} articles in each of {', '.join(languages)}, "
        f"of {facts['found']:,} found."
    )
    print(f"Licence: {facts['licence']}. {facts['attribution']}")
