"""A corpus from dumps: the whole way, the same bytes whatever interrupts it, and mistakes in one line."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fairspan.corpus.corpus import Corpus
from fairspan.corpus.wikipedia import reading
from fairspan.corpus.wikipedia.build import Built, build
from fairspan.corpus.wikipedia.output import draw
from fairspan.corpus.wikipedia.request import BuildRequest, Limits
from fairspan.corpus.wikipedia.sitelinks import Alignment
from fairspan.corpus.wikipedia.state import State
from fairspan.errors import CorpusError
from tests.wikipedia_builds import (
    MadePage,
    WordTokenizer,
    topics,
    write_cirrus,
    write_enterprise,
    write_entities,
    write_langlinks,
    write_parquet,
    write_sitelinks,
    write_xml,
)

ROOT = Path(__file__).parents[1]
LANGUAGES = ("en", "de", "hi", "it")
# Items by their words: within 100 to 200 everywhere, but for those that are too short or too long in one language.
WORDS: dict[int, int | Mapping[str, int]] = {
    3: 150,
    11: 100,
    5: {"en": 99, "de": 150, "hi": 150, "it": 150},
    7: 200,
    8: {"en": 150, "de": 201, "hi": 150, "it": 150},
    9: {"en": 150, "de": 150, "hi": 150, "it": 0},
    40: 120,
}
KEPT = ["Q3", "Q7", "Q11", "Q40"]
WRITERS = {"en": write_xml, "de": write_cirrus, "hi": write_enterprise, "it": write_parquet}


def made(folder: Path, languages: Sequence[str] = LANGUAGES, **changes: Any) -> BuildRequest:
    """Dumps of the topics in a format each, and their sitelinks."""
    folder.mkdir(exist_ok=True)
    wikis = topics(languages, WORDS)
    writers = {**WRITERS, **changes.pop("writers", {})}
    dumps = {language: (writers[language](folder, language, pages),) for language, pages in wikis.items()}
    alignment = changes.pop("alignment", None) or Alignment("sitelinks", write_sitelinks(folder, wikis))
    limits = changes.pop("limits", Limits(100, 200))
    return BuildRequest(tuple(languages), dumps, alignment, limits, **changes)


def files(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in sorted(folder.iterdir())}


def ids(built: Built, language: str = "en") -> list[str]:
    lines = (built.folder / f"{language}.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line)["id"] for line in lines]


def test_the_whole_way(tmp_path: Path) -> None:
    request = made(tmp_path / "dumps")
    built = build(tmp_path / "out", request, WordTokenizer())
    assert sorted(file.name for file in (tmp_path / "out").iterdir()) == [
        "corpus.json", "de.jsonl", "en.jsonl", "hi.jsonl", "it.jsonl",
    ]  # fmt: skip
    corpus = Corpus.read(tmp_path / "out")
    assert corpus.ids() == ("Q3", "Q7", "Q11", "Q40")
    assert {*corpus.languages} == {*LANGUAGES}
    first = json.loads((tmp_path / "out" / "de.jsonl").read_text(encoding="utf-8").splitlines()[0])
    page = topics(LANGUAGES, WORDS)["de"][0]
    assert first == {
        "id": "Q3",
        "title": "Topic 3 in de",
        "text": page.text,
        "page_id": 203,
        "revision": 2030,
        "url": "https://de.wikipedia.org/wiki/Topic_3_in_de",
        "tokens": 150,
    }
    manifest = built.manifest
    assert (manifest["articles"], manifest["found"], manifest["items"]) == (4, 4, 7)
    assert manifest["dumps"]["de"]["format"] == "CirrusSearch"
    assert manifest["dumps"]["de"]["date"] == "20260101"
    left_out = {language: one["left_out"] for language, one in manifest["dumps"].items()}
    assert sum(sum(one.values()) for one in left_out.values()) == 3
    assert left_out["de"].get("too long") == 1
    assert "CC" in manifest["licence"]
    assert str(tmp_path) not in json.dumps(manifest)


def texts(folder: Path) -> dict[str, bytes]:
    """The corpus itself, without what is said of it."""
    return {name: data for name, data in files(folder).items() if name.endswith(".jsonl")}


def test_formats_and_the_order_of_dumps_change_nothing(tmp_path: Path) -> None:
    """Every language in every format that names revisions; pages and options in another order."""
    reference = build(tmp_path / "out", made(tmp_path / "dumps"), WordTokenizer())
    again = made(tmp_path / "again")
    again = BuildRequest(
        again.languages, dict(reversed(again.dumps.items())), again.alignment, again.limits, again.limit, again.seed
    )
    build(tmp_path / "out-again", again, WordTokenizer())
    assert files(tmp_path / "out-again") == files(tmp_path / "out")

    def backwards(folder: Path, language: str, pages: Sequence[MadePage]) -> Path:
        return write_cirrus(folder, language, pages[::-1])

    others = made(
        tmp_path / "others", writers={"en": write_enterprise, "de": write_xml, "hi": backwards, "it": write_parquet}
    )
    build(tmp_path / "out-others", others, WordTokenizer())
    assert texts(tmp_path / "out-others") == texts(tmp_path / "out")
    assert ids(reference) == KEPT


def test_a_finished_corpus_is_left_alone(tmp_path: Path) -> None:
    request = made(tmp_path / "dumps")
    first = build(tmp_path / "out", request, WordTokenizer())
    stamps = {file: file.stat().st_mtime_ns for file in (tmp_path / "out").iterdir()}
    second = build(tmp_path / "out", request, WordTokenizer())
    assert (first.was_there, second.was_there) == (False, True)
    assert {file: file.stat().st_mtime_ns for file in (tmp_path / "out").iterdir()} == stamps
    other = made(tmp_path / "others", limits=Limits(100, 190))
    with pytest.raises(CorpusError, match=r"out holds a corpus .* another max_tokens \(200 there, 190"):
        build(tmp_path / "out", other, WordTokenizer())
    assert ids(build(tmp_path / "out", other, WordTokenizer(), fresh=True)) == ["Q3", "Q11", "Q40"]


def alignments(folder: Path) -> dict[str, Alignment]:
    wikis = topics(LANGUAGES, WORDS)
    return {
        "sitelinks": Alignment("sitelinks", write_sitelinks(folder, wikis)),
        "entities": Alignment("sitelinks", write_entities(folder, wikis)),
        "langlinks": Alignment("langlinks", write_langlinks(folder, "en", wikis), "en"),
        "items": Alignment(),
    }


@pytest.mark.parametrize("form", ["sitelinks", "entities", "langlinks", "items"])
def test_every_alignment_finds_the_same_articles(tmp_path: Path, form: str) -> None:
    """Items are Wikidata's, except that langlinks know only the numbers of the pivot's pages: 103 for item 3."""
    (tmp_path / "dumps").mkdir()
    writers = {"en": write_cirrus, "it": write_enterprise} if form == "items" else {}
    request = made(tmp_path / "dumps", alignment=alignments(tmp_path / "dumps")[form], writers=writers)
    built = build(tmp_path / "out", request, WordTokenizer())
    expected = ["103", "107", "111", "140"] if form == "langlinks" else KEPT
    assert [ids(built, language) for language in LANGUAGES] == [expected] * 4


def test_a_pivot_need_not_be_among_the_languages(tmp_path: Path) -> None:
    (tmp_path / "dumps").mkdir()
    pivot = Alignment("langlinks", write_langlinks(tmp_path / "dumps", "en", topics(LANGUAGES, WORDS)), "en")
    request = made(tmp_path / "dumps", ["de", "hi"], alignment=pivot)
    # Without English and Italian, items 5 (too short in English) and 9 (empty in Italian) stay.
    assert ids(build(tmp_path / "out", request, WordTokenizer()), "de") == ["103", "105", "107", "109", "111", "140"]


def test_disambiguation_pages_lists_and_redirects_are_left_out(tmp_path: Path) -> None:
    wikis = topics(["en", "de"], dict.fromkeys(range(1, 7), 150))
    wikis["en"][0] = MadePage(101, "Topic 1 in en", 150, 1, kind="disambiguation")
    wikis["en"][1] = MadePage(102, "Topic 2 in en", 150, 2, kind="redirect")
    wikis["en"][2] = MadePage(103, "List of topics", 150, 3)
    wikis["en"].pop(5)
    links = write_sitelinks(tmp_path, wikis, [(6, "enwiki", "Topic 6 in en")])
    dumps = {"en": (write_xml(tmp_path, "en", wikis["en"]),), "de": (write_cirrus(tmp_path, "de", wikis["de"]),)}
    request = BuildRequest(("en", "de"), dumps, Alignment("sitelinks", links), Limits(100, 200))
    built = build(tmp_path / "out", request, WordTokenizer())
    assert ids(built) == ["Q4", "Q5"]
    assert built.manifest["dumps"]["en"]["left_out"] == {
        "disambiguation": 1, "list": 1, "not in the dump": 1, "redirect": 1,
    }  # fmt: skip


def test_wikidata_s_classes_leave_items_out(tmp_path: Path) -> None:
    """Though their pages look like articles."""
    wikis = topics(["en", "de"], dict.fromkeys((1, 2, 3), 150))
    classes = {2: "Q4167410", 3: "Q13406463"}
    dumps = {language: (write_cirrus(tmp_path, language, pages),) for language, pages in wikis.items()}
    links = Alignment("sitelinks", write_entities(tmp_path, wikis, classes))
    built = build(tmp_path / "out", BuildRequest(("en", "de"), dumps, links, Limits(100, 200)), WordTokenizer())
    assert ids(built) == ["Q1"]


@pytest.mark.parametrize("smallest", ["en", "de"])
def test_lengths_beside_one_language(tmp_path: Path, smallest: str) -> None:
    """English has 100 to 200 words, German half to one and a half times as many, whichever is read first."""
    lengths = {1: (100, 50), 2: (100, 49), 3: (200, 300), 4: (200, 301), 5: (150, 150), 6: (99, 99), 7: (201, 201)}
    lengths |= {8: (100, 151), 9: (200, 99)}
    wikis = topics(["en", "de"], {item: {"en": en, "de": de} for item, (en, de) in lengths.items()})
    more = "de" if smallest == "en" else "en"
    wikis[more] += [MadePage(1000 + number, f"Other {number}", 400) for number in range(60)]
    dumps = {language: (write_cirrus(tmp_path, language, pages),) for language, pages in wikis.items()}
    links = Alignment("sitelinks", write_sitelinks(tmp_path, wikis))
    request = BuildRequest(("en", "de"), dumps, links, Limits(100, 200, "en", 0.5))
    assert request.order[0] == smallest
    assert ids(build(tmp_path / "out", request, WordTokenizer())) == ["Q1", "Q3", "Q5"]


def test_a_draw_depends_on_the_seed_alone(tmp_path: Path) -> None:
    items = [f"Q{number}" for number in range(1, 500)]
    first = draw(items, 20, 1)
    assert len(first) == 20
    assert sorted(draw(items[::-1], 20, 1)) == sorted(first)
    # A smaller draw is part of a larger one, and an item that is gone changes no other.
    assert {*draw(items, 10, 1)} < {*first}
    assert len({*draw([item for item in items if item != first[0]], 20, 1)} & {*first}) == 19
    assert draw(items, 20, 2) != first
    built = build(tmp_path / "out", made(tmp_path / "dumps", limit=2, seed=5), WordTokenizer())
    assert ids(built) == ids(built, "hi") == draw(KEPT, 2, 5)
    assert (built.manifest["articles"], built.manifest["found"]) == (2, 4)


@pytest.mark.parametrize("step", [1, -1])
def test_of_two_pages_of_an_item_the_older_one_is_taken(tmp_path: Path, step: int) -> None:
    """In whatever order the dump has them."""
    wikis = topics(["en", "de"], {1: 150, 2: 150})
    wikis["en"] = [*wikis["en"], MadePage(99, "Older page", 120, 2)][::step]
    dumps = {language: (write_cirrus(tmp_path, language, pages),) for language, pages in wikis.items()}
    built = build(tmp_path / "out", BuildRequest(("en", "de"), dumps, Alignment(), Limits(100, 200)), WordTokenizer())
    assert Corpus.read(built.folder).segment("Q2", "en").title == "Older page"
    assert built.manifest["articles"] == 2


def test_a_dump_in_several_files(tmp_path: Path) -> None:
    wikis = topics(["en", "de"], dict.fromkeys((1, 2, 3, 4), 150))
    parts = []
    for number, part in enumerate((wikis["en"][:2], wikis["en"][2:]), start=1):
        folder = tmp_path / str(number)
        folder.mkdir()
        parts.append(
            write_cirrus(folder, "en", part).rename(tmp_path / f"enwiki_content-20260101-0000{number}.json.gz")
        )
    dumps = {"en": tuple(parts), "de": (write_cirrus(tmp_path, "de", wikis["de"]),)}
    links = Alignment("sitelinks", write_sitelinks(tmp_path, wikis))
    built = build(tmp_path / "out", BuildRequest(("en", "de"), dumps, links, Limits(100, 200)), WordTokenizer())
    assert ids(built) == ["Q1", "Q2", "Q3", "Q4"]
    assert [one["name"] for one in built.manifest["dumps"]["en"]["files"]] == [part.name for part in parts]


# Builds with a save after every article and a tokenizer that takes its time, so that a signal may come at any moment.
_SLOWLY = """
import sys, time
from pathlib import Path
from fairspan.corpus.wikipedia import reading
from tests import test_corpus_build, wikipedia_builds
reading._TEXTS = 1
class Slow(wikipedia_builds.WordTokenizer):
    def count(self, texts):
        time.sleep(0.02)
        return super().count(texts)
