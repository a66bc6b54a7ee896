"""What the commands have in common: folders, mistakes, interrupts and help."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from sentence_transformers import SentenceTransformer

from fairspan.cli import app
from fairspan.studies.logs import read_log
from tests.builders.commands import Run, example_lines, header_of
from tests.builders.verbs import VERBS, Verb

EVERY_VERB = pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.name)


def typed(verb: Verb, place: Path, **changes: Any) -> list[str]:
    words = verb.typed(corpus=place / "corpus", **changes)
    return [str(place / "model") if word == "model" else word for word in words]


def test_an_interrupt_is_one_line(
    run: Run, place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(*args: Any, **options: Any) -> Any:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(SentenceTransformer, "forward", stopped)
        done = run(*typed(VERBS[0], place, out="here"))
    assert (done.code, done.out) == (130, "")
    assert "interrupted. What was computed is kept" in done.last
    assert "Traceback" not in done.err
    assert header_of(tmp_path / "here")["status"] == "interrupted"


HELP = """
import sys
from fairspan.cli import main
for words in sys.argv[1:]:
    sys.argv = ["fairspan", *words.split()]
    try:
        main()
    except SystemExit as end:
        assert not end.code, words
    heavy = {"torch", "transformers", "polars", "scipy", "matplotlib", "altair", "rich.progress"}
    assert not heavy & set(sys.modules), (words, heavy & set(sys.modules))
"""


# Mistakes. The last option counts, so that each is added to a command that works.


@pytest.mark.parametrize(
    ("verb", "options", "said"),
    [
        (0, "--treatments paper+layers=9", "layers=9 asks for more than the model's 4 layers"),
        (1, "--corpus empty", "empty"),
        (2, "--max-seq-length 99999", "max_seq_length=99999 is more than the 600 tokens that "),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_two(
    run: Run, verb: int, place: Path, options: str, said: str
) -> None:
    Path("empty").mkdir()
    run(*typed(VERBS[verb], place), *options.split()).is_one_line(said)


@pytest.mark.parametrize("options", ["--margin many", "--margin", "--nonsense", "a b c"])
def test_what_cannot_be_parsed_is_exit_code_two(run: Run, options: str) -> None:
    done = run("audit", *options.split())
    assert (done.code, done.out) == (2, "")
    assert "Traceback" not in done.err
    assert options.split()[0] in done.err or options.split()[-1] in done.err


# Help


COMMANDS = [name for name in app if not name.startswith("-")]


@pytest.mark.parametrize("verb", COMMANDS)
def test_every_example_in_help_can_be_parsed(run: Run, verb: str) -> None:
    """Against the command's own options; nothing is run."""
    done = run(verb, "--help")
    assert done.code == 0
    examples = example_lines(done.out)
    assert examples
    for line in examples:
        assert len(line) <= 76, "a terminal of 80 columns does not break it"
        # Raises on an option that is not there or a value of the wrong kind.
        command, _, rest = app.parse_args(shlex.split(line.partition("fairspan ")[2]))
        assert command.__name__ in COMMANDS
        assert not rest


@pytest.mark.parametrize("verb", COMMANDS)
def test_every_option_has_a_help_and_few_are_for_everyone(verb: str) -> None:
    """What few people need is under Advanced."""
    options = [option for option in app[verb].assemble_argument_collection() if option.names]
    assert all(option.parameter.help for option in options)
    shown = [option for option in options if option.parameter.group[0].name != "Advanced"]
    assert len(shown) <= 22, "two arguments and twenty options"


def test_help_loads_nothing_heavy() -> None:
    """What takes seconds to import, or draws what help does not show."""
    words = ["--version", "--help", *(f"{verb} --help" for verb in COMMANDS)]
    done = subprocess.run([sys.executable, "-c", HELP, *words], capture_output=True)
    assert done.returncode == 0, done.stderr


@EVERY_VERB
def test_a_run_tells_its_verdicts_and_where_the_log_lies(
    run: Run, verb: Verb, place: Path, tmp_path: Path
) -> None:
    """As forecast, which writes nothing; again, the log is the answer."""
    asked = typed(verb, place, out="here")
    forecast = json.loads(run(*asked, "--dry-run", "--json").ok.out)
    assert list(tmp_path.iterdir()) == []
    done = run(*asked).ok
    log = read_log(tmp_path / "here")
    assert log.status == "complete"
    assert sorted(file.name for file in tmp_path.iterdir()) == ["here", "vectors.db"]
    stages = forecast["stages"]
    assert [stage["name"] for stage in stages] == verb.asked["treatments"]
    tokens, texts = log.header.timings.tokens_computed, log.header.timings.texts_computed
    assert sum(stage["texts"] for stage in stages) == texts
    for name in {*verb.asked} & {*log.spec} - {"treatments"}:
        assert log.spec[name] == verb.asked[name], "as it was typed"
    assert forecast["tokens"] == sum(stage["tokens"] for stage in stages) == tokens
    assert f"\n{tokens:,} tokens to embed" in run(*asked, "--fresh", "--dry-run").out
    shown = " ".join(done.out.split())
    for card in log.view.cards:
        assert " ".join(f"{card.name} {card.badge}: {card.sentences[0]}".split()) in shown
    assert done.out.rstrip().endswith("log: here")
    assert "loading" not in done.out
    assert done.err.startswith("loading ")
    again = run(*asked, "--json").ok
    said = json.loads(again.out, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    assert said == {**json.loads(json.dumps(log.to_dict())), "folder": "here"}
    assert "vectors" not in again.err
