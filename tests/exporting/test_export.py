"""Exported graphs: their vectors in onnxruntime, the files beside them, and what is refused."""

from __future__ import annotations

import copy
import json
import logging
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import (
    Dense,
    Normalize,
    Pooling,
    Router,
    StaticEmbedding,
)
from tokenizers import Tokenizer
from torch.torch_version import TorchVersion

import fairspan
from fairspan.errors import MissingExtra, UnsupportedModel
from fairspan.exporting import export as exporting
from fairspan.exporting.export import LIMIT, relative_difference
from fairspan.exporting.folder import write_folder
from fairspan.exporting.graph import OUTPUTS, Graph, exportable_copy, levels_tokens, trace
from fairspan.model.level import level_of
from tests.builders.commands import Run
from tests.builders.tiny import words

Make = Callable[..., SentenceTransformer]


def read(folder: Path, name: str) -> Any:
    return json.loads((folder / name).read_text(encoding="utf-8"))


def embed(folder: Path, texts: list[str], side: str = "document") -> np.ndarray:
    return run_graph(folder, texts, side)[0]


def run_graph(folder: Path, texts: list[str], side: str = "document") -> list[np.ndarray]:
    """Vectors, those of tokens, and the mask, with the folder and neither torch nor fairspan."""
    facts = read(folder, "fairspan.json")
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    encoded = tokenizer.encode_batch([facts["prompts"][side] + text for text in texts])
    fields = {"input_ids": "ids", "attention_mask": "attention_mask", "token_type_ids": "type_ids"}
    arrays = {
        name: np.array([getattr(text, fields[name]) for text in encoded])
        for name in facts["inputs"]
    }
    graph = str(folder / "onnx/model.onnx")
    session = onnxruntime.InferenceSession(graph, providers=["CPUExecutionProvider"])
    vectors, tokens = session.run(None, arrays)
    assert tokens.shape[:2] == arrays["input_ids"].shape
    return [np.asarray(vectors), np.asarray(tokens), arrays["attention_mask"]]


