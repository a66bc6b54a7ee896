"""A corpus from dumps: the whole way, and the same bytes whatever interrupts it."""

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fairspan.corpus.corpus import Corpus
from fairspan.corpus.wikipedia import reading
from fairspan.corpus.wikipedia.build import build, draw
from fairspan.corpus.wikipedia.request import BuildRequest
from fairspan.errors import CorpusError
from tests.saying import said_by
from tests.wikipedia_builds import (
    MadePage,
    Wikis,
    WordTokenizer,
    topics,
    write_cirrus,
    write_parquet,
    write_sitelinks,
    write_xml,
)

ROOT = Path(__file__).parents[1]
LANGUAGES = ("en", "de", "it")
# Items by their words: within 100 to 200 everywhere, but for those that are too short or too long
# in one language.
WORDS: dict[int, int | Mapping[str, int]] = {
    3: 150,
    11: 100,
    5: {"en": 99, "de": 150, "it": 150},
    7: 200,
    8: {"en": 150, "de": 201, "it": 150},
    9: {"en": 150, "de": 150, "it": 0},
    40: 120,
}
KEPT = ["Q3", "Q7", "Q11", "Q40"]
WRITERS = {"en": write_xml, "de": write_cirrus, "it": write_parquet}


LENGTHS: dict[str, Any] = {"min_tokens": 100, "max_tokens": 200}


def asked(folder: Path, wikis: Wikis, **changes: Any) -> BuildRequest:
    """Dumps in a format each, and their sitelinks."""
    folder.mkdir(exist_ok=True)
    writers = {**WRITERS, **changes.pop("writers", {})}
    dumps = {
        language: (writers[language](folder, language, pages),) for language, pages in wikis.items()
    }
    links = changes.pop("links", None) or write_sitelinks(folder, wikis)
    return BuildRequest(tuple(wikis), dumps, links, **{**LENGTHS, **changes})


def make(out: Path, request: BuildRequest) -> dict[str, Any]:
    return build(out, request, WordTokenizer())


def files(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in sorted(folder.iterdir())}


