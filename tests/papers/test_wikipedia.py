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
from tests.builders.tiny import tiny_tokenizer
from tests.papers.conftest import Script, written_commands

LENGTHS = ["--min-tokens", "100", "--max-tokens", "200", "--length-ratio", "0.5"]
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
KEPT = ["Q5", "Q7", "Q11", "Q12", "Q14"]


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


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Downloaded dumps, one of them in the form of earlier years, beside other files."""
    place = tmp_path / "dumps"
    place.mkdir()
    for path, content in dumps().items():
        if path.startswith("index_name=it"):
            (place / path.rpartition("/")[2]).write_bytes(content)
    (place / "enwiki-20251229-cirrussearch-content.json.bz2").write_bytes(packed(pages("en")))
    (place / "enwiki-20251229-cirrussearch-general.json.bz2").write_bytes(packed([]))
    return place


@pytest.fixture
def typed(tmp_path: Path) -> list[str | Path]:
    """The options of every command: a tokenizer whose tokens are words."""
    tiny_tokenizer().save_pretrained(tmp_path / "model")
    return ["--languages", "it,en", "--model", tmp_path / "model", *LENGTHS]


def rows(out: Path, language: str) -> list[dict[str, Any]]:
    lines = (out / f"{language}.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def test_topics_of_similar_length_are_kept(
    script: Script, folder: Path, typed: list[str | Path], tmp_path: Path
) -> None:
    out = tmp_path / "wiki"
    said = script(wikipedia, folder, out, *typed).ok
    assert f"{out}: 5 articles in each of it, en." in said.out
    assert "CC BY-SA" in said.out
    assert sorted(path.name for path in out.iterdir()) == ["corpus.json", "en.jsonl", "it.jsonl"]
    for place, language in enumerate(("it", "en")):
        found = rows(out, language)
        assert [row["id"] for row in found] == KEPT
        assert [row["tokens"] for row in found] == [WORDS[int(id[1:])][place] for id in KEPT]
    assert rows(out, "en")[1] == {
        "id": "Q7",
        "title": "Topic 7 <&> ü",
        "text": page("en", 7, 150)["text"],
        "url": "https://en.wikipedia.org/wiki/Topic_7_%3C%26%3E_%C3%BC",
        "revision": 70,
        "tokens": 150,
    }
    corpus = Corpus.read(out)
    assert corpus.ids() == tuple(KEPT)
    assert corpus.notes == ()
    facts = json.loads((out / "corpus.json").read_text(encoding="utf-8"))
    assert facts["articles"] == 5
    assert "CC BY-SA" in facts["licence"]


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
        thread = threading.Thread(target=served.serve_forever)
        thread.start()
        yield served
        served.shutdown()
        thread.join()


@pytest.fixture
def expected(script: Script, folder: Path, typed: list[str | Path], tmp_path: Path) -> list[bytes]:
    """The corpus from the folder."""
    out = tmp_path / "expected"
    assert script(wikipedia, folder, out, *typed).ok
    return texts(out)


def texts(out: Path) -> list[bytes]:
    return [(out / f"{language}.jsonl").read_bytes() for language in ("it", "en")]


def test_dumps_are_downloaded_once(
    script: Script,
    server: Server,
    typed: list[str | Path],
    tmp_path: Path,
    expected: list[bytes],
) -> None:
    out = tmp_path / "wiki"
    assert script(wikipedia, server.address, out, *typed).ok
    assert texts(out) == expected
    assert server.asked == [("itwiki", 0)] * 2 + [("enwiki", 0)] * 2
    script(wikipedia, server.address, out, *typed)
    assert len(server.asked) == 4, "a finished corpus is not built again"


def test_an_interrupted_download_continues(
    script: Script,
    server: Server,
    typed: list[str | Path],
    tmp_path: Path,
    expected: list[bytes],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It breaks off again and again: after five tries that is an error, and the next command goes
    on from there, without what is finished."""
    out = tmp_path / "wiki"
    monkeypatch.setattr(wikipedia, "BLOCK", 10)
    server.most = 50
    assert len(next(iter(server.files.values()))) > 6 * server.most, "the premise"
    said = script(wikipedia, f"{server.address}/", out, *typed)
    assert said.code == 2
    assert "was cut off" in said.last
    assert "Run the same command again." in said.last
    assert server.asked == [("itwiki", 50 * place) for place in range(5)]
    server.most = None
    assert script(wikipedia, server.address, out, *typed).ok
    assert texts(out) == expected
    assert server.asked[5:] == [("itwiki", 250), ("itwiki", 0), *[("enwiki", 0)] * 2]


