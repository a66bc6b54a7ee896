"""`export`: a model as an ONNX graph in a folder that other programs read, verified first."""

from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Pooling
from tokenizers import Tokenizer

from fairspan.calibration.calibration import WINDOW, Side
from fairspan.calibration.level import CommonDirection
from fairspan.errors import MissingExtra, UnsupportedModel, first_line
from fairspan.exporting.folder import calibration_of, sides_of, write_folder
from fairspan.exporting.graph import (
    INPUTS,
    OUTPUTS,
    Graph,
    exportable_copy,
    levels_tokens,
    trace,
)
from fairspan.model.level import level_of
from fairspan.model.saving import require_exportable, write_json, written_whole
from fairspan.model.source import read_json
from fairspan.model.tiling import Tiling
from fairspan.model.transformer import prompt_of
from fairspan.model.window import window_of

FORMAT = 3
LIMIT = 1e-4
"""How far a number of a vector may be from the model's, relative to the vector's length."""
GRAPH = "onnx/model.onnx"
_LONGEST = 2047
_WORDS = 400
# What an ONNX file can hold by itself.
_LARGE = 2**31 - 2**24


def export(
    model: SentenceTransformer,
    out: str | Path,
    *,
    side: Side = "document",
    name: str | None = None,
    stage: Callable[[str], None] = lambda stage: None,
) -> dict[str, Any]:
    """Write a model, calibrated or plain, as a folder that runs without fairspan, in onnxruntime.

    `onnx/model.onnx` maps `input_ids`, `attention_mask` and, if the tokenizer has them,
    `token_type_ids` to `sentence_embedding`, the finished vector, and to `last_hidden_state`, the
    vectors of the tokens. Beside it are a tokenizer, configuration and card, as other programs
    expect them, and `fairspan.json`. Graph and tokenizer are first tested.

    Args:
        out: the folder to write, which is new or empty. Weights of more than 2 GB go into a second
            file beside the graph.
        side: the graph gives the vectors of `encode_document`, or of `encode_query`. Put the side's
            prompt before every text: `fairspan.json` has it, and its length is fixed in the graph.
        name: what `fairspan.json` calls the model.
        stage: called with the name of each stage when it begins.

    Returns:
        What `fairspan.json` holds.

    Raises:
        UnsupportedModel: if the model cannot be exported, or a vector differs from the model's.
            Nothing is written then.
    """
    out = Path(out)
    require_exportable(out)
    if torch.__version__ < "2.8":  # compares as versions do, not as words
        needed = f"torch 2.8 or newer, this is {torch.__version__}"
        raise MissingExtra(f"exporting needs {needed}: pip install -U torch.")
    stage("exporting")
    copied = exportable_copy(model)
    window = window_of(model, side=side)
    texts = _texts(copied, window)
    prompts = {side: prompt_of(copied, side) for side in sides_of(copied, side)}
    graph, example = Graph.of(copied, texts[:2], prompts[side], side)
    program = trace(graph, example, window)
    calibration = calibration_of(copied).on(side)
    common = level_of(copied) if side == "document" else None
    level = None
    if common is not None:
        # Whether programs that cannot take `sentence_embedding` get level vectors, too.
        tokens = levels_tokens(copied)
        level = {"share": common.share, "sides": list(prompts), "last_hidden_state": tokens}
    dtype = str(model.dtype).removeprefix("torch.")
    poolings = [module for module in copied.modules() if isinstance(module, Pooling)]
    facts: dict[str, Any] = {
        "format": FORMAT,
        "fairspan": version("fairspan"),
        "model": name or str(copied[0].model.config.name_or_path),
        "sides": list(prompts),
        "prompts": prompts,
        "calibration": calibration.to_dict() if calibration.acts else None,
        "max_seq_length": window,
        "pooling": [module.pooling_mode for module in poolings],
        "level": level,
        "converted_from": None if dtype == "float32" else dtype,
        "inputs": list(example),
        "outputs": list(OUTPUTS),
        "opset": program.model.opset_imports[""],
    }
    with written_whole(out) as partial:
        write_folder(copied, partial, side, window)
        (partial / GRAPH).parent.mkdir()
        _save(program, partial / GRAPH)
        stage("verifying")
        verified = []
        for served, prompt in prompts.items():
            expected = _encoded(copied, texts, served, common)
            prompted = [prompt + text for text in texts]
            verified.append(_verified(partial, prompted, facts["inputs"], expected))
        facts |= verified[0]
        if (partial / f"{GRAPH}_data").exists():
            # A browser cannot look for the second file.
            config = partial / "config.json"
            external = {"transformers.js_config": {"use_external_data_format": True}}
            write_json(config, read_json(config) | external)
        write_json(partial / "fairspan.json", facts)
    return facts


