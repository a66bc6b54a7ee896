"""Reading Wikipedia dumps: MB/s of the file, beside bare decompression of the same file, on one core.

    python -m benchmarks.wikipedia [--corpus FILE.jsonl] [--rounds 3]

Makes a dump in every format from the texts of a corpus (by default the packaged sample, many times), with the markup
of an article around them: links, references with their templates, an infobox, a table, pictures, categories.
Redirects, templates and categories stand between the articles. Every dump is read in turn without cleaning, with
every tenth article cleaned, and with every article cleaned. Seconds are those of the CPU; figures are medians over
rounds.
"""

from __future__ import annotations

import argparse
import bz2
import gzip
import json
import random
import tempfile
import time
from collections.abc import Callable
from functools import partial
from html import escape
from pathlib import Path
from statistics import median

import polars as pl
from tests.wikipedia_dumps import Source, write_cirrus, write_enterprise, write_parquet, write_xml

from fairspan.corpus.corpus import Corpus
from fairspan.corpus.wikipedia.dump import read_pages

CITE = (
    "<ref{name}>{{{{cite web |url=https://www.example.org/{number}/article-{number}.html |title=Report {number} on "
    "{word} |author=Smith, J. |date={day} March 20{year:02} |work=[[The Example]] |access-date={day} May 2024}}}}"
    "</ref>"
)
INFOBOX = """{{{{Short description|Article about {title}}}}}
{{{{Infobox settlement
| name = {title}
| image = Picture of {title}.jpg
| caption = A view in {{{{circa|19{year:02}}}}}
| coordinates = {{{{coord|52|{day}|N|13|24|E|display=inline,title}}}}
| population = {number}<ref name="census">{{{{cite book|title=Census|year=20{year:02}}}}}</ref>
| website = {{{{URL|https://example.org}}}}
}}}}
[[File:Picture {number}.jpg|thumb|upright=1.2|A [[picture]] of [[{title}|it]] in 19{year:02}.]]
"""
TABLE = (
    """{| class="wikitable sortable"
|-
! Year !! Count !! Share
"""
    + "".join(f"|-\n| 19{year} || {year * 37} || {{{{percent|{year}}}}}\n" for year in range(50, 62))
    + "|}\n"
)
CLOSING = """
== See also ==
* [[Outline of things]]
* [[Another article]]

== References ==
{{{{Reflist|30em}}}}

== External links ==
* {{{{Official website|https://example.org/}}}}
* [https://example.org/{number} Something about {title}]

{{{{Navbox of things}}}}
{{{{Authority control}}}}

[[Category:Things in {title}]]
[[Category:Articles of 19{year:02}]]
"""


def with_markup(text: str, title: str, rng: random.Random) -> tuple[str, str]:
    """The wikitext and the HTML of an article that holds the text."""
    wiki = [INFOBOX.format(title=title, number=rng.randrange(10**6), year=rng.randrange(100), day=rng.randint(1, 28))]
    html = [f"<section data-mw-section-id='0'><table class='infobox'><tr><td>{escape(title)}</td></tr></table>"]
    for number, paragraph in enumerate(filter(str.strip, text.split("\n"))):
        if number % 4 == 3:
            wiki.append(f"== Section {number} ==")
            html.append(f"</section><section><h2>Section {number}</h2>")
        if number % 9 == 5:
            wiki.append(TABLE)
            html.append("<table class='wikitable'>" + "<tr><td>1950</td><td>1850</td></tr>" * 12 + "</table>")
        marked = [_marked(word, rng) for word in paragraph.split(" ")]
        wiki.append(" ".join(one for one, _ in marked) + "\n")
        html.append("<p id='mw{}'>{}</p>".format(number, " ".join(two for _, two in marked)))
    wiki.append(CLOSING.format(title=title, number=rng.randrange(10**6), year=rng.randrange(100)))
    html.append("</section><section><h2>References</h2><ol class='references'><li>Smith.</li></ol></section>")
    head = f"<!DOCTYPE html><html><head><title>{escape(title)}</title></head>"
    return "\n".join(wiki), f"{head}<body>{''.join(html)}</body></html>"