def pooled(tokens: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """[batch, dimension]: the mean of a text's tokens, as programs take it."""
    return (tokens * mask[:, :, None]).sum(axis=1) / mask.sum(axis=1, keepdims=True)


def assert_same(out: Path, model: SentenceTransformer, side: str = "document") -> None:
    """At other lengths and batch sizes than in the export, from an empty text to one that is cut.

    float32 has seven digits, and tiny models have a few layers: 1e-5 is a hundred roundings.
    """
    encode = model.encode_query if side == "query" else model.encode_document
    batches = [(0,), (1,), (5, 2), (15,), (16, 17), (40, 3, 21, 1, 33), (101,), (90, 290)]
    for number, counts in enumerate(batches):
        texts = [words(count, seed=10 * number + place) for place, count in enumerate(counts)]
        assert relative_difference(embed(out, texts, side), encode(texts)) < 1e-5, counts


def small(
    make: Make, architecture: str = "bert", pooling: str = "cls", *, layers: int = 2, **options: Any
) -> SentenceTransformer:
    """Two layers, of which baskets take the second; texts of at most 300 tokens."""
    name = {"t5": "num_layers", "distilbert": "n_layers"}.get(architecture, "num_hidden_layers")
    model = copy.deepcopy(make(architecture, pooling, **{name: layers}, **options))
    model.max_seq_length = 300
    return model


@pytest.mark.parametrize(
    ("mode", "preset", "prompt", "dense"),
    [
        ("mean", "tiles-16+level=true", "", False),
        ("mean", "plain+pooling=even+level=true", "", False),
        ("mean", "plain+level=true", "", True),
        ("cls", "tiles-16", "w1 ", False),
    ],
)
def test_what_a_graph_computes(
    make_tiny: Make, mode: str, preset: str, prompt: str, dense: bool
) -> None:
    """Before it is traced: the model's vectors, also as programs pool and normalise its tokens,
    where no module behind the pooling changes directions."""
    model = small(make_tiny, "bert", mode, layers=1)
    model.set_pooling_include_prompt(not prompt)
    if dense:
        model.append(Dense(32, 12))
    fair = fairspan.calibrate(model, preset)
    assert levels_tokens(fair) == ("level" in preset and not dense)
    texts = [words(40), words(5)]
    graph, inputs = Graph.of(exportable_copy(fair), texts, prompt, "document")
    with torch.no_grad():
        vectors, tokens = (output.numpy() for output in graph(**inputs))
    expected = fair.encode_document(texts, prompt=prompt)
    assert relative_difference(vectors, expected) < 1e-6
    if mode == "mean" and not dense:
        mean = pooled(tokens, inputs["attention_mask"].numpy())
        length = np.linalg.norm(mean, axis=1) / np.linalg.norm(expected, axis=1)
        assert relative_difference(mean / length[:, None], expected) < 1e-5


@pytest.mark.slow
def test_a_model_in_tiles_is_one_graph(make_tiny: Make, tmp_path: Path) -> None:
    """Batch and length stay open: were one fixed, the other sizes of `assert_same` would fail.
    Queries are level, too, where the plain ones have the same ranking."""
    model = small(make_tiny, "bert", "mean", layers=1, normalize=True)
    general = [words(12, seed=number) for number in range(30)]
    fair = fairspan.calibrate(model, "tiles-16", level=general, max_seq_length=300)
    out = tmp_path / "new" / "fair"
    stages: list[str] = []
    facts = fairspan.export(fair, out, stage=stages.append)
    assert stages == ["exporting", "verifying"]
    assert [file.name for file in out.parent.iterdir()] == ["fair"]
    assert read(out, "fairspan.json") == facts
    assert facts["calibration"] == fair[0].calibration.to_dict()
    assert (facts["max_seq_length"], facts["dimension"], facts["pooling"]) == (300, 32, ["mean"])
    assert facts["verified"]["lengths"] == [3, 43, 11, 300]
    assert 0 < facts["verified"]["largest_difference"] < LIMIT
    graph = onnx.load(str(out / "onnx/model.onnx"))
    inputs, outputs = graph.graph.input, graph.graph.output
    assert [value.name for value in inputs] == facts["inputs"] == ["input_ids", "attention_mask"]
    assert [value.name for value in outputs] == facts["outputs"] == [*OUTPUTS]
    for value in (*inputs, outputs[1]):
        assert [dim.dim_param for dim in value.type.tensor_type.shape.dim][:2] == [
            "batch",
            "length",
        ]
    assert facts["opset"] == graph.opset_import[0].version
    assert str(Path.cwd()) not in (out / "onnx/model.onnx").read_bytes().decode("latin-1")
    assert_same(out, fair)
    common, texts = level_of(fair), [words(5), words(60)]
    about = {"share": common.share, "sides": ["document", "query"], "last_hidden_state": True}
    assert facts["level"] == about
    queries = common.level(fair.encode_query(texts))
    assert relative_difference(embed(out, texts, "query"), queries) < 1e-5
    assert "Queries come out level, too" in (out / "README.md").read_text(encoding="utf-8")
    with pytest.raises(UnsupportedModel, match="fair exists and is not an empty folder: choose"):
        fairspan.export(fair, out)


@pytest.mark.slow
def test_the_command_line(run: Run, make_tiny: Make, tmp_path: Path) -> None:
    """Baskets of the pooled row, and a prompt that the text's reader has to put before it."""
    model = small(make_tiny, "xlm-roberta", "cls", layers=1)
    model.prompts = {"query": "w1 w2 ", "document": ""}
    model.save_pretrained(str(tmp_path / "model"), create_model_card=False)
    options = ["--preset", "paper", "--side", "query", "--max-seq-length", "90"]
    done = run("export", "model", "x", *options).ok
    assert done.out.startswith("x: model, baskets of 128 tokens, 32 dimensions; ")
    assert "Put this before every query, unless your program does: 'w1 w2 '." in done.out
    lines = [line for line in done.err.splitlines() if not line.startswith("Loading weights")]
    assert all(line.endswith("…") for line in filter(None, lines)), lines
    facts = read(tmp_path, "x/fairspan.json")
    assert (facts["model"], facts["max_seq_length"]) == ("model", 90)
    assert facts["sides"] == ["query", "document"]
    assert facts["prompts"] == {"query": "w1 w2 ", "document": ""}
    saved = SentenceTransformer(str(tmp_path / "model"), device="cpu")
    assert_same(tmp_path / "x", fairspan.calibrate(saved, "paper", max_seq_length=90), "query")


KINDS: list[tuple[str, str, str, str | None, int]] = [
    ("bert", "mean", "right", "paper+basket_size=16", 300),
    ("bert", "cls", "right", "paper+basket_size=16+layers=last+tile_size=16", 300),
    ("roberta", "cls", "right", "retrieval+basket_size=16", 300),
    ("distilbert", "mean", "right", None, 300),
    ("modernbert", "cls", "left", 'tiles-16+temperature={"query":1,"document":0.7}', 300),
    ("qwen3", "lasttoken", "left", "paper+basket_size=16+tile_size=16+eos=original", 300),
    ("mistral", "lasttoken", "right", "tiles-64+tile_size=window", 20),
    ("t5", "mean", "right", "tiles-16", 300),
    ("bert", "cls", "right", "tiles-16+temperature=0.9to40_0.5", 300),
    ("distilbert", "mean", "left", "plain+pooling=even", 300),
    ("mpnet", "mean", "right", "tiles-16+ridge=0.1", 300),
    ("modernbert", "mean", "left", "tiles-8+short_texts=leave", 20),
]


@pytest.mark.parametrize(("architecture", "pooling", "padding_side", "preset", "window"), KINDS)
@pytest.mark.slow
def test_every_kind(
    make_tiny: Make,
    tmp_path: Path,
    architecture: str,
    pooling: str,
    padding_side: str,
    preset: str | None,
    window: int,
) -> None:
    model = small(make_tiny, architecture, pooling, padding_side=padding_side)
    model.max_seq_length = window
    model = model if preset is None else fairspan.calibrate(model, preset)
    facts = fairspan.export(model, tmp_path / "x")
    assert facts["calibration"] == (preset and model[0].calibration.on("document").to_dict())
    assert facts["pooling"] == [pooling]
    if preset == "tiles-8+short_texts=leave":
        # Two of the verified texts do not fit into the window.
        assert [length > 20 for length in facts["verified"]["lengths"]] == [False, True] * 2
    assert_same(tmp_path / "x", model)
    if pooling == "mean":
        # What programs take that pool by themselves, also of tokens that are pooled evenly.
        vectors, tokens, mask = run_graph(tmp_path / "x", [words(40), words(5)])
        assert relative_difference(pooled(tokens, mask), vectors) < 1e-5


@pytest.mark.slow
def test_modules_after_pooling_and_half_precision(make_tiny: Make, tmp_path: Path) -> None:
    """The graph is float32. A side that is not calibrated is the plain model, and not level."""
    model = small(make_tiny, "bert", "mean")
    torch.manual_seed(0)
    modules = [*model, Dense(32, 16, activation_function=torch.nn.Tanh()), Normalize()]
    half = SentenceTransformer(modules=modules, device="cpu", truncate_dim=8).bfloat16()
    general = [words(12, seed=number) for number in range(30)]
    fair = fairspan.calibrate(half, "tiles-64+sides=document+pooling=even", level=general)
    facts = fairspan.export(fair, tmp_path / "x", side="query")
    assert (facts["dimension"], facts["converted_from"]) == (8, "bfloat16")
    assert (facts["calibration"], facts["level"]) == (None, None)
    assert_same(tmp_path / "x", half.float(), "query")


@pytest.mark.slow
def test_large_weights_are_in_a_second_file(
    make_tiny: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a model that does not pool its prompt."""
    model = small(make_tiny, "bert", "mean", layers=1)
    model.set_pooling_include_prompt(False)
    model.prompts = {"document": "w1 w2 w3 ", "query": ""}
    fair = fairspan.calibrate(model, "tiles-16")
    before = logging.root.level, logging.root.handlers[:]
    monkeypatch.setattr(exporting, "_LARGE", 0)
    fairspan.export(fair, tmp_path)
    assert_same(tmp_path, fair)
    config = read(tmp_path, "config.json")
    assert config["transformers.js_config"] == {"use_external_data_format": True}
    files = {file.name for file in (tmp_path / "onnx").iterdir()}
    assert files == {"model.onnx", "model.onnx_data"}
    # onnxscript would change both.
    assert (logging.root.level, logging.root.handlers) == before


# The folder


@pytest.mark.parametrize(
    ("mode", "pooling"), [("cls", "model"), ("mean", "even"), ("weightedmean", "model")]
)
def test_a_folder_has_what_programs_read(
    make_tiny: Make, tmp_path: Path, mode: str, pooling: str
) -> None:
    """Programs without fairspan read the pooling module, of which even pooling is a mean."""
    model = copy.deepcopy(make_tiny("roberta", "cls"))
    model.tokenizer.init_kwargs |= {"max_length": 16, "stride": 0}
    model = SentenceTransformer(modules=[model[0], Pooling(32, mode), Normalize()], device="cpu")
    fair = fairspan.calibrate(model, "tiles-128+short_texts=leave", pooling=pooling)
    write_folder(fair, tmp_path, "document", None)
    config, tokens = read(tmp_path, "config.json"), read(tmp_path, "tokenizer_config.json")
    # text-embeddings-inference subtracts RoBERTa's offset; limits are whole numbers.
    assert config["max_position_embeddings"] - config["pad_token_id"] - 1 == 10**9
    assert read(tmp_path, "sentence_bert_config.json")["max_seq_length"] == 10**9
    assert tokens["model_max_length"] == 10**9
    assert not {"max_length", "stride"} & tokens.keys()
    assert tokens["tokenizer_class"] != "TokenizersBackend"
    assert read(tmp_path, "special_tokens_map.json")["pad_token"] == fair.tokenizer.pad_token
    assert Tokenizer.from_file(str(tmp_path / "tokenizer.json")).truncation is None
    kinds = [module["type"] for module in read(tmp_path, "modules.json")]
    names = ("Transformer", "Pooling", "Normalize")
    assert kinds == [f"sentence_transformers.models.{name}" for name in names]
    config = read(tmp_path, "1_Pooling/config.json")
    assert config["pooling_mode_cls_token"] == (mode == "cls")
    assert config["pooling_mode_mean_tokens"] == (mode == "mean")
    assert Pooling.load(str(tmp_path / "1_Pooling")).pooling_mode == mode
    card = (tmp_path / "README.md").read_text(encoding="utf-8")
    assert "exported by fairspan" in card
    assert ("pooled evenly" in card) == (pooling == "even")
    (tmp_path / "fairspan.json").touch()
    with pytest.raises(UnsupportedModel, match="is an exported folder, for other programs"):
        fairspan.load(tmp_path)


@pytest.mark.parametrize(
    ("treatment", "query", "side", "both"),
    [
        ("tiles-128+short_texts=leave", "w1 ", "document", True),
        ("tiles-128+short_texts=leave", "w1 w3 ", "document", False),
        ("tempscale", "w1 w3 ", "document", True),
        ("tiles-64+sides=document", "w1 ", "document", False),
        ("tiles-64+sides=document", "w1 ", "query", False),
        ("paper", "w1 ", "query", True),
        ("paper+sides=document", "w1 ", "document", False),
        ('plain+temperature={"query":1,"document":0.8}', "w1 ", "document", False),
    ],
)
def test_a_folder_has_the_prompts_of_the_sides_that_it_serves(
    make_tiny: Make, tmp_path: Path, treatment: str, query: str, side: Any, both: bool
) -> None:
    """Where it serves one side, sentence-transformers puts that side's prompt before all texts."""
    model = copy.deepcopy(make_tiny("bert", "cls"))
    model.prompts = {"query": query, "document": "w2 ", "other": "w3 "}
    write_folder(fairspan.calibrate(model, treatment), tmp_path, side, 300)
    config = read(tmp_path, "config_sentence_transformers.json")
    assert config["prompts"] == (model.prompts if both else {side: model.prompts[side]})
    assert config["default_prompt_name"] == (None if both else side)
    card = (tmp_path / "README.md").read_text(encoding="utf-8")
    assert ("It serves documents and queries." in card) == both
    assert (f"Its vectors are those of `encode_{side}`: export the" in card) != both


# What is refused


class Program:
    """A program that writes some file in place of a graph."""

    model = SimpleNamespace(opset_imports={"": 20})
    error: Exception | None = None

    def save(self, file: Path) -> None:
        file.write_bytes(b"graph")
        if self.error is not None:
            raise self.error


class Session:
    """A graph that is the model itself, whose last vector is off by `error`."""

    model: SentenceTransformer
    error = 0.0

    def __init__(self, *given: Any, **options: Any) -> None: ...

    def run(self, outputs: list[str], inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
        with torch.inference_mode():
            features = self.model({name: torch.from_numpy(array) for name, array in inputs.items()})
        vectors = features["sentence_embedding"].numpy().copy()
        vectors[-1, 0] += self.error * np.linalg.norm(vectors[-1])
        return [vectors]


@pytest.fixture
def without_tracing(make_tiny: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """No graph is made, and onnxruntime gives the model's own vectors, or those with an error."""
    monkeypatch.setattr(exporting, "trace", lambda *given: Program())
    monkeypatch.setattr(exporting, "_save", Program.save)
    monkeypatch.setattr(Session, "model", make_tiny("bert", "cls"), raising=False)
    monkeypatch.setattr(onnxruntime, "InferenceSession", Session)


@pytest.mark.usefixtures("without_tracing")
@pytest.mark.parametrize("error", [0.5e-4, 2e-4, np.nan])
def test_a_vector_that_differs_is_refused(
    make_tiny: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: float
) -> None:
    """The tiny model does not normalise: the difference counts relative to a vector's length."""
    monkeypatch.setattr(Session, "error", error)
    if error < LIMIT:
        facts = fairspan.export(make_tiny("bert", "cls"), tmp_path / "x")
        assert facts["verified"]["largest_difference"] == pytest.approx(error, abs=2e-6)
        return
    said = r"do not give the model's vectors: on texts of \[.*\] tokens one differs by "
    with pytest.raises(UnsupportedModel, match=said):
        fairspan.export(make_tiny("bert", "cls"), tmp_path / "deep" / "x")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("without_tracing")
def test_nothing_is_left_if_the_disk_is_full(
    make_tiny: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Program, "error", OSError(28, "No space left on device"))
    with pytest.raises(UnsupportedModel, match=r"x cannot be written: No space left on device$"):
        fairspan.export(make_tiny("bert", "cls"), tmp_path / "x")
    assert list(tmp_path.iterdir()) == []


class OwnModule(Normalize):
    """Whatever a user has written."""


def test_what_no_graph_can_have_is_refused(make_tiny: Make, tmp_path: Path) -> None:
    model = make_tiny("bert", "cls")
    transformer, pooling = model
    tokenizer = Tokenizer.from_str(model.tokenizer.backend_tokenizer.to_str())
    static = StaticEmbedding(tokenizer, embedding_dim=8)
    router = Router.for_query_document([transformer, pooling], [static])
    chat = copy.deepcopy(model)
    chat[0].modality_config["message"] = chat[0].modality_config["text"]
    for modules, said in [
        ([router], "has a Router"),
        ([static], "no Transformer module, only StaticEmbedding"),
        ([transformer, pooling, OwnModule()], "has OwnModule, a module with custom code"),
        ([chat[0], Pooling(32)], "chat template"),
    ]:
        with pytest.raises(UnsupportedModel, match=said):
            fairspan.export(SentenceTransformer(modules=modules, device="cpu"), tmp_path / "x")
    with pytest.raises(UnsupportedModel, match="takes a SentenceTransformer, got Linear"):
        fairspan.export(torch.nn.Linear(1, 1), tmp_path / "x")  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []


def test_a_missing_package_is_named(
    make_tiny: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    said = r"exporting needs onnxscript: pip install 'fairspan\[onnx\]'"
    with pytest.raises(MissingExtra, match=said):
        fairspan.export(make_tiny("bert", "cls"), tmp_path / "x")
    monkeypatch.undo()
    monkeypatch.setattr(torch, "__version__", TorchVersion("2.7.1+cpu"))
    with pytest.raises(MissingExtra, match=r"needs torch 2\.8 or newer, this is 2\.7\.1"):
        fairspan.export(make_tiny("bert", "cls"), tmp_path / "x")


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("file/x", "file/x cannot be written: "),
        ("file", "file exists and is not an empty folder: choose another, or remove it."),
    ],
)
def test_a_mistake_is_one_line(
    run: Run, save_tiny: Callable[..., Path], tmp_path: Path, typed: str, said: str
) -> None:
    (tmp_path / "file").write_text("x", encoding="utf-8")
    run("export", save_tiny("bert", "cls"), *typed.split()).is_one_line(said)
    assert sorted(file.name for file in tmp_path.iterdir() if file.name != "vectors.db") == ["file"]


class OfOneLength(torch.nn.Module):
    """A graph for which torch.export takes the length of its example for the only one."""

    model = (SimpleNamespace(model=torch.nn.Identity()),)

    def forward(self, input_ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return input_ids * int(input_ids.shape[1]), input_ids


def test_a_model_that_is_fixed_to_one_length_is_refused() -> None:
    message = "Identity cannot be exported for texts of any length: "
    with pytest.raises(UnsupportedModel, match=message):
        trace(OfOneLength(), {"input_ids": torch.ones(2, 5, dtype=torch.int64)}, 300)  # type: ignore[arg-type]
