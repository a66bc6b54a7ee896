"""The corpus from Wikipedia's dumps: which articles, by hand, and downloads that break off."""

from __future__ import annotations

import bz2
import json
import threading
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

import wikipedia
from fairspan.corpus.corpus import Corpus
from tests.builders.commands import Said
from tests.builders.tiny import tiny_tokenizer
from tests.papers.conftest import Script, refused

# Words by topic, in Italian and in English; tokens are words. Of 100 to 200 in English, with 50 to
# 150 % of these in Italian.
WORDS = {
    7: (150, 150),
    5: (100, 100),
    11: (200, 200),
    12: (75, 150),  # half of the English
    13: (74, 150),
    14: (225, 150),  # half more
    15: (226, 150),
    16: (100, 99),
    17: (250, 201),
    18: (150, None),
    19: (None, 150),
}
KEPT = [5, 7, 11, 12, 14]


def page(language: str, item: int, words: int, **more: Any) -> dict[str, Any]:
    text = " ".join(f"w{(item + place) % 50}" for place in range(words))
    fields = {"wiki": f"{language}wiki", "namespace": 0, "title": f"Topic {item} <&> ü"}
    return {**fields, "text": text, "version": 10 * item, "wikibase_item": f"Q{item}", **more}


def pages(language: str) -> list[dict[str, Any]]:
    """The topics, and pages that are no articles on a topic; one topic has two pages."""
    place = ["it", "en"].index(language)
    topics = [page(language, item, words[place]) for item, words in WORDS.items() if words[place]]
    return [
        page(language, 20, 150, template=["Template:Disambiguation"]),
        page(language, 21, 150, category=["Disambiguation pages"]),
        page(language, 22, 150, namespace=10),
        page(language, 23, 150, wikibase_item=None),
        *topics,
        page(language, 7, 120, title="The second on this topic"),
    ]


def packed(rows: list[dict[str, Any]]) -> bytes:
    lines = [line for row in rows for line in ({"index": {"_id": 1}}, row)]
    return bz2.compress("".join(f"{json.dumps(line)}\n" for line in lines).encode())


def dumps() -> dict[str, bytes]:
    """Parts by their paths on Wikimedia's server, two of each language."""
    parts = {}
    for language in ("it", "en"):
        rows = pages(language)
        for number, some in enumerate((rows[:9], rows[9:])):
            name = f"{language}wiki_content-20261115-{number:05}.json.bz2"
            parts[f"index_name={language}wiki_content/{name}"] = packed(some)
    return parts