def _marked(word: str, rng: random.Random) -> tuple[str, str]:
    chance, shown = rng.random(), escape(word)
    if chance < 0.06:
        return (
            f"[[{word}]]",
            f'<a rel="mw:WikiLink" href="./{shown}" title="{shown}" id="mw{rng.randrange(9999)}">{shown}</a>',
        )
    if chance < 0.09:
        return (
            f"[[Some {word}|{word}]]",
            f'<a rel="mw:WikiLink" href="./Some_{shown}" title="Some {shown}">{shown}</a>',
        )
    if chance < 0.1:
        return f"''{word}''", f"<i>{shown}</i>"
    if word.endswith(".") and chance < 0.6:
        number = rng.randrange(10**5)
        name = f' name="r{number}"' if chance < 0.3 else ""
        cite = CITE.format(name=name, number=number, word=word, day=rng.randint(1, 28), year=rng.randrange(25))
        data = '{"name":"ref","attrs":{},"body":{"id":"mw-reference-text-cite_note-1"}}'
        return word + cite, (
            f"{shown}<sup about='#mwt{number}' class='mw-ref reference' typeof='mw:Extension/ref' data-mw='{data}'>"
            f"<a href='./A#cite_note-{number}'><span class='mw-reflink-text'>[{number}]</span></a></sup>"
        )
    return word, shown


def make_pages(articles: list[tuple[str, str]], seed: int = 0) -> list[Source]:
    """Articles with redirects, templates and categories between them."""
    rng = random.Random(seed)
    pages = []
    for number, (title, text) in enumerate(articles):
        wiki, html = with_markup(text, title, rng)
        first = number * 10 + 1
        pages.append(Source(title, wiki, first, html=html, item=f"Q{number}"))
        if number % 2:
            pages.append(Source(f"{title} too", f"#REDIRECT [[{title}]]", first + 1, redirect=title))
            pages.append(Source(f"Template:{title}", "<includeonly>{{{1|}}}</includeonly>" * 20, first + 2, 10))
        pages.append(Source(f"Category:{title}", f"Things. {CLOSING}", first + 3, 14))
    return pages


def read_corpus(file: Path | None) -> list[tuple[str, str]]:
    if file is None:
        sample = Corpus.read("sample", ["en"])
        return [(f"{id} {time}", sample.text(id, "en")) for time in range(60) for id in sample.ids()]
    rows = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
    return [(str(row.get("title", row["id"])), row["text"]) for row in rows]


def bare(path: Path) -> None:
    """Decompress the file, and do nothing with it."""
    if path.suffix == ".parquet":
        lazy = pl.scan_parquet(path)
        for start in range(0, lazy.select(pl.len()).collect().item(), 500):
            lazy.slice(start, 500).collect()
        return
    with (bz2.open if path.suffix == ".bz2" else gzip.open)(path) as file:
        while file.read(1 << 20):
            pass


def read(path: Path, every: int) -> int:
    """Read all pages, and clean every so many articles; 0 is none."""
    articles = 0
    for page, _ in read_pages(path, "en"):
        if page.kind == "article":
            articles += 1
            if every and articles % every == 0:
                page.clean()
    return articles


def cpu_seconds(call: Callable[[], object]) -> float:
    """Seconds of this process, whatever else the machine does."""
    start = time.process_time()
    call()
    return time.process_time() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", type=Path, help="a file of lines with text and title")
    parser.add_argument("--rounds", type=int, default=3)
    chosen = parser.parse_args()
    articles = read_corpus(chosen.corpus)
    pages = make_pages(articles)
    main_pages = [page for page in pages if page.namespace == 0 and not page.redirect]
    plain = [Source(title, text, number) for number, (title, text) in enumerate(articles)]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        dumps = {
            "XML, bz2": write_xml(folder / "enwiki-pages-articles.xml.bz2", "en", pages),
            "XML, bz2, multistream": write_xml(folder / "enwiki-multistream.xml.bz2", "en", pages, per_stream=100),
            "Enterprise HTML, tar.gz": write_enterprise(folder / "enwiki.json.tar.gz", "en", main_pages, files=3),
            "CirrusSearch, json.gz": write_cirrus(folder / "enwiki-content.json.gz", "en", main_pages),
            "Parquet": write_parquet(folder / "train.parquet", "en", plain),
        }
        print("| dump | MB | bare, MB/s | pages only | 10 % cleaned | all cleaned |\n|---|---|---|---|---|---|")
        for label, path in dumps.items():
            calls: dict[str, Callable[[], object]] = {"bare": partial(bare, path)}
            calls |= {str(every): partial(read, path, every) for every in (0, 10, 1)}
            taken = [{name: cpu_seconds(call) for name, call in calls.items()} for _ in range(chosen.rounds)]
            size = path.stat().st_size / 1e6
            speed = {name: size / median(one[name] for one in taken) for name in calls}
            ratio = {name: median(one["bare"] / one[name] for one in taken) for name in calls}
            cells = [f"{ratio[name]:.2f} × ({speed[name]:.2f} MB/s)" for name in calls if name != "bare"]
            print(f"| {label} | {size:.1f} | {speed['bare']:.2f} | {' | '.join(cells)} |", flush=True)
    print("target: at least 0.3 × bare decompression with cleaning, on one core")


if __name__ == "__main__":
    main()
