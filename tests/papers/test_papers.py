"""Every command of docs/papers.md runs as it stands there, but for its sizes, and gives the tables
and figures that the page names."""

from __future__ import annotations

import json
import re
import runpy
import shlex
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

import fairspan
from tests.builders.commands import Run
from tests.builders.tiny import words
from tests.builders.verbs import article
from tests.corpus.test_corpus import write
from tests.papers.conftest import Script, script  # noqa: F401
from tests.project.test_docs import ROOT, commands_on

PAGE = ROOT / "docs" / "papers.md"
PAPERS = sorted((ROOT / "papers").glob("*.py"))
TEXT = PAGE.read_text(encoding="utf-8")
LANGUAGES = ("en", "zh", "de", "it", "ko", "hi")
# The papers' sizes, and those of the test; all else is typed as it stands on the page.
SMALLER: dict[str, dict[str, Any]] = {
    "audit": {"--sizes": {"3,4,5,6": "3", "3,4,5": "3"}, "--sets": "2"},
    "evaluate": {"--corpus": "long"},
    "collapse": {"--documents": "8"},
    "lc_theory": {"--layers": "last"},
    "lc_map": {"--lengths": "10,40"},
}
# Those that need what mteb downloads; tests/papers has small tasks for them.
DOWNLOADING = ("lc_mteb", "lc_grid", "wikipedia", "irf_data")
# Those that read runs of the commands before them, with what is typed after the page's words.
OF_RUNS = {"irf_tables": "", "irf_sweep": "--sets 2 --rounds 1 --baskets 8,16 --layers 3"}


# What a script does not compute twice.
KEPT = {"lc_classification": "encoded", "lc_theory": "spectra"}


class Command(NamedTuple):
    """What is typed after `fairspan`, or the name of a script and what is typed after it; and the
    tables, figures and files that are named after an arrow."""

    words: list[str]
    names: list[str]

    @property
    def small(self) -> list[str]:
        smaller = SMALLER.get(self.words[0], {})
        words = []
        for before, word in zip(["", *self.words], self.words, strict=False):
            other = smaller.get(before, word)
            words.append(other.get(word, word) if isinstance(other, dict) else other)
        return words


def named_in(rest: str) -> list[str]:
    """What stands after the first arrow, up to the end of its sentence."""
    arrow = re.search(r"^→ (.*?)\.(?:\s|$)", rest, flags=re.MULTILINE | re.DOTALL)
    return re.findall(r"`([\w.-]+)`", arrow[1]) if arrow else []


def commands() -> Iterator[Command]:
    """Those of the page."""
    after = re.split(r"^ {4}fairspan ", TEXT, flags=re.MULTILINE)[1:]
    for typed, rest in zip(commands_on(PAGE), after, strict=True):
        yield Command(typed, named_in(rest.partition("\n    python ")[0]))


def scripts() -> Iterator[Command]:
    """Those of the page that need no downloads."""
    for name, typed, rest in re.findall(
        r"^ {4}python papers/(\w+)\.py (.*)\n((?:(?! {4}(?:python|fairspan) ).*\n)*)",
        TEXT,
        flags=re.MULTILINE,
    ):
        if name not in (*DOWNLOADING, *OF_RUNS):
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
    (tmp_path / "long").mkdir()
    sentences = [[words(9, seed=100 * n + place) for place in range(16)] for n in range(12)]
    rows = [{"id": f"a{n}", "text": ". ".join(own)} for n, own in enumerate(sentences)]
    write(tmp_path / "long" / "en.jsonl", rows)
    texts = [article(n, 8 + 16 * (n % 2)) for n in range(70)]
    labelled = [{"text": text, "label": n % 3 % 2} for n, text in enumerate(texts)]
    (tmp_path / "nfcorpus").mkdir()
    for name in ("imdb.jsonl", "train.jsonl", "nfcorpus/corpus.jsonl"):
        write(tmp_path / name, labelled)
    write(tmp_path / "page.jsonl", [{"text": text} for text in texts[:3]])
    return tmp_path


def test_every_run_says_what_it_shows() -> None:
    for command in COMMANDS:
        assert bool(command.names) == (command in MEASURED), command.words


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
    written = {file.stem for file in PAPERS if file.stem.startswith("lc_")}
    assert {command.words[0] for command in SCRIPTS} == written - {*DOWNLOADING}