class Server(ThreadingHTTPServer):
    """Wikimedia's server in small; `most` are the bytes after which it hangs up."""

    def __init__(self, files: Mapping[str, bytes]) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.files = dict(files)
        self.most: int | None = None
        self.takes_ranges = True
        self.asked: list[tuple[str, int]] = []

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/20261115"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        path = unquote(self.path).removeprefix("/20261115/")
        start = int(self.headers["Range"].removeprefix("bytes=").removesuffix("-"))
        if path.endswith("/"):
            names = [name.removeprefix(path) for name in self.server.files if name.startswith(path)]
            list_of_files = "".join(f'<a href="{name}">{name}</a>\n' for name in ["../", *names])
            self.send(200 if names else 404, list_of_files.encode())
            return
        self.server.asked.append((path.rpartition("/")[2][: len("enwiki")], start))
        content = self.server.files[path]
        if not self.server.takes_ranges:
            self.send(200, content)
        elif start < len(content):
            self.send(206, content[start:], self.server.most)
        else:
            self.send(416, b"nothing")

    def send(self, status: int, content: bytes, most: int | None = None) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content[:most])

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing on stderr."""


@pytest.fixture
def server() -> Iterator[Server]:
    with Server(dumps()) as served:
        thread = threading.Thread(target=served.serve_forever, args=[0.01])
        thread.start()
        yield served
        served.shutdown()
        thread.join()


class Scene:
    """The script, with the options of every command: a tokenizer whose tokens are words."""

    def __init__(self, script: Script, folder: Path, server: Server) -> None:
        self.script, self.server, self.dumps = script, server, folder / "dumps"
        self.out, self.model = folder / "wiki", folder / "model"
        tiny_tokenizer().save_pretrained(self.model)
        self.options = {"--languages": "it,en", "--model": self.model, "--min-tokens": "100"}
        self.options |= {"--max-tokens": "200", "--length-ratio": "0.5"}

    def build(
        self, source: str | Path | None = None, out: Path | None = None, **options: str
    ) -> Said:
        """Run the script, on the server unless told otherwise."""
        changed = {f"--{name.replace('_', '-')}": value for name, value in options.items()}
        typed = [word for pair in {**self.options, **changed}.items() for word in pair]
        return self.script(wikipedia, source or self.server.address, out or self.out, *typed)

    def make_dumps(self) -> Path:
        """Downloaded dumps, one of them in the form of earlier years, beside other files."""
        self.dumps.mkdir()
        for path, content in dumps().items():
            if path.startswith("index_name=it"):
                (self.dumps / path.rpartition("/")[2]).write_bytes(content)
        for name, rows in (("content", pages("en")), ("general", [])):
            file = self.dumps / f"enwiki-20251229-cirrussearch-{name}.json.bz2"
            file.write_bytes(packed(rows))
        return self.dumps

    def rows(self, language: str) -> list[dict[str, Any]]:
        lines = (self.out / f"{language}.jsonl").read_text(encoding="utf-8").splitlines()
        return [json.loads(line) for line in lines]

    def assert_complete(self) -> None:
        """The server's corpus is as the folder's, which a test recomputes."""
        assert self.build().ok
        for place, language in enumerate(("it", "en")):
            assert self.rows(language) == [article(language, item, place) for item in KEPT]


def article(language: str, item: int, place: int) -> dict[str, Any]:
    """A line of the corpus."""
    count = WORDS[item][place]
    return {
        "id": f"Q{item}",
        "title": f"Topic {item} <&> ü",
        "text": page(language, item, count or 0)["text"],
        "url": f"https://{language}.wikipedia.org/wiki/Topic_{item}_%3C%26%3E_%C3%BC",
        "revision": 10 * item,
        "tokens": count,
    }


@pytest.fixture
def scene(script: Script, tmp_path: Path, server: Server) -> Scene:
    return Scene(script, tmp_path, server)


def test_topics_of_similar_length_are_kept(scene: Scene) -> None:
    out = scene.out
    said = scene.build(scene.make_dumps()).ok
    assert f"{out}: 5 articles in each of it, en." in said.out
    assert "CC BY-SA" in said.out
    assert sorted(path.name for path in out.iterdir()) == ["corpus.json", "en.jsonl", "it.jsonl"]
    for place, language in enumerate(("it", "en")):
        assert scene.rows(language) == [article(language, item, place) for item in KEPT]
    corpus = Corpus.read(out)
    assert (corpus.ids(), corpus.notes) == (tuple(f"Q{item}" for item in KEPT), ())
    facts = json.loads((out / "corpus.json").read_text(encoding="utf-8"))
    assert facts["articles"] == 5
    assert "CC BY-SA" in facts["licence"]


def test_dumps_are_downloaded_once(scene: Scene) -> None:
    scene.assert_complete()
    assert scene.server.asked == [("itwiki", 0)] * 2 + [("enwiki", 0)] * 2
    scene.build()
    assert len(scene.server.asked) == 4, "a finished corpus is not built again"


@pytest.mark.parametrize("takes_ranges", [True, False])
def test_an_interrupted_download_continues(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, takes_ranges: bool
) -> None:
    """It breaks off again and again: after five tries that is an error, and the next command goes
    on from there, without what is finished, unless the server sends all from the first byte."""
    server = scene.server
    monkeypatch.setattr(wikipedia, "BLOCK", 10)
    server.most = 50
    assert len(next(iter(server.files.values()))) > 6 * server.most, "the premise"
    said = scene.build(f"{server.address}/")
    refused(said, "was cut off")
    assert "Run the same command again." in said.last
    assert server.asked == [("itwiki", 50 * place) for place in range(5)]
    server.most, server.takes_ranges = None, takes_ranges
    scene.assert_complete()
    assert server.asked[5:] == [("itwiki", 250), ("itwiki", 0), *[("enwiki", 0)] * 2]


def test_a_command_that_was_killed_at_any_moment(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first rename of each file fails."""
    rename = Path.replace
    targets = set()

    def killed(self: Path, target: Path) -> Path:
        if target not in targets:
            targets.add(target)
            raise KeyboardInterrupt
        return rename(self, target)

    monkeypatch.setattr(Path, "replace", killed)
    # Four downloads, four files of what was read, two languages and corpus.json.
    for _ in range(11):
        said = scene.build()
        assert (said.code, said.out) == (130, "")
    scene.assert_complete()


def test_a_damaged_part_is_one_line_and_downloaded_again(scene: Scene) -> None:
    files = scene.server.files
    name = [*files][1]
    whole = files[name]
    files[name] = whole[:-20]
    refused(scene.build(), f"{name.rpartition('/')[2]} is damaged or cut off. Download ")
    files[name] = whole
    scene.assert_complete()
    assert scene.server.asked == [("itwiki", 0)] * 3 + [("enwiki", 0)] * 2


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"languages": "it,en,it"}, "languages names 'it' twice"),
        ({"languages": "it,zh-yue"}, "there is no CirrusSearch dump of 'zh-yue' in "),
        ({"max_tokens": "99"}, "max_tokens must be a whole number of at least 100, got 99"),
        ({"length_ratio": "1"}, "length_ratio must be above 0 and below 1, got 1"),
        ({"max_tokens": "101", "min_tokens": "101"}, "no topic has articles of these lengths"),
        ({"model": "nowhere/at-all"}, "the tokenizer of nowhere/at-all cannot be loaded: "),
    ],
)
def test_bad_input_is_one_line(scene: Scene, options: dict[str, str], reason: str) -> None:
    refused(scene.build(scene.make_dumps(), **options), reason)


def test_places_that_cannot_be_read_are_one_line(scene: Scene, tmp_path: Path) -> None:
    refused(scene.build(tmp_path / "nowhere"), "there is no CirrusSearch dump of 'it' in ")
    address = f"{scene.server.address}/x"
    refused(scene.build(address), "/ cannot be read: the server answered 404")
    folder = scene.make_dumps()
    (tmp_path / "file").touch()
    refused(scene.build(folder, tmp_path / "file"), "file cannot be written")
    for content, reason in (
        (packed([page("de", 7, 150)]), "is a dump of dewiki, not of itwiki."),
        (bz2.compress(b"<mediawiki>\n"), "is no CirrusSearch dump: not JSON"),
        (packed([page("it", 99, 150)]), "no topic has articles of these lengths in it, en."),
    ):
        for path in folder.glob("itwiki*"):
            path.write_bytes(content)
        refused(scene.build(folder, tmp_path / reason[:9]), reason)