def test_a_server_that_sends_all_from_the_first_byte(
    script: Script,
    server: Server,
    typed: list[str | Path],
    tmp_path: Path,
    expected: list[bytes],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(wikipedia, "BLOCK", 10)
    server.most = 50
    out = tmp_path / "wiki"
    assert script(wikipedia, server.address, out, *typed).code == 2
    server.takes_ranges = False
    assert script(wikipedia, server.address, out, *typed).ok
    assert texts(out) == expected


def test_a_command_that_was_killed_at_any_moment(
    script: Script,
    server: Server,
    typed: list[str | Path],
    tmp_path: Path,
    expected: list[bytes],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The first rename of each file fails."""
    out = tmp_path / "wiki"
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
        said = script(wikipedia, server.address, out, *typed)
        assert (said.code, said.out) == (130, "")
    assert script(wikipedia, server.address, out, *typed).ok
    assert texts(out) == expected


def test_a_damaged_part_is_one_line_and_downloaded_again(
    script: Script, server: Server, typed: list[str | Path], tmp_path: Path, expected: list[bytes]
) -> None:
    out = tmp_path / "wiki"
    name = [*server.files][1]
    whole = server.files[name]
    server.files[name] = whole[:-20]
    said = script(wikipedia, server.address, out, *typed)
    assert said.code == 2
    assert f"wikipedia.py: {name.rpartition('/')[2]} is damaged or cut off. Download " in said.last
    server.files[name] = whole
    assert script(wikipedia, server.address, out, *typed).ok
    assert texts(out) == expected
    assert server.asked == [("itwiki", 0)] * 3 + [("enwiki", 0)] * 2


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        (["--languages", "it,en,it"], "languages names 'it' twice"),
        (["--languages", "it,zh-yue"], "there is no CirrusSearch dump of 'zh-yue' in "),
        (["--min-tokens", "0"], "min_tokens must be a whole number of at least 1, got 0"),
        (["--max-tokens", "99"], "max_tokens must be a whole number of at least 100, got 99"),
        (["--length-ratio", "1"], "length_ratio must be above 0 and below 1, got 1"),
        (["--max-tokens", "101", "--min-tokens", "101"], "no topic has articles of these lengths"),
        (["--model", "nowhere/at-all"], "the tokenizer of nowhere/at-all cannot be loaded: "),
        (["--limit", "3"], "Unknown option"),
    ],
)
def test_bad_input_is_one_line(
    script: Script,
    folder: Path,
    typed: list[str | Path],
    tmp_path: Path,
    more: list[str],
    reason: str,
) -> None:
    """Each takes the place of an option of a command that works."""
    options = dict(zip(typed[::2], typed[1::2], strict=True))
    options |= dict(zip(more[::2], more[1::2], strict=True))
    words = [word for option in options.items() for word in option]
    fails(script, [folder, tmp_path / "wiki", *words], reason)


def fails(script: Script, command: list[Any], reason: str) -> None:
    said = script(wikipedia, *command)
    assert (said.code, said.out) == (2, "")
    assert said.last.startswith("wikipedia.py: ")
    assert reason in said.last
    assert said.err.count("wikipedia.py: ") == 1


def test_places_that_cannot_be_read_are_one_line(
    script: Script, server: Server, folder: Path, typed: list[str | Path], tmp_path: Path
) -> None:
    out = tmp_path / "wiki"
    fails(script, [tmp_path / "nowhere", out, *typed], "there is no CirrusSearch dump of 'it' in ")
    fails(script, [f"{server.address}/x", out, *typed], "/ cannot be read: the server answered 404")
    other = packed([page("de", 7, 150)])
    for content, reason in (
        (other, "is a dump of dewiki, not of itwiki."),
        (bz2.compress(b"<mediawiki>\n"), "is no CirrusSearch dump: not JSON"),
        (packed([page("it", 99, 150)]), "no topic has articles of these lengths in it, en."),
    ):
        for path in folder.glob("itwiki*"):
            path.write_bytes(content)
        fails(script, [folder, tmp_path / reason[:9], *typed], reason)
    (tmp_path / "file").touch()
    fails(script, [folder, tmp_path / "file", *typed], "file cannot be written")


def test_written_commands_are_accepted() -> None:
    commands = written_commands("wikipedia.py")
    assert commands
    for command in commands:
        wikipedia.app.parse_args(command)
