"""`fairspan corpus build OUT`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fairspan.cli.options import AsJson, option, print_json, words
from fairspan.cli.showing import running


def build(
    out: Annotated[
        Path, typer.Argument(help="Folder to write. An interrupted build in it is continued.")
    ],
    languages: str = option("Languages of the corpus, such as en,de,hi.", default=...),
    dumps: Path | None = option("Folder with downloaded files, found by their usual names."),
    dump: list[str] = option(
        "Dump of one language, such as en=FILE. Repeat it for a dump of several files.", default=()
    ),
    sitelinks: Path | None = option(
        "Wikidata's wb_items_per_site SQL. Default: the items in CirrusSearch dumps."
    ),
    model: str = option(
        "Count tokens as this model does: a folder or a name on the hub.", default=...
    ),
    min_tokens: int = option("Omit shorter articles.", default=1000),
    max_tokens: int = option("Omit longer articles.", default=2000),
    length_language: str | None = option("Apply these limits to this language only."),
    length_ratio: float | None = option(
        "Allowed difference of other languages' lengths from it, such as 0.7."
    ),
    limit: int | None = option("Number of articles to draw. Default: all."),
    seed: int = option("Seed of that draw.", default=0),
    as_json: AsJson = False,
) -> None:
    """Build a corpus of articles that exist in several languages, from downloaded Wikipedia dumps.

    OUT gets one file per language with the same ids, for `audit`, and corpus.json with its sources. Files are
    streamed. The same command continues an interrupted build. Dumps are CirrusSearch, pages-articles XML (needs
    `pip install 'fairspan[wikipedia]'`) or Hugging Face's wikimedia/wikipedia.

    Examples:

        fairspan corpus build my-corpus --languages en,de,hi --dumps downloads --model MODEL

        fairspan corpus build out --languages en,de --dump en=en.xml.bz2 --dump de=20231101.de --model MODEL

        fairspan corpus build out --languages en,de --dumps downloads --model MODEL --limit 1000 --seed 1
    """
    from fairspan.corpus.wikipedia.build import build
    from fairspan.corpus.wikipedia.downloads import dump_files, find_sitelinks
    from fairspan.corpus.wikipedia.request import BuildRequest
    from fairspan.model.tokenizer import load_tokenizer

    with running(None) as progress:
        wanted = tuple(words(languages))
        files = {one: dump_files(dumps, one) for one in wanted} if dumps else {}
        for language in dict.fromkeys(one.partition("=")[0] for one in dump):
            paths = (
                Path(one.partition("=")[2]).expanduser()
                for one in dump
                if one.partition("=")[0] == language
            )
            files[language] = tuple(file for path in paths for file in dump_files(path, language))
        sitelinks = sitelinks or (find_sitelinks(dumps) if dumps else None)
        lengths = (min_tokens, max_tokens, length_language, length_ratio)
        request = BuildRequest(wanted, files, sitelinks, *lengths, limit, seed)
        progress.stage(f"loading the tokenizer of {model}")
        made = build(out, request, load_tokenizer(model), progress.reach)
        progress.stop()
    if as_json:
        print_json({"folder": str(out), **made})
        return
    # Dumps in the order of reading.
    for language, one in made["dumps"].items():
        counts = {"pages": one["pages"], **one["left_out"], "accepted": one["accepted"]}
        counted = ", ".join(f"{count:,} {what}" for what, count in counts.items())
        typer.echo(f"{language} {one['format']}: {counted}")
    typer.echo(
        f"{out}: {made['articles']:,} articles in each of {', '.join(wanted)}, of {made['found']:,} found."
    )
    typer.echo(f"Licence: {made['licence']}. {made['attribution']}")
