"""`export`: a model as one ONNX graph with its tokenizer beside it, verified before it is written."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Pooling
from tokenizers import Tokenizer

from fairspan import __version__
from fairspan.calibration.calibration import PRESETS, WINDOW, Side
from fairspan.errors import MissingExtra, UnsupportedModel, first_line
from fairspan.model.graph import INPUTS, OUTPUT, Graph, exportable_copy, trace
from fairspan.model.saving import require_exportable, written_beside
from fairspan.model.transformer import prompt_of
from fairspan.model.window import window_of

FORMAT = 2
LIMIT = 1e-4
"""How far a vector may be from the model's, relative to its length."""
_LONGEST = 2047
_WORDS = 400


def export(
    model: SentenceTransformer,
    out: str | Path,
    *,
    side: Side = "document",
    name: str | None = None,
    stage: Callable[[str], None] = lambda stage: None,
) -> dict[str, Any]:
    """Write a model, calibrated or plain, as one ONNX graph for onnxruntime.

    The graph maps `input_ids`, `attention_mask` and, if the tokenizer has them, `token_type_ids` of any shape to
    `sentence_embedding`, including pooling, dense layers and normalisation. For OUT.onnx, the tokenizer is written to
    OUT.tokenizer/ and the graph's metadata to OUT.json. Graph and tokenizer are first tested on texts of different
    lengths, and nothing is written if a vector differs from the model's.

    Args:
        out: the file to write, which ends in .onnx. Weights of more than 2 GB go into a second file, OUT.onnx.data.
        side: the graph gives the vectors of `encode_document`, or of `encode_query`. Put the side's prompt
            before every text: it is in OUT.json, and its length is fixed in the graph.
        name: what OUT.json calls the model.
        stage: called with the name of each stage when it begins.

    Returns:
        What OUT.json holds.

    Raises:
        UnsupportedModel: if the model cannot be exported, a vector differs, or a file cannot be written. Nothing is
            written then.
        MissingExtra: if onnx, onnxscript or onnxruntime is not installed.
    """
    out = Path(out)
    require_exportable(out)
    if not hasattr(torch.compiler, "is_exporting"):
        raise MissingExtra(f"exporting needs torch 2.7 or newer, this is {torch.__version__}: pip install -U torch.")
    stage("exporting")
    copied, prompt, window = exportable_copy(model), prompt_of(model, side), window_of(model, side=side)
    texts = _texts(copied, window)
    graph, example = Graph.of(copied, texts[:2], prompt, side)
    program = trace(graph, example, window)
    acting = getattr(copied[0], "calibration", PRESETS["plain"]).on(side)
    facts: dict[str, Any] = {
        "format": FORMAT,
        "fairspan": __version__,
        "model": name or str(copied[0].model.config.name_or_path),
        "side": side,
        "prompt": prompt,
        "calibration": acting.to_dict() if acting.acts else None,
        "max_seq_length": window,
        "pooling": [one.pooling_mode for one in copied.modules() if isinstance(one, Pooling)],
        "converted_from": None if model.dtype == torch.float32 else str(model.dtype).removeprefix("torch."),
        "inputs": list(example),
        "opset": program.model.opset_imports[""],
    }
    with written_beside(out) as partial:
        file = partial / out.name
        program.save(file)
        _save_tokenizer(copied.tokenizer, file.with_suffix(".tokenizer"), window)
        stage("verifying")
        encode = copied.encode_query if side == "query" else copied.encode_document
        wanted = encode(texts, batch_size=len(texts), show_progress_bar=False)
        facts |= _verified(file, [prompt + text for text in texts], list(example), wanted)
        text = json.dumps(facts, indent=2, ensure_ascii=False, allow_nan=False)
        file.with_suffix(".json").write_text(text + "\n", encoding="utf-8")
        # The graph last: where it is, everything is.
        for made in sorted(partial.iterdir(), key=lambda made: made == file):
            made.rename(out.absolute().parent / made.name)
    return facts


def _texts(model: SentenceTransformer, window: int | None) -> list[str]:
    """Random words of a model's vocabulary: one, over two tiles or baskets, a few, and as many as it reads."""
    rng, tokenizer = np.random.default_rng(0), model.tokenizer
    special = set(tokenizer.all_special_ids)
    ids = [int(one) for one in rng.permutation(len(tokenizer)) if int(one) not in special][:_WORDS]
    words = [word for one in ids if (word := str(tokenizer.decode([one])).strip())] or ["a"]
    calibration = getattr(model[0], "calibration", PRESETS["tiles"])
    unit = calibration.tile_size or calibration.basket_size
    unit = int(model[0].untiled_length or _LONGEST) if unit == WINDOW else int(unit)
    # A word is one token or more.
    longest = window if window is not None and window <= _LONGEST else max(_LONGEST // 2, unit + unit // 2)
    counts = (1, min(2 * unit + 9, longest // 2), 9, longest)
    return [" ".join(rng.choice(words, size=count)) for count in counts]


def _save_tokenizer(tokenizer: Any, folder: Path, window: int | None) -> None:
    """The tokenizer's files; `tokenizer.json` cuts and pads as the model does."""
    tokenizer.save_pretrained(str(folder))
    file = str(folder / "tokenizer.json")
    fast = Tokenizer.from_file(file)
    if window is not None:
        fast.enable_truncation(max_length=window, direction=tokenizer.truncation_side)
    fast.enable_padding(
        direction=tokenizer.padding_side,
        pad_id=tokenizer.pad_token_id,
        pad_type_id=tokenizer.pad_token_type_id,
        pad_token=tokenizer.pad_token,
    )
    fast.save(file)


def _verified(file: Path, texts: list[str], inputs: list[str], wanted: np.ndarray) -> dict[str, Any]:
    """What the graph with the tokenizer beside it makes of texts, compared with the model's vectors.

    Raises:
        UnsupportedModel: if they differ.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    tokens = Tokenizer.from_file(str(file.with_suffix(".tokenizer") / "tokenizer.json")).encode_batch(texts)
    given = [[one.ids for one in tokens], [one.attention_mask for one in tokens], [one.type_ids for one in tokens]]
    arrays = {name: np.array(values) for name, values in zip(INPUTS, given, strict=True) if name in inputs}
    try:
        session = onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
        (got,) = session.run([OUTPUT], arrays)
    except Exception as error:
        raise UnsupportedModel(f"onnxruntime does not run the exported graph: {first_line(error)}") from None
    difference, lengths = relative_difference(np.asarray(got), wanted), [sum(one.attention_mask) for one in tokens]
    if not difference <= LIMIT:
        raise UnsupportedModel(
            f"the exported graph and its tokenizer do not give the model's vectors: on texts of {lengths} tokens one "
            f"differs by {difference:.1e}, and at most {LIMIT:.0e} is accepted. Nothing was written."
        )
    verified = {"lengths": lengths, "largest_difference": difference, "limit": LIMIT}
    return {"dimension": wanted.shape[1], "verified": verified}


def relative_difference(got: np.ndarray, wanted: np.ndarray) -> float:
    """The largest difference of one number, relative to the length of its vector; not a number if one is not."""
    if got.shape != wanted.shape:
        return float("nan")
    length = np.linalg.norm(wanted, axis=1, keepdims=True)
    return float((np.abs(got - wanted) / np.where(length > 0, length, 1)).max())
