"""Audits and evaluations of a model behind an endpoint."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fairspan
from fairspan import Endpoint, UnsupportedModel
from fairspan.model.level import general_texts
from fairspan.studies.audit.options import AuditOptions
from fairspan.studies.audit.run import STUDY
from tests.builders.commands import Commands, Run, files_in
from tests.builders.embedding_server import Server, Words, embed, serving
from tests.builders.saying import said_by
from tests.builders.searches import write_beir
from tests.builders.verbs import write_articles

AUDIT: dict[str, Any] = {"sizes": [2], "sets": 5, "progress": False}
EVALUATE: dict[str, Any] = {"sets": 5, "metrics": ["mrr"], "progress": False}


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as told:
        yield told


@pytest.fixture
def corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.setenv("FAIRSPAN_STORE", str(tmp_path / "vectors.db"))
    return str(write_articles(tmp_path / "corpus"))


def audit(server: Server, corpus: str, **options: Any) -> fairspan.RunLog:
    return fairspan.audit(Endpoint(server.url, "words"), corpus=corpus, **{**AUDIT, **options})


@pytest.mark.parametrize("verb", ["audit", "evaluate"])
def test_the_same_as_an_object_that_encodes(server: Server, corpus: str, verb: str) -> None:
    """To the last bit, because JSON writes every float32 exactly; with prompts."""
    asked = AUDIT if verb == "audit" else {**EVALUATE, "query_prompt": "w2 "}
    asked = {**asked, "corpus": corpus, "prompt": "w1 "}
    measure = getattr(fairspan, verb)
    near = measure(Words(), **asked, out="near")
    far = measure(Endpoint(server.url, "words"), **asked, out="far")
    assert near.rows.equals(far.rows)
    assert set(far.rows["treatment"]) - {"keywords"} == {"plain", "chunk-mean"}
    assert far.header.token_unit == "characters"
    assert all(text.startswith(("w1 ", "w2 ")) for text in server.texts)
    assert server.twice == 0, "not even the texts of the test for cut texts"
    described = far.header.to_json()["model"]
    answered = described["endpoint"]
    assert (described["name"], answered["url"]) == ("words", server.url)
    assert answered["answers_name"] == ["words"]
    assert answered["requests"] == len(server.bodies)
    assert answered["prompt_tokens"] == sum(len(text.split()) for text in server.texts)


def test_nothing_is_asked_for_twice(server: Server, corpus: str) -> None:
    """The same call finds its log; another study finds what it shares in the store."""
    log = audit(server, corpus)
    sent = len(server.texts)
    sending = log.header.sending
    assert sending.stored == 0
    assert sending.texts <= sent <= sending.texts + 4, "and a few without their end"
    endpoint = Endpoint(server.url + "/", "words", concurrency=1)
    again = fairspan.audit(endpoint, corpus=corpus, **AUDIT)
    assert (again.folder, len(server.texts)) == (log.folder, sent)
    changed = audit(server, corpus, prompt="")
    assert len(server.texts) == sent
    assert changed.folder != log.folder, "the premise"
    assert changed.header.sending.texts == changed.header.timings.texts_computed == 0
    audit(server, corpus, sets=6)
    assert server.twice == 1, "to see whether the model is still the same"
    assert len(server.texts) > sent
    now = len(server.texts)
    audit(server, corpus, fresh=True)
    assert len(server.texts) == now + sent + 1, "and one to see whether the model is the same"

    def negated(answer: dict[str, Any]) -> dict[str, Any]:
        for row in answer["data"]:
            row["embedding"] = [-number for number in row["embedding"]]
        return answer

    server.change = negated
    said = said_by(audit, server, corpus, fresh=True)
    assert "has changed. Measure it with another store" in said
    audit(server, corpus, fresh=True, store="other.db")


def test_objects_without_an_identity_are_not_kept(corpus: str) -> None:
    class Counting(Words):
        asked = 0

        def encode(self, sentences: list[str], /) -> np.ndarray:
            self.asked += len(sentences)
            return embed(sentences)

    class Named(Counting):
        identity = "words, version 1"

    for model, grows in ((Counting(), True), (Named(), False)):
        fairspan.audit(model, corpus=corpus, **AUDIT, out=f"first-{grows}")
        before = model.asked
        fairspan.audit(model, corpus=corpus, **AUDIT, out=f"second-{grows}")
        assert (model.asked > before) == grows


def test_the_key_is_in_no_file(server: Server, corpus: str, tmp_path: Path) -> None:
    server.key = "sk-very-secret"
    asked = {"corpus": corpus, **AUDIT}
    log = fairspan.audit(Endpoint(server.url, "words", api_key="sk-very-secret"), **asked)
    assert log.header.status == "complete"
    wrong = Endpoint(server.url, "words", api_key="sk-wrong-one")
    assert "refuses the key" in said_by(fairspan.audit, wrong, **asked, seed=1, out="x")
    assert json.loads(Path("x/run.json").read_text())["status"] == "failed"
    files = [file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()]
    assert len(files) > 6
    assert not [file for file in files if b"sk-very-secret" in file or b"sk-wrong-one" in file]


def test_a_server_that_cuts_texts_is_found_out(server: Server, corpus: str) -> None:
    """An audit is refused, each time; under chunks that fit it is measured."""
    server.cut = 400
    for _ in range(2):
        assert "not read its longest" in said_by(audit, server, corpus)
    log = audit(server, corpus, treatments=["chunk-mean-350"])
    assert log.header.status == "complete"
    server.cut = 100
    said = said_by(audit, server, corpus, treatments=["chunk-mean-300"], store="other")
    assert "does not read its longest document" in said


def test_a_collection_whose_documents_are_cut_is_measured_so(
    server: Server, corpus: str, tmp_path: Path
) -> None:
    """As the index behind the endpoint holds them; the log says so."""
    rows = [json.loads(line) for line in Path(corpus, "en.jsonl").read_text().splitlines()]
    documents = [{"id": row["id"], "text": row["text"]} for row in rows]
    queries = [{"id": f"q{row['id']}", "text": row["title"], "document": row["id"]} for row in rows]
    task = write_beir(tmp_path / "task", documents, queries)
    server.cut = 100
    asked: dict[str, Any] = {"metrics": ["mrr"], "treatments": ["plain", "chunk-mean-90"]}
    endpoint = Endpoint(server.url, "words")
    log = fairspan.evaluate(endpoint, f"beir:{task}", **asked, progress=False)
    (note,) = [note for note in log.header.notes if "to the end" in note]
    assert note.startswith("the endpoint does not read the longest document (")


def test_texts_that_a_common_direction_is_found_from_are_counted_once(
    server: Server, corpus: str
) -> None:
    names = ["chunk-mean", "chunk-mean+level=true", "chunk-mean-100+level=true"]
    asked = {**AUDIT, "corpus": corpus, "treatments": names}
    forecast = STUDY.forecast(AuditOptions(Endpoint(server.url, "words"), **asked))
    texts = general_texts()
    _, level, shorter = (stage.tokens for stage in forecast.stages)
    assert level == sum(map(len, texts)), "its chunks are those of the treatment before"
    assert shorter > 0
    assert server.bodies == [], "nothing is sent for a forecast"
    log = audit(server, corpus, treatments=names)
    assert set(texts) <= set(server.texts)
    (note,) = [note for note in log.header.notes if "general texts" in note]
    assert note.startswith(f"{len(texts)} general texts that come with fairspan are embedded once")
    assert set(log.rows["treatment"]) == set(names)
    assert log.header.sending.texts <= len(server.texts) <= log.header.sending.texts + 3


def test_a_model_that_changes_is_noted(server: Server, corpus: str) -> None:
    names = iter(["words-1"] * 3 + ["words-2"] * 1000)
    server.change = lambda answer: {**answer, "model": next(names)}
    log = audit(server, corpus)
    assert "the answers of the endpoint name several models: words-1, words-2" in log.header.notes
    assert log.header.to_json()["model"]["endpoint"]["answers_name"] == ["words-1", "words-2"]


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (
            {"treatments": ["plain", "paper", "chunk-mean+temperature=0.8"]},
            "only plain, chunk-mean and chunk-mean+level=true can be measured: omit paper, chunk-m",
        ),
        ({"measures": ["representation", "retention"]}, "omit retention."),
    ],
)
def test_what_an_endpoint_cannot_have_is_refused_before_it_is_asked(
    server: Server, corpus: str, asked: dict[str, Any], said: str
) -> None:
    assert said in said_by(audit, server, corpus, **asked, kind=UnsupportedModel)
    assert server.bodies == []


# The command line.


def typed(server: Server, *more: str) -> list[str]:
    asked = f"--endpoint {server.url} --model words --corpus corpus --sets 5 --metrics mrr"
    return ["evaluate", *asked.split(), *more]


def test_on_the_command_line(server: Server, corpus: str, run: Run) -> None:
    """A forecast, which sends nothing; the run; the log, found again in both ways."""
    asked = typed(server)
    forecast = run(*asked, "--batch-tokens", "100", "--dry-run").ok
    sending = json.loads(run(*asked, "--dry-run", "--json").out)["sending"]
    assert server.bodies == []
    assert not Path("vectors.db").exists()
    texts = f"{sending['texts']:,} texts to send"
    assert f"{texts}, {sending['characters']:,} characters, about" in forecast.out
    assert "tokens (at 4 characters per token)" in forecast.out
    said = run(*asked).ok
    assert texts in said.err.replace("\n", " ")
    assert "log: fairspan-runs/evaluate-words-" in said.out
    assert server.twice == 0
    sent = len(server.bodies)
    assert run(*asked).code == 0
    fairspan.evaluate(Endpoint(server.url, "words"), corpus="corpus", **EVALUATE)
    assert len(server.bodies) == sent


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("m --endpoint http://127.0.0.1:9/v1 --model x", "MODEL 'm' and --endpoint are two"),
        ("--endpoint http://localhost:8000", "give --endpoint and --model"),
        ("--endpoint http://h --model x --device cpu", "device is for a model that is"),
    ],
)
def test_mistakes_on_the_command_line(corpus: str, run: Run, words: str, said: str) -> None:
    run("audit", *words.split()).is_one_line(said)


@pytest.mark.slow
def test_killed_and_resumed(
    server: Server, corpus: str, commands: Commands, tmp_path: Path
) -> None:
    """What was under way is sent again, at most, and the rows are those of a run in one go."""
    endpoint = Endpoint(server.url, "words")
    whole = fairspan.evaluate(endpoint, corpus=corpus, **EVALUATE, out="whole", store="whole.db")
    server.bodies.clear()
    server.wait = 0.1
    asked = typed(server, "--out", "run", "--store", "kept.db")
    for moment in (2, 5):
        started = commands.start(tmp_path, *asked)
        end = time.monotonic() + 60
        while len(server.bodies) < moment:
            assert time.monotonic() < end, f"{len(server.bodies)} requests"
            time.sleep(0.002)
        started.signal(signal.SIGKILL)
        assert started.wait().code == -signal.SIGKILL
    longest = max(len(body["input"]) for body in server.bodies)
    assert commands.start(tmp_path, *asked).wait().code == 0
    # Two under way, one answered but not stored, one text to compare.
    assert 0 < server.twice <= 2 * (3 * longest + 1)
    assert fairspan.read_log(tmp_path / "run").rows.equals(whole.rows)
    assert files_in(tmp_path / "run") == files_in(tmp_path / "whole")
