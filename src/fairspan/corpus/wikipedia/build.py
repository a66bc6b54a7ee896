"""Building a comparable corpus from dumps: align, read language by language, write."""

import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from fairspan.corpus.wikipedia import cirrus, enterprise
from fairspan.corpus.wikipedia.dump import describe
from fairspan.corpus.wikipedia.link_file import LinkFile
from fairspan.corpus.wikipedia.names import database
from fairspan.corpus.wikipedia.output import MANIFEST, partial_of, read_manifest, write_corpus
from fairspan.corpus.wikipedia.reading import LanguageReader, given
from fairspan.corpus.wikipedia.request import BuildRequest, Tokenizer
from fairspan.corpus.wikipedia.sitelinks import Link
from fairspan.corpus.wikipedia.state import WORK, Reading, State
from fairspan.errors import CorpusError


class BuildProgress(Protocol):
    """Whoever shows how far a build is."""

    def begin(self, stage: str, total: int) -> None:
        """A file begins, or the files of a language, of so many bytes."""

    def reach(self, position: int, words: str = "") -> None:
        """So many bytes are read; `words` say what was found in them."""


class Silent:
    """Shows nothing."""

    def begin(self, stage: str, total: int) -> None: ...

    def reach(self, position: int, words: str = "") -> None: ...


@dataclass(frozen=True, slots=True)
class Built:
    """A corpus that is complete.

    Attributes:
        manifest: what `corpus.json` holds.
        was_there: whether there was nothing left to do.
    """

    folder: Path
    manifest: Mapping[str, Any]
    was_there: bool = False

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        return {"folder": str(self.folder), **self.manifest}


def build(
    out: Path,
    request: BuildRequest,
    tokenizer: Tokenizer,
    progress: BuildProgress | None = None,
    *,
    fresh: bool = False,
) -> Built:
    """Build a corpus in the folder `out`, or go on with one that was begun there.

    The same request and the same files give the same bytes, however often the build was interrupted.

    Args:
        fresh: begin again, whatever was begun or built there.

    Raises:
        CorpusError: among others, if a dump is cut off. What was read is kept: with a whole file in its place, the
            same request begins again with the language of that file.
    """
    asked = {**request.asked(tokenizer), "dumps": {one: request.files(one) for one in request.languages}}
    if fresh:
        _clear(out)
    built = read_manifest(out)
    if built is not None and not State.exists(out):
        _refuse_other(out, built["asked"], asked, "holds a corpus that was built")
        return Built(out, built, was_there=True)
    _require_ours(out)
    _check_dumps(request)
    with State(out) as state:
        progress = progress or Silent()
        _take_up(state, request, {name: value for name, value in asked.items() if name != "dumps"})
        _align(state, request, progress)
        _read(state, request, tokenizer, progress)
        manifest = write_corpus(out, request, state, asked)
        state.remove()
    return Built(out, manifest)


def _clear(out: Path) -> None:
    """Remove what a build wrote, and nothing else."""
    built = read_manifest(out)
    asked = {} if built is None else built["asked"]
    if State.exists(out):
        with State(out) as state:  # not while another process works there
            asked = state.fact("asked") or asked
            state.remove()
    for name in (f"{language}.jsonl" for language in asked.get("languages", ())):
        for file in (out / name, partial_of(out / name)):
            file.unlink(missing_ok=True)
    if built is not None:
        (out / MANIFEST).unlink()


def _require_ours(out: Path) -> None:
    """Raise unless the folder is empty, or was begun by a build."""
    if out.exists() and not out.is_dir():
        raise CorpusError(f"{out} is a file, and a corpus is a folder: choose another name.")
    if out.is_dir() and not State.exists(out):
        others = sorted(one.name for one in out.iterdir() if one.name != WORK)
        if others:
            raise CorpusError(f"{out} holds other files, such as {others[0]}: choose a new folder.")
        shutil.rmtree(out / WORK, ignore_errors=True)


def _check_dumps(request: BuildRequest) -> None:
    """Raise early if a dump cannot be read, or cannot be aligned."""
    for language in request.languages:
        info = describe(given(request, language), language)
        if request.alignment.kind == "items" and info.format not in (cirrus.NAME, enterprise.NAME):
            raise CorpusError(
                f"the dump of {language!r} ({info.format}) does not name Wikidata items: give [[sitelinks=]] or "
                "[[langlinks=]], which say what pages are about the same thing."
            )