request = test_corpus_build.read_request(Path(sys.argv[1]))
print("begun", flush=True)
test_corpus_build.build(Path(sys.argv[2]), request, Slow())
"""


def read_request(folder: Path) -> BuildRequest:
    """What `many` wrote."""
    dumps = {
        "en": next(folder.glob("enwiki*.bz2")),
        "de": next(folder.glob("dewiki*.gz")),
        "it": folder / "20231101.it",
    }
    alignment = Alignment("sitelinks", next(folder.glob("wikidatawiki*")))
    paths = {language: (path,) for language, path in dumps.items()}
    return BuildRequest(("en", "de", "it"), paths, alignment, Limits(100, 200), limit=12, seed=3)


def many(folder: Path) -> BuildRequest:
    folder.mkdir()
    wikis = topics(["en", "de", "it"], {item: 60 + 7 * item for item in range(1, 31)})
    write_xml(folder, "en", wikis["en"])
    write_cirrus(folder, "de", wikis["de"])
    write_parquet(folder, "it", wikis["it"])
    write_sitelinks(folder, wikis)
    return read_request(folder)


@pytest.mark.slow
def test_builds_that_are_killed_go_on_to_the_same_bytes(tmp_path: Path) -> None:
    """SIGKILL after 0 to 0.6 s of a build that takes about a second: in every stage, several times in one build."""
    build(tmp_path / "reference", many(tmp_path / "dumps"), WordTokenizer())
    rng = np.random.default_rng(0)
    kills = 0
    for round in range(4):
        out = tmp_path / f"out{round}"
        while True:
            command = [sys.executable, "-c", _SLOWLY, str(tmp_path / "dumps"), str(out)]
            process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE)
            assert process.stdout is not None
            assert process.stdout.readline() == b"begun\n"
            with suppress(subprocess.TimeoutExpired):
                process.wait(rng.uniform(0, 0.6))
            process.kill()
            process.stdout.close()
            if process.wait() == 0:
                break
            kills += 1
        assert files(out) == files(tmp_path / "reference")
    assert kills >= 4


def test_a_build_goes_on_where_it_was_interrupted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing that was accepted is counted again, and the bytes are those of a build in one go."""
    request = many(tmp_path / "dumps")
    build(tmp_path / "reference", request, WordTokenizer())
    monkeypatch.setattr(reading, "_TEXTS", 1)
    counted: list[str] = []

    class Failing(WordTokenizer):
        def count(self, texts: Sequence[str]) -> list[int]:
            if len(counted) % 7 == 6:
                counted.append("")
                raise KeyboardInterrupt
            counted.extend(texts)
            return super().count(texts)

    for _ in range(100):
        with suppress(KeyboardInterrupt):
            build(tmp_path / "out", request, Failing())
            break
    assert files(tmp_path / "out") == files(tmp_path / "reference")
    # All 30 in the first language, then the 15 that were accepted there in each of the others.
    assert len([text for text in counted if text]) == 30 + 15 + 15


