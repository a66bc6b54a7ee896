"""Every command of docs/papers.md runs as it stands there, but for its sizes, and gives the tables
and figures that the page names."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

import fairspan
from tests.commands import Run
from tests.papers.conftest import Script, script  # noqa: F401
from tests.test_corpus import write
from tests.test_docs import ROOT, accept, commands_on, python_blocks
from tests.verbs import article

PAGE = ROOT / "docs" / "papers.md"
TEXT = PAGE.read_text(encoding="utf-8")
LANGUAGES = ("en", "zh", "de", "it", "ko", "hi")
# The papers' sizes, and those of the test; all else is typed as it stands on the page.
SMALLER = {
    "audit": {
        "--sizes": "2,3",
        "--documents": "2:4,3:6",
        "--sets": "2",
        "--min-tokens": "5",
        "--max-tokens": "80",
    },
    "collapse": {"--documents": "8"},
    "lc_theory": {"--layers": "last"},
    "lc_map": {"--lengths": "10,40"},
}
# Those that need what mteb downloads; tests/papers has small tasks for them.
DOWNLOADING = ("lc_mteb", "lc_grid")


class Command(NamedTuple):
    """What is typed after `fairspan`, or the name of a script and what is typed after it; and the
    tables, figures and files that are named after an arrow."""

    words: list[str]
    names: list[str]

    @property
    def small(self) -> list[str]:
        smaller = SMALLER.get(self.words[0], {})
        places = zip(["", *self.words], self.words, strict=False)
        return [smaller.get(before, word) for before, word in places]


def named_in(rest: str) -> list[str]:
    """What stands after the first arrow, up to the end of its sentence."""
    arrow = re.search(r"^→ (.*?)\.(?:\s|$)", rest, flags=re.MULTILINE | re.DOTALL)
    return re.findall(r"`([\w.-]+)`", arrow[1]) if arrow else []


def commands() -> Iterator[Command]:
    """Those of the page."""
    after = re.split(r"^ {4}fairspan ", TEXT, flags=re.MULTILINE)[1:]
    for typed, rest in zip(commands_on(PAGE), after, strict=True):
        yield Command(typed, named_in(rest))


def scripts() -> Iterator[Command]:
    """Those of the page that need no downloads."""
    for name, typed, rest in re.findall(
        r"^ {4}python papers/(\w+)\.py (.*)\n((?:(?! {4}(?:python|fairspan) ).*\n)*)",
        TEXT,
        flags=re.MULTILINE,
    ):
        if name not in DOWNLOADING:
            yield Command([name, *shlex.split(typed)], named_in(rest))


COMMANDS = list(commands())
SCRIPTS = list(scripts())
MEASURED = [command for command in COMMANDS if "--out" in command.words]


@pytest.fixture
def data(save_tiny: Callable[..., Path], tmp_path: Path) -> Path:
    """A folder with all that the page leaves to the reader, under the names that it has there."""
    (tmp_path / "MODEL").symlink_to(save_tiny("bert", "mean"))
    (tmp_path / "wiki").mkdir()
    for shift, language in enumerate(LANGUAGES):
        rows = [{"id": f"a{n}", "text": article(n + 50 * shift, 4)} for n in range(12)]
        write(tmp_path / "wiki" / f"{language}.jsonl", rows)
    texts = [article(n, 8 + 16 * (n % 2)) for n in range(70)]
    labelled = [{"text": text, "label": n % 3 % 2} for n, text in enumerate(texts)]
    (tmp_path / "nfcorpus").mkdir()
    for name in ("imdb.jsonl", "train.jsonl", "nfcorpus/corpus.jsonl"):
        write(tmp_path / name, labelled)
    write(tmp_path / "page.jsonl", [{"text": text} for text in texts[:3]])
    return tmp_path


def test_every_command_is_accepted_and_every_run_says_what_it_shows() -> None:
    for command in COMMANDS:
        accept(command.small)
        assert bool(command.names) == (command in MEASURED), command.words


def test_every_table_and_figure_is_on_the_page() -> None:
    """Those of IRF and of LC, each once in the overview or said to have no data."""
    overview = TEXT[: TEXT.index("**Every table")]
    rows = re.findall(r"^\|(.*)\|(.*)\| *\|(.*)\|(.*)\|$", overview, flags=re.MULTILINE)
    for column, tables, figures, drawn in ((0, 19, 18, "Figures 1, 7"), (2, 6, 15, "Figure 4")):
        shown: dict[str, set[int]] = {"Table": set(), "Figure": set()}
        listed = "; ".join([drawn, *(row[column] for row in rows)])
        for kind, numbers in re.findall(r"(Table|Figure)s? ([\d–, abc]+)", listed):
            for first, last in re.findall(r"(\d+)[abc]?(?:–(\d+))?", numbers):
                shown[kind].update(range(int(first), int(last or first) + 1))
        assert shown == {"Table": {*range(1, tables + 1)}, "Figure": {*range(1, figures + 1)}}


# Each measures, draws sets and prints all tables: two to ten seconds. Tasks of mteb would have to
# be downloaded.
@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [command for command in MEASURED if not command.words[2].startswith("mteb:")],
    ids=lambda command: command.words[-1],
)
def test_a_command_gives_what_is_named(command: Command, data: Path, run: Run) -> None:
    assert run(*command.small).ok
    view = fairspan.read_log(data / command.words[command.words.index("--out") + 1]).view
    shown = {part.name for part in (*view.tables(), *view.charts())}
    assert {*command.names} <= shown, sorted(shown)


def test_every_script_is_on_the_page() -> None:
    written = {file.stem for file in (ROOT / "papers").glob("lc_*.py")}
    assert {command.words[0] for command in SCRIPTS} == written - {*DOWNLOADING}


@pytest.mark.parametrize("command", SCRIPTS, ids=lambda command: command.words[0])
def test_a_script_writes_what_is_named(
    command: Command,
    data: Path,
    script: Script,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pytest.importorskip("sklearn")
    pytest.importorskip("matplotlib")
    monkeypatch.chdir(data)
    name, *typed = command.small
    assert script(import_module(name), *typed).ok
    folder = data / typed[typed.index("--out") + 1]
    assert command.names
    for file in command.names:
        assert (folder / file).stat().st_size > 100, file


def test_the_lines_that_write_imdb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the fields of mteb's dataset, as the classification reads them."""
    datasets = pytest.importorskip("datasets")
    from lc_classification import read_labelled

    def load(name: str, *, split: str) -> Any:
        assert name == "mteb/imdb"
        rows = [{"text": f"{split} {n}", "label": n, "label_text": str(n)} for n in range(2)]
        return datasets.Dataset.from_list(rows)

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(datasets, "load_dataset", load)
    for line in re.findall(r"^ {4}python -c '(.*)'$", TEXT, flags=re.MULTILINE):
        exec(line, {})
    for file, split in (("imdb.jsonl", "test"), ("train.jsonl", "train")):
        corpus, labels = read_labelled(tmp_path / file)
        assert [segment.text for segment in corpus.segments] == [f"{split} 0", f"{split} 1"]
        assert list(labels.values()) == ["0", "1"]


