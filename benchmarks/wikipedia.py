"""Reading and cleaning a multistream dump of pages-articles: seconds and MB/s beside bare decompression of the file.

    python -m benchmarks.wikipedia [--copies 60] [--processes 1 2]

The dump is made from the packaged sample, many times, with the markup of articles around it: an infobox, links,
references with templates, tables, lists and categories.
"""

from __future__ import annotations

import argparse
import bz2
import random
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tests.wikipedia_builds import MadePage, WordTokenizer, xml_parts
from tests.wikipedia_builds import write_sitelinks as write_table

from fairspan.corpus.corpus import Corpus
from fairspan.corpus.wikipedia.dump import read_pages
from fairspan.corpus.wikipedia.reading import LanguageReader
from fairspan.corpus.wikipedia.request import BuildRequest
from fairspan.corpus.wikipedia.sitelinks import Sitelinks, write_sitelinks

CITE = (
    "<ref>{{cite web |url=https://www.example.org/a.html |title=Report |author=Smith, J. |date=1 March 2020 "
    "|work=[[The Example]] |access-date=2 May 2024}}</ref>"
)
INFOBOX = """{{Infobox settlement
| name = A
| caption = A view in {{circa|1900}}
| population = 1000<ref name="census">{{cite book|title=Census|year=2020}}</ref>
}}
[[File:Picture.jpg|thumb|upright=1.2|A [[picture]] of [[A|it]] in 1900.]]
"""
ROWS = "".join(f"|-\n| 19{year} || {year * 37} || {{{{percent|{year}}}}}\n" for year in range(50, 62))
TABLE = f'{{| class="wikitable"\n! Year !! Count !! Share\n{ROWS}|}}\n'
CLOSING = "\n== Literature ==\n* {{cite book|title=Book|isbn=1}}\n* [[Another article]]\n[[Category:Things]]\n"


def with_markup(text: str, rng: random.Random) -> str:
    lines = [INFOBOX]
    for number, paragraph in enumerate(filter(str.strip, text.split("\n"))):
        if number % 5 == 3:
            lines.append(f"== Section {number} ==\n{TABLE}")
        lines.append(" ".join(_marked(word, rng.random()) for word in paragraph.split(" ")) + "\n")
    return "\n".join([*lines, CLOSING])


def _marked(word: str, chance: float) -> str:
    if word.endswith(".") and chance < 0.6:
        return word + CITE
    return f"[[Some {word}|{word}]]" if chance < 0.05 else f"''{word}''" if chance < 0.06 else word


def seconds(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--copies", type=int, default=60)
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 2])
    chosen = parser.parse_args()
    sample, rng = Corpus.read("sample", ["en"]), random.Random(0)
    texts = [with_markup(sample.text(id, "en"), rng) for _ in range(chosen.copies) for id in sample.ids()]
    pages = [
        MadePage(number, f"A {number}", item=number, wikitext=text) for number, text in enumerate(texts, start=1)
    ]
    head, *parts, end = xml_parts("en", pages)
    groups = ["".join(parts[start : start + 100]) for start in range(0, len(parts), 100)]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "enwiki-20260101-pages-articles-multistream.xml.bz2")
        path.write_bytes(b"".join(bz2.compress(part.encode()) for part in [head, *groups, end]))
        links = Path(folder, "links")
        write_sitelinks(write_table(Path(folder), {"en": pages}), ["en"], links, lambda *_: None)
        request = BuildRequest(("en",), {"en": (path,)}, None, 1, 10**6)
        reader = LanguageReader(request, WordTokenizer(), "en", {}, Sitelinks(links))
        calls: dict[str, Callable[[], object]] = {"bare": lambda: bz2.decompress(path.read_bytes())}
        calls["pages only"] = lambda: sum(1 for _ in read_pages(path, "en"))
        for count in chosen.processes:
            calls[f"cleaned, {count} processes"] = lambda count=count: list(
                reader.lines(path, count, lambda *_: None)
            )  # type: ignore[misc]
        size, bare = path.stat().st_size / 1e6, 0.0
        print(f"{len(pages)} articles, {sum(map(len, texts)) / 1e6:.1f} MB of wikitext, {size:.2f} MB in bz2")
        for name, call in calls.items():
            taken = seconds(call)
            bare = bare or taken
            print(f"{name}: {taken:.2f} s, {size / taken:.2f} MB/s, {bare / taken:.2f} x bare", flush=True)


if __name__ == "__main__":
    main()