def test_one_build_at_a_time(tmp_path: Path) -> None:
    request = made(tmp_path / "dumps")
    with State(tmp_path / "out"), pytest.raises(CorpusError, match=r"another process is building .*out: wait"):
        build(tmp_path / "out", request, WordTokenizer())
    assert ids(build(tmp_path / "out", request, WordTokenizer())) == KEPT


@pytest.mark.parametrize("change", ["dump", "links"])
def test_a_finished_language_whose_dump_changes_is_read_again(tmp_path: Path, change: str) -> None:
    """And all of them if the links change."""
    request = made(tmp_path / "dumps", ["en", "de"])
    first, last = request.order
    calls: list[int] = []

    class Stopping(WordTokenizer):
        def count(self, texts: Sequence[str]) -> list[int]:
            calls.append(len(texts))
            if len(calls) == 2:
                raise KeyboardInterrupt
            return super().count(texts)

    with pytest.raises(KeyboardInterrupt):
        build(tmp_path / "out", request, Stopping())
    changed = topics(["en", "de"], {**WORDS, **({3: 99} if change == "dump" else {12: 150})})
    WRITERS[first](tmp_path / "dumps", first, changed[first])
    if change == "links":
        write_sitelinks(tmp_path / "dumps", changed)
        WRITERS[last](tmp_path / "dumps", last, changed[last])
    expected = ["Q7", "Q9", "Q11", "Q40"] if change == "dump" else ["Q3", "Q7", "Q9", "Q11", "Q12", "Q40"]
    assert ids(build(tmp_path / "out", request, WordTokenizer())) == expected