def _take_up(state: State, request: BuildRequest, asked: Mapping[str, Any]) -> None:
    """Go on with what was begun for the same request; forget what was read from files that have changed since."""
    begun = state.fact("asked")
    # What has neither read the links nor a page has nothing to lose.
    if begun is not None and (state.fact("aligned") or state.readings()):
        # The file of links may have been downloaded again.
        links = {"file": asked["alignment"]["file"]}
        _refuse_other(state.out, {**begun, "alignment": {**begun["alignment"], **links}}, asked, "was begun")
    if state.fact("aligned") != request.exact_files(None):
        state.reset()
    state.set_fact("asked", asked)
    readings = state.readings()
    for language, begun_with in zip(request.order, list(readings.items()), strict=False):
        if begun_with[0] != language or begun_with[1].files != request.exact_files(language):
            break
        readings.pop(language)
    # A language that is done has dropped what it does not share with those before.
    state.forget(state.readings() if any(one.done for one in readings.values()) else readings)


def _refuse_other(out: Path, was: Mapping[str, Any], asked: Mapping[str, Any], how: str) -> None:
    for name, value in asked.items():
        if was.get(name) != value:
            there, now = (_shown(one) for one in (was.get(name), value))
            what = {"model": "tokenizer", "dumps": "dump files", "alignment": "alignment"}.get(name, f"[[{name}]]")
            raise CorpusError(
                f"{out} {how} with another {what} ({there} there, {now} now): repeat that command, choose another "
                "folder, or begin again with [[fresh=True]]."
            )


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return ",".join(map(str, value))
    if isinstance(value, dict):
        parts = [_shown(one) for one in value.values() if one is not None]
        return " ".join(parts)[:100]
    return str(value)


def _align(state: State, request: BuildRequest, progress: BuildProgress) -> None:
    """Find the items that have a page in every language."""
    alignment = request.alignment
    if alignment.path is None:
        state.set_fact("aligned", request.exact_files(None))
        return
    if state.fact("aligned") is None:
        progress.begin(f"reading {alignment.path.name}", alignment.path.stat().st_size)
        linked = alignment.linked(request.languages)
        pivot = alignment.pivot if alignment.pivot in request.languages else None

        with LinkFile(alignment.path) as file:

            def batches() -> Iterator[list[Link]]:
                for batch in alignment.links(file, request.languages):
                    progress.reach(file.position)
                    yield batch

            state.align(batches(), linked, pivot, request.exact_files(None))
    _require_items(state, request)


def _require_items(state: State, request: BuildRequest) -> None:
    """Raise unless there is an item in all languages."""
    if state.fact("items"):
        return
    path, links = request.alignment.path, state.fact("links")
    label = path.name if path else ""
    fewest = min(links, key=lambda language: (links[language], language))
    counts = "" if request.alignment.is_json else f": {fewest!r} has the fewest links, {links[fewest]:,}"
    empty = [] if request.alignment.is_json else [language for language in links if not links[language]]
    if empty:
        raise CorpusError(
            f"{label} has no links to {database(empty[0])}, the Wikipedia of {empty[0]!r}: check the language "
            "code, or take another file."
        )
    raise CorpusError(f"no item of {label} has a page in all of {', '.join(request.languages)}{counts}.")


def _read(state: State, request: BuildRequest, tokenizer: Tokenizer, progress: BuildProgress) -> None:
    order = request.order
    for number, language in enumerate(order):
        before = order[:number]
        reading = state.readings().get(language) or Reading(request.exact_files(language))
        if not reading.done:
            if reading.entered is None:
                reading.entered = len(state.items(before[-1])) if before else state.fact("items")
            progress.begin(f"reading {language} ({number + 1} of {len(order)})", request.size(language))

            def report(language: str, position: int, reading: Reading) -> None:
                progress.reach(position, f"{reading.pages:,} pages, {reading.accepted:,} accepted")

            LanguageReader(state, request, tokenizer, language, before).read(reading, report)
            state.keep_only_items_of(language)
        if not reading.accepted:
            raise CorpusError(_nothing(language, reading, request))


def _nothing(language: str, reading: Reading, request: BuildRequest) -> str:
    """Why no article of a language was accepted."""
    limits = request.limits
    why = ", ".join(f"{count:,} {reason}" for reason, count in sorted(reading.left_out.items()))
    lengths = f"; lengths seen: {reading.shortest:,} to {reading.longest:,} tokens" if reading.longest else ""
    if reading.entered and not reading.left_out:
        why = f"none of {reading.entered:,} items is in the dump"
    if not reading.pages:
        why = "the dump has no pages"
    return (
        f"no article of {language!r} is left between [[min_tokens={limits.min_tokens}]] and "
        f"[[max_tokens={limits.max_tokens}]] ({why or 'no page names an item'}{lengths})."
    )