@pytest.mark.slow
def test_the_other_commands_run(data: Path, run: Run) -> None:
    log = fairspan.audit(
        str(data / "MODEL"), corpus=data / "wiki", sizes=[2], sets=2, progress=False
    )
    log.folder.rename(data / "irf-one-language")
    for command in COMMANDS:
        if command not in MEASURED:
            assert run(*command.small).ok
    shown = ["figures/representation-profiles.pdf", "tables/representation-coefficients.tex"]
    for name in (*shown, "page.png", "page.html"):
        assert (data / name).exists()


def test_the_authors_corpus_is_read(
    tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its splits, with the fields that the authors' code gives them."""

    def load(name: str, *, split: str) -> list[dict[str, Any]]:
        assert name == "impresso-project/wiki_comparable_corpus_en_de_hi_it_ko_zh"
        ids = [{"id": f"{n}{split}", "aligned_id": 7 + n} for n in range(3)]
        return [{**row, "language": split, "text": f"{row} {split}"} for row in ids]

    monkeypatch.setitem(sys.modules, "datasets", SimpleNamespace(load_dataset=load))
    exec(compile(python_blocks(PAGE), str(PAGE), "exec"), {})
    corpus = fairspan.Corpus.read(tmp_path / "wiki")
    assert {*corpus.languages} == {*LANGUAGES}
    assert corpus.ids() == ("7", "8", "9")