@pytest.mark.filterwarnings("ignore:Cyclopts application invoked without tokens")
@pytest.mark.parametrize("name", [file.stem for file in PAPERS if "__doc__)" in file.read_text()])
def test_commands_in_docstrings_and_on_the_page_are_accepted(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """And the file runs as a program, which refuses others in one line."""
    start = f"    python papers/{name}.py "
    module = import_module(name)
    lines = f"{module.__doc__}\n{TEXT}".splitlines()
    commands = [line.removeprefix(start) for line in lines if line.startswith(start)]
    assert commands
    for command in commands:
        module.app.parse_args(shlex.split(command))
    module.app(["--help"], exit_on_error=False, result_action="return_value")
    assert "--help" in capsys.readouterr().out
    monkeypatch.setattr(sys, "argv", [f"{name}.py", "--nonsense"])
    with pytest.raises(SystemExit):
        runpy.run_path(str(ROOT / "papers" / f"{name}.py"), run_name="__main__")
    assert capsys.readouterr().err.startswith(f"{name}.py: Unknown option")


@pytest.mark.slow
@pytest.mark.parametrize("command", SCRIPTS, ids=lambda command: command.words[0])
def test_a_script_writes_what_is_named(
    command: Command,
    data: Path,
    script: Script,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pytest.importorskip("sklearn")
    pytest.importorskip("altair")
    monkeypatch.chdir(data)
    name, *typed = command.small
    assert script(import_module(name), *typed).ok
    folder = data / typed[typed.index("--out") + 1]
    assert command.names
    for file in command.names:
        assert (folder / file).stat().st_size > 100, file
    if name in KEPT:
        monkeypatch.setattr(import_module(name), KEPT[name], lambda *_, **__: pytest.fail("again"))
        assert script(import_module(name), *typed).ok


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
    shown = ["figures/representation-profiles.pdf", "tables/representation-coefficients.csv"]
    for name in (*shown, "page.png", "page.html"):
        assert (data / name).exists()


@pytest.mark.slow
def test_the_scripts_of_irf_write_what_is_named(
    data: Path,
    run: Run,
    script: Script,  # noqa: F811
) -> None:
    """On the runs of the commands before them."""
    for command in MEASURED:
        if command.words[0] == "audit":
            assert run(*command.small).ok
    for name, smaller in OF_RUNS.items():
        [(typed, rest)] = re.findall(rf"^ {{4}}python papers/{name}.py (.*?)$(.*)", TEXT, FLAGS)
        typed_words = [*shlex.split(typed), *shlex.split(smaller)]
        assert script(import_module(name), *typed_words).ok
        names = named_in(rest)
        assert names
        for file in names:
            assert (data / typed_words[typed_words.index("--out") + 1] / file).stat().st_size, file


FLAGS = re.MULTILINE | re.DOTALL
PAGE_OF_A_NEWSPAPER = {
    "r": [
        {"pOf": "i1", "p": [{"l": [{"t": [{"tx": "In"}, {"tx": "Hei-", "hy": True}]}]}]},
        {"pOf": "i2", "p": [{"l": [{"t": [{"tx": "Ein"}, {"tx": "anderer"}]}]}]},
        {"pOf": "i1", "p": [{"l": [{"t": [{"tx": "mat", "nf": "Heimat"}]}]}]},
    ]
}


def test_the_authors_data_are_read(
    tmp_path: Path,
    script: Script,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Splits with the fields that the authors' code gives them, and a page as their file is.

    Of five topics, one is too short, one too long in Hindi, and one has no Italian article.
    """
    lengths = {7: 1000, 8: 2000, 9: 999, 10: 1500, 11: 1500}

    def load(name: str, *, split: str) -> list[dict[str, Any]]:
        assert name == "impresso-project/wiki_comparable_corpus_en_de_hi_it_ko_zh"
        rows = []
        for topic, length in lengths.items():
            words = {(10, "hi"): 2551, (8, "hi"): 3400, (8, "de"): 600}.get((topic, split), length)
            row = {"id": f"{topic}{split}", "aligned_id": topic, "language": split}
            rows.append({**row, "text": f"{split} " * words})
        return [row for row in rows if (row["aligned_id"], split) != (11, "it")]

    def tokenizer(name: str) -> SimpleNamespace:
        assert name == "FacebookAI/xlm-roberta-base"
        return SimpleNamespace(tokenize=str.split)

    automatic = SimpleNamespace(from_pretrained=tokenizer)
    monkeypatch.setitem(sys.modules, "datasets", SimpleNamespace(load_dataset=load))
    monkeypatch.setitem(sys.modules, "transformers", SimpleNamespace(AutoTokenizer=automatic))
    page = json.dumps(PAGE_OF_A_NEWSPAPER)
    (tmp_path / "NZG-1881-10-01-a-p0001.json").write_text(page, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    irf_data = import_module("irf_data")
    for typed in re.findall(r"^ {4}python papers/irf_data\.py (.*)$", TEXT, flags=re.MULTILINE):
        assert script(irf_data, *shlex.split(typed)).ok
    corpus = fairspan.Corpus.read(tmp_path / "wiki")
    assert {*corpus.languages} == {*LANGUAGES}
    assert corpus.ids() == ("7", "8")
    lines = (tmp_path / "page.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line) for line in lines] == [{"text": "In Heimat"}, {"text": "Ein anderer"}]