def _save(program: Any, file: Path) -> None:
    """Write the graph; weights too large for it go into a file that other programs look for."""
    import onnx_ir

    values = [tensor.const_value for tensor in program.model.graph.initializers.values()]
    is_large = sum(value.nbytes for value in values if value) > _LARGE
    onnx_ir.save(program.model, file, external_data=f"{file.name}_data" if is_large else None)


def _encoded(
    model: SentenceTransformer, texts: list[str], side: Side, common: CommonDirection | None
) -> np.ndarray:
    """[texts, dimension], what a graph has to give; level if that has a common direction."""
    encode = model.encode_query if side == "query" else model.encode_document
    with model.truncate_embeddings(None):
        vectors = np.asarray(encode(texts, batch_size=len(texts), show_progress_bar=False))
    if common is not None and side == "query":
        vectors = common.level(vectors)
    return vectors[:, : model.truncate_dim]


def _texts(model: SentenceTransformer, window: int | None) -> list[str]:
    """Texts of one random word, more than two tiles or baskets, nine words, and a full window.

    Where texts that fit are left alone, the second does not fit.
    """
    rng = np.random.default_rng(0)
    tokenizer = model.tokenizer
    special = set(tokenizer.all_special_ids)
    ids = [id for id in rng.permutation(len(tokenizer)).tolist() if id not in special][:_WORDS]
    words = [word for id in ids if (word := str(tokenizer.decode([id])).strip())] or ["a"]
    calibration = calibration_of(model)
    tiling: Tiling | None = getattr(model[0], "tiling", None)
    unit: Any = calibration.tile_size or calibration.basket_size
    size = tiling.at_once if tiling is not None and unit == WINDOW else int(unit)
    if tiling is not None and calibration.short_texts == "leave":
        size = max(size, tiling.at_once // 2)
    longest = window
    if longest is None or longest > _LONGEST:
        # A word is one token or more.
        longest = max(_LONGEST // 2, size + size // 2)
    counts = (1, min(2 * size + 9, longest // 2), 9, longest)
    return [" ".join(rng.choice(words, size=count)) for count in counts]


def _verified(
    folder: Path, texts: list[str], inputs: list[str], expected: np.ndarray
) -> dict[str, Any]:
    """The dimension, and how far the vectors are from those expected [texts, dimension]."""
    vectors, lengths = _run(folder, texts, inputs)
    difference = relative_difference(vectors, expected)
    if not difference <= LIMIT:
        raise UnsupportedModel(
            "the exported graph and its tokenizer do not give the model's vectors: on texts of "
            f"{lengths} tokens one differs by {difference:.1e}, and at most {LIMIT:.0e} is "
            "accepted. Nothing was written."
        )
    verified = {"lengths": lengths, "largest_difference": difference, "limit": LIMIT}
    return {"dimension": expected.shape[1], "verified": verified}


def _run(folder: Path, texts: list[str], inputs: list[str]) -> tuple[np.ndarray, list[int]]:
    """[texts, dimension] and the tokens of each text, with nothing but what is in the folder."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    encodings = Tokenizer.from_file(str(folder / "tokenizer.json")).encode_batch(texts)
    fields = dict(zip(INPUTS, ("ids", "attention_mask", "type_ids"), strict=True))
    arrays = {
        name: np.array([getattr(encoding, fields[name]) for encoding in encodings])
        for name in inputs
    }
    graph = str(folder / GRAPH)
    try:
        session = onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
        (vectors,) = session.run([OUTPUTS[0]], arrays)
    except Exception as error:
        raise UnsupportedModel(
            f"onnxruntime does not run the exported graph: {first_line(error)}"
        ) from None
    return np.asarray(vectors), [sum(encoding.attention_mask) for encoding in encodings]


def relative_difference(vectors: np.ndarray, expected: np.ndarray) -> float:
    """The largest difference of one number relative to its vector's length; NaN if one is NaN."""
    if vectors.shape != expected.shape:
        return float("nan")
    length = np.linalg.norm(expected, axis=1, keepdims=True)
    return float((np.abs(vectors - expected) / np.where(length > 0, length, 1)).max())