def ids(folder: Path, language: str = "en") -> list[str]:
    lines = (folder / f"{language}.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line)["id"] for line in lines]


def built_ids(out: Path, request: BuildRequest) -> list[str]:
    """Those of English in a corpus that is built now."""
    make(out, request)
    return ids(out)


def test_the_whole_way(tmp_path: Path) -> None:
    request = asked(tmp_path / "dumps", topics(LANGUAGES, WORDS))
    manifest = make(tmp_path / "out", request)
    assert [*files(tmp_path / "out")] == ["corpus.json", "de.jsonl", "en.jsonl", "it.jsonl"]
    assert Corpus.read(tmp_path / "out").ids() == ("Q3", "Q7", "Q11", "Q40")
    first = json.loads((tmp_path / "out" / "en.jsonl").read_text(encoding="utf-8").splitlines()[0])
    assert first == {
        "id": "Q3",
        "title": "Topic 3 in en",
        "text": topics(LANGUAGES, WORDS)["en"][0].text,
        "page_id": 103,
        "revision": 1030,
        "url": "https://en.wikipedia.org/wiki/Topic_3_in_en",
        "tokens": 150,
    }
    assert manifest == json.loads((tmp_path / "out" / "corpus.json").read_text(encoding="utf-8"))
    assert (manifest["articles"], manifest["found"]) == (4, 4)
    assert manifest["dumps"]["de"]["format"] == "CirrusSearch"
    assert manifest["licence"].startswith("CC BY-SA 4.0 and GFDL")
    counts = [
        (one["accepted"], sum(one["left_out"].values())) for one in manifest["dumps"].values()
    ]
    assert sum(left_out for _, left_out in counts) == 3
    assert [sum(one) for one in counts] == [7, *(accepted for accepted, _ in counts[:-1])]
    assert manifest["dumps"]["de"]["left_out"] == {"too long": 1}
    assert str(tmp_path) not in json.dumps(manifest)


def test_formats_processes_and_the_order_of_pages_change_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wikis = topics(LANGUAGES, {item: 60 + item for item in range(1, 160)})
    make(tmp_path / "out", asked(tmp_path / "dumps", wikis))
    with monkeypatch.context() as patch:
        patch.setattr(reading, "_SMALL", 0)
        patch.setattr("os.cpu_count", lambda: 2)
        make(tmp_path / "several", asked(tmp_path / "dumps", wikis))
    assert files(tmp_path / "several") == files(tmp_path / "out")
    swapped: Wikis = {language: pages[::-1] for language, pages in wikis.items()}
    make(tmp_path / "swapped", asked(tmp_path / "swap", swapped, writers={"de": write_xml}))
    # Only XML keeps the paragraphs of a text.
    rows, others = (
        [json.loads(line) for line in (tmp_path / one / "de.jsonl").read_text("utf-8").splitlines()]
        for one in ("out", "swapped")
    )
    assert [row["id"] for row in rows] == [f"Q{item}" for item in range(40, 141)]
    assert [{**row, "text": row["text"].split()} for row in rows] == [
        {**row, "text": row["text"].split()} for row in others
    ]


def test_alignment_by_the_items_of_the_dumps(tmp_path: Path) -> None:
    writers = dict.fromkeys(LANGUAGES, write_cirrus)
    request = asked(tmp_path / "dumps", topics(LANGUAGES, WORDS), writers=writers)
    assert built_ids(tmp_path / "links", request) == KEPT
    assert built_ids(tmp_path / "items", replace(request, sitelinks=None)) == KEPT
    assert ids(tmp_path / "items", "de") == KEPT
    dumps = {"en": request.dumps["en"], "it": (write_parquet(tmp_path, "it", []),)}
    other = BuildRequest(("en", "it"), dumps)
    said = "dump of it (wikimedia/wikipedia Parquet) does not name Wikidata items"
    assert said in said_by(make, tmp_path / "other", other, kind=CorpusError)


def test_pages_that_are_no_articles_are_left_out(tmp_path: Path) -> None:
    wikis = topics(["en", "de"], dict.fromkeys(range(1, 8), 150))
    wikis["en"][0] = MadePage(101, "Topic 1 in en", 150, 1, kind="disambiguation")
    wikis["en"][1] = MadePage(102, "Topic 2 in en", 150, 2, kind="redirect")
    wikis["en"][5] = MadePage(106, "Topic 6 in en", item=6, wikitext="Long. " * 400_000)
    wikis["en"][6] = MadePage(107, "Topic 7 in en", item=7, wikitext="Never closed {{a|" * 200)
    wikis["de"][2] = MadePage(203, "Topic 3 in de", 150, 3, kind="disambiguation")
    links = write_sitelinks(tmp_path, wikis)
    wikis["en"].pop(4)
    made = make(tmp_path / "out", asked(tmp_path, wikis, links=links))
    assert ids(tmp_path / "out") == ["Q4"]
    # German is read first.
    assert made["dumps"]["de"]["left_out"] == {"disambiguation": 1}
    left_out = {"disambiguation": 1, "redirect": 1, "too much markup": 2}
    assert made["dumps"]["en"]["left_out"] == left_out


@pytest.mark.parametrize("smallest", ["en", "de"])
def test_lengths_beside_one_language(tmp_path: Path, smallest: str) -> None:
    """English has 100 to 200 words, German half to one and a half times as many, whichever is read
    first.
    """
    english = [100, 100, 200, 200, 150, 99, 201, 100, 200]
    german = [50, 49, 300, 301, 150, 99, 201, 151, 99]
    lengths = [{"en": en, "de": de} for en, de in zip(english, german, strict=True)]
    wikis = topics(["en", "de"], dict(enumerate(lengths, start=1)))
    more = "de" if smallest == "en" else "en"
    wikis[more] += [
        MadePage(1000 + number, f"Other {number}", 400, 1000 + number) for number in range(60)
    ]
    request = asked(
        tmp_path, wikis, length_language="en", length_ratio=0.5, writers={"en": write_cirrus}
    )
    assert request.order[0] == smallest
    assert built_ids(tmp_path / "out", request) == ["Q1", "Q3", "Q5"]


def test_a_draw_depends_on_the_seed_alone(tmp_path: Path) -> None:
    items = list(range(1, 500))
    first = draw(items, 20, 1)
    assert len(first) == 20
    assert draw(items[::-1], 20, 1) == first
    # A smaller draw is part of a larger one, and an item that is gone changes no other.
    assert {*draw(items, 10, 1)} < {*first}
    assert len({*draw([item for item in items if item != first[0]], 20, 1)} & {*first}) == 19
    assert draw(items, 20, 2) != first
    made = make(tmp_path / "out", asked(tmp_path / "d", topics(LANGUAGES, WORDS), limit=2, seed=5))
    drawn = [f"Q{item}" for item in draw([3, 7, 11, 40], 2, 5)]
    assert ids(tmp_path / "out") == ids(tmp_path / "out", "it") == drawn
    assert (made["articles"], made["found"]) == (2, 4)


def test_of_two_pages_of_an_item_the_first_is_taken(tmp_path: Path) -> None:
    wikis = topics(["en", "de"], {1: 150, 2: 150})
    first = [MadePage(99, "First page", 120, 2)]
    parts = (
        write_cirrus(tmp_path, "en", first, "20260101"),
        write_cirrus(tmp_path, "en", wikis["en"], "20260102"),
    )
    dumps = {"en": parts, "de": (write_cirrus(tmp_path, "de", wikis["de"]),)}
    made = make(tmp_path / "out", BuildRequest(("en", "de"), dumps, **LENGTHS))
    assert Corpus.read(tmp_path / "out").segment("Q2", "en").title == "First page"
    assert made["asked"]["dumps"]["en"] == [[part.name, part.stat().st_size] for part in parts]


def test_a_finished_corpus_is_left_alone(tmp_path: Path) -> None:
    wikis = topics(LANGUAGES, WORDS)
    request = asked(tmp_path / "dumps", wikis)
    first = make(tmp_path / "out", request)
    stamps = {file: file.stat().st_mtime_ns for file in (tmp_path / "out").iterdir()}
    second = make(tmp_path / "out", request)
    assert first == second
    assert {file: file.stat().st_mtime_ns for file in (tmp_path / "out").iterdir()} == stamps
    other = asked(tmp_path / "dumps", {one: wikis[one] for one in ("en", "de")}, max_tokens=190)
    with pytest.raises(CorpusError, match=r"out holds a corpus with another languages: choose"):
        make(tmp_path / "out", other)


def many(folder: Path) -> BuildRequest:
    """English in three files."""
    wikis = topics(LANGUAGES, {item: 60 + 7 * item for item in range(1, 31)})
    asked(folder, wikis)
    for number in range(3):
        write_xml(folder, "en", wikis["en"][number::3], f"2026010{number + 1}")
    return found(folder)


def found(folder: Path) -> BuildRequest:
    """What `many` wrote."""
    patterns = {"en": "enwiki*.bz2", "de": "dewiki*.gz", "it": "*.it/*.parquet"}
    dumps = {one: tuple(sorted(folder.glob(pattern))) for one, pattern in patterns.items()}
    links = next(folder.glob("wikidatawiki*"))
    return BuildRequest(LANGUAGES, dumps, links, **LENGTHS, limit=12, seed=3)


class Stopping(WordTokenizer):
    """Interrupts a build now and then."""

    def __init__(self, every: int) -> None:
        self.every, self.texts, self.calls = every, 0, 0

    def count(self, texts: Sequence[str]) -> list[int]:
        self.calls += 1
        if self.calls % self.every == 0:
            raise KeyboardInterrupt
        self.texts += len(texts)
        return super().count(texts)


def test_a_build_goes_on_where_it_was_interrupted(tmp_path: Path) -> None:
    """Files that were read are not read again, and the bytes are those of a build in one go."""
    request, tokenizer = many(tmp_path / "dumps"), Stopping(2)
    make(tmp_path / "reference", request)
    interruptions = 0
    while True:
        try:
            build(tmp_path / "out", request, tokenizer)
        except KeyboardInterrupt:
            interruptions += 1
            continue
        break
    assert files(tmp_path / "out") == files(tmp_path / "reference")
    assert interruptions == 4
    # All 30 in the first language, of which 15 are accepted and counted in each of the others.
    assert tokenizer.texts == 30 + 15 + 15


# Builds with a tokenizer that takes its time, so that a signal may come at any moment.
_SLOWLY = """
import sys, time
from pathlib import Path
import mwparserfromhell, polars
from tests import test_corpus_build, wikipedia_builds
class Slow(wikipedia_builds.WordTokenizer):
    def count(self, texts):
        time.sleep(0.1)
        return super().count(texts)
request = test_corpus_build.found(Path(sys.argv[1]))
print("begun", flush=True)
test_corpus_build.build(Path(sys.argv[2]), request, Slow())
"""


@pytest.mark.slow
def test_builds_that_are_killed_go_on_to_the_same_bytes(tmp_path: Path) -> None:
    """SIGKILL at any moment, several times in one build; later each time, so that slow machines end
    as well.
    """
    make(tmp_path / "reference", many(tmp_path / "dumps"))
    rng = np.random.default_rng(0)
    kills = 0
    for round in range(3):
        out = tmp_path / f"out{round}"
        for attempt in count(1):
            command = [sys.executable, "-c", _SLOWLY, str(tmp_path / "dumps"), str(out)]
            process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE)
            assert process.stdout is not None
            assert process.stdout.readline() == b"begun\n"
            with suppress(subprocess.TimeoutExpired):
                process.wait(rng.uniform(0, 0.3 * attempt))
            process.kill()
            process.stdout.close()
            if process.wait() == 0:
                break
            kills += 1
        assert files(out) == files(tmp_path / "reference")
    assert kills >= 3


@pytest.mark.parametrize("change", ["dump", "links"])
def test_a_file_that_changes_is_read_again(tmp_path: Path, change: str) -> None:
    """And all of them if the links change."""
    wikis = topics(["en", "de"], WORDS)
    request = asked(tmp_path / "dumps", wikis)
    first, last = request.order
    with pytest.raises(KeyboardInterrupt):
        build(tmp_path / "out", request, Stopping(2))
    changed = topics(["en", "de"], {**WORDS, **({3: 99} if change == "dump" else {12: 150})})
    WRITERS[first](tmp_path / "dumps", first, changed[first])
    if change == "links":
        write_sitelinks(tmp_path / "dumps", changed)
        WRITERS[last](tmp_path / "dumps", last, changed[last])
    expected = (
        ["Q7", "Q9", "Q11", "Q40"] if change == "dump" else ["Q3", "Q7", "Q9", "Q11", "Q12", "Q40"]
    )
    assert built_ids(tmp_path / "out", request) == expected
