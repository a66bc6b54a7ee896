"""`fairspan corpus build OUT`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fairspan.cli.options import AsJson, option, print_json, words
from fairspan.cli.showing import TerminalProgress, running
from fairspan.errors import CorpusError
from fairspan.report.text import duration

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fairspan.corpus.wikipedia.build import Built
    from fairspan.corpus.wikipedia.request import BuildRequest
    from fairspan.corpus.wikipedia.sitelinks import Alignment


def build(
    out: Annotated[Path, typer.Argument(help="The folder of the corpus. If it was begun before, it is continued.")],
    languages: str | None = option("Languages of the corpus, such as en,de,hi."),
    dumps: Path | None = option("Folder with downloaded files, which are found by their usual names."),
    dump: list[str] = option(
        "Dump of one language, such as en=FILE. A dump of several files is named several times.", default=()
    ),
    sitelinks: Path | None = option("Wikidata's wb_items_per_site SQL or its JSON dump, which align the languages."),
    langlinks: str | None = option("The langlinks SQL of one Wikipedia instead, such as en=FILE."),
    model: str | None = option("Count tokens as this model does: a folder or a name on the hub."),
    min_tokens: int = option("Omit shorter articles.", default=1000),
    max_tokens: int = option("Omit longer articles.", default=2000),
    length_language: str | None = option("Apply these limits to this language only."),
    length_ratio: float | None = option("How far the lengths of other languages may be from it, such as 0.7."),
    limit: int | None = option("Number of articles to draw. Default: all."),
    seed: int = option("Seed of that draw.", default=0),
    fresh: bool = option("Begin again, whatever was begun or built in OUT.", "--fresh", default=False),
    as_json: AsJson = False,
) -> None:
    """Build a corpus of articles that exist in several languages, from downloaded Wikipedia dumps.

    OUT gets one file per language with the same ids, as `audit` reads it, and corpus.json, which says what it was
    made of. Files are streamed, and memory stays bounded. After an interruption the same command continues.
    Dumps are pages-articles XML, Wikimedia Enterprise HTML, CirrusSearch or Hugging Face's wikimedia/wikipedia.
    Needs `pip install 'fairspan[wikipedia]'`.

    Examples:

        fairspan corpus build my-corpus --languages en,de,hi --dumps downloads --model BAAI/bge-m3

        fairspan corpus build my-corpus --languages en,de --dump en=enwiki-20260101-pages-articles-multistream.xml.bz2
        --dump de=20231101.de --sitelinks wikidatawiki-20260101-wb_items_per_site.sql.gz --model BAAI/bge-m3

        fairspan corpus build my-corpus --languages en,de --dumps downloads --model BAAI/bge-m3 --length-language en
        --length-ratio 0.7 --limit 1000 --seed 1
    """
    from fairspan.corpus.wikipedia.build import build
    from fairspan.model.tokenizer import load_tokenizer

    progress = BuildingProgress()
    with running(None, progress=progress):
        if model is None:
            raise CorpusError("lengths are counted in tokens: name the model that counts them with [[model=]].")
        request = _request(
            languages, dumps, dump, _alignment(sitelinks, langlinks), min_tokens, max_tokens, length_language,
            length_ratio, limit, seed,
        )  # fmt: skip
        progress.stage(f"loading the tokenizer of {model}")
        built = build(out, request, load_tokenizer(model), progress, fresh=fresh)
        progress.stop()
    if built.was_there:
        typer.echo(f"{out} is complete: nothing was left to build.", err=True)
    if as_json:
        print_json(built.to_dict())
    else:
        _show(built)


def _request(
    languages: str | None,
    folder: Path | None,
    typed: Sequence[str],
    alignment: Alignment | None,
    min_tokens: int,
    max_tokens: int,
    length_language: str | None,
    length_ratio: float | None,
    limit: int | None,
    seed: int,
) -> BuildRequest:
    from fairspan.corpus.wikipedia.dump_files import find_alignment, find_dump
    from fairspan.corpus.wikipedia.request import BuildRequest, Limits

    if languages is None:
        raise CorpusError("name the languages of the corpus, for example [[languages=en,de]].")
    wanted = tuple(words(languages))
    named: dict[str, tuple[Path, ...]] = {}
    for one in typed:
        language, path = _pair("dump", one)
        named[language] = (*named.get(language, ()), path)
    if folder is not None:
        named = {**{one: found for one in wanted if (found := find_dump(folder, one))}, **named}
        alignment = alignment or find_alignment(folder, wanted)
    from fairspan.corpus.wikipedia.sitelinks import Alignment

    limits = Limits(min_tokens, max_tokens, length_language, length_ratio)
    return BuildRequest(wanted, named, alignment or Alignment(), limits, limit, seed)


def _alignment(sitelinks: Path | None, langlinks: str | None) -> Alignment | None:
    from fairspan.corpus.wikipedia.sitelinks import Alignment

    if sitelinks is not None and langlinks is not None:
        raise CorpusError("[[sitelinks]] and [[langlinks]] both align the languages: omit one of them.")
    if sitelinks is not None:
        return Alignment("sitelinks", sitelinks)
    if langlinks is not None:
        language, path = _pair("langlinks", langlinks)
        return Alignment("langlinks", path, language)
    return None


def _pair(name: str, typed: str) -> tuple[str, Path]:
    language, equals, path = typed.partition("=")
    if not language.strip() or not equals or not path.strip():
        raise CorpusError(f"[[{name}]] takes a language and a file, such as en=FILE, got {typed!r}.")
    return language.strip(), Path(path.strip()).expanduser()


class BuildingProgress(TerminalProgress):
    """The same for bytes of dumps."""

    def __init__(self) -> None:
        super().__init__()
        self._words = ""

    def begin(self, stage: str, total: int) -> None:
        self.stop()
        self.stage(stage)
        self.start(total)
        self._words = ""

    def reach(self, position: int, words: str = "") -> None:
        self._words = words
        self.advance(max(0, position - self._done))
        if self._task is not None and self._console.is_terminal:
            self._bar.update(self._task, description=self._counts())

    def line(self, now: float) -> str:
        """Such as "reading de (1 of 2): 120 of 7,000 MB, 8,100 pages, 95 accepted, about 4 min left …"."""
        if self._task is None:
            return super().line(now)
        begun, before = self._lines[0]
        self._lines.append((now, self._done))
        left = (self._total - self._done) * (now - begun) / max(1, self._done - before)
        return f"{self._counts()}{f', about {duration(left)} left' if self._done > before else ''} …"

    def _counts(self) -> str:
        # Not every format says how much of a file is read.
        done = f"{self._done / 1e6:,.0f} of " if self._done else ""
        megabytes = f"{done}{self._total / 1e6:,.0f} MB"
        return f"{self._stage}: {', '.join(filter(None, [megabytes, self._words]))}"


def _show(built: Built) -> None:
    from rich.console import Console
    from rich.table import Table

    made: Mapping[str, Any] = built.manifest
    dumps: Mapping[str, Any] = made["dumps"]
    reasons = sorted({reason for one in dumps.values() for reason in one["left_out"]})
    table = Table("language", "dump", title="Items by language, in the order of reading", title_justify="left")
    for heading in ("pages", "items", *reasons, "accepted"):
        table.add_column(heading, justify="right")
    for language, one in dumps.items():
        counts = [
            one["pages"],
            one["items"],
            *(one["left_out"].get(reason, 0) for reason in reasons),
            one["accepted"],
        ]
        dump = " ".join(filter(None, [one["format"], one["date"]]))
        table.add_row(language, dump, *("" if count is None else f"{count:,}" for count in counts))
    console = Console()
    console.print(table)
    drawn = "" if made["articles"] == made["found"] else f", drawn from {made['found']:,}"
    lines = [
        f"{built.folder}: {made['articles']:,} articles in each of {', '.join(made['asked']['languages'])}{drawn}.",
        f"Licence: {made['licence']}. {made['attribution']}",
    ]
    for line in lines:
        console.print(line, highlight=False, markup=False, soft_wrap=True)
