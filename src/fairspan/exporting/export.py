"""`export`: a model as one ONNX graph in a folder that other programs read, verified before it is there."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Pooling
from tokenizers import Tokenizer

from fairspan import __version__
from fairspan.calibration.calibration import WINDOW, Side
from fairspan.errors import MissingExtra, UnsupportedModel, first_line
from fairspan.exporting.folder import calibration_of, sides_of, write_folder
from fairspan.exporting.graph import INPUTS, OUTPUTS, Graph, exportable_copy, quiet, trace
from fairspan.model.saving import require_exportable, write_json, written_whole
from fairspan.model.source import read_json
from fairspan.model.transformer import prompt_of
from fairspan.model.window import window_of

FORMAT = 3
LIMIT = 1e-4
"""How far a vector may be from the model's, relative to its length."""
GRAPH = "onnx/model.onnx"
_LONGEST = 2047
_WORDS = 400
# What an ONNX file can hold itself.
_LARGE = 2**31 - 2**24


def export(
    model: SentenceTransformer,
    out: str | Path,
    *,
    side: Side = "document",
    int8: bool = False,
    name: str | None = None,
    stage: Callable[[str], None] = lambda stage: None,
) -> dict[str, Any]:
    """Write a model, calibrated or plain, as a folder that runs without fairspan, in onnxruntime.

    `onnx/model.onnx` maps `input_ids`, `attention_mask` and, if the tokenizer has them, `token_type_ids` of any shape
    to `sentence_embedding`, including tiles or baskets, pooling, dense layers and normalisation, and to
    `last_hidden_state`, the vectors of the tokens. Around it lie a tokenizer, configuration and card, as other
    programs expect them, and `fairspan.json`. Graph and tokenizer are first tested on texts of different lengths,
    and nothing is written if a vector differs from the model's.

    Args:
        out: the folder to write, which is new or empty. Weights of more than 2 GB go into a second file beside the
            graph.
        side: the graph gives the vectors of `encode_document`, or of `encode_query`. Put the side's prompt before
            every text: it is in `fairspan.json`, and its length is fixed in the graph.
        int8: write weights in 8 bits, for onnxruntime 1.22 or newer: about a quarter of the size, and vectors that
            are close to the model's but not equal. What is verified is the graph before that.
        name: what `fairspan.json` calls the model.
        stage: called with the name of each stage when it begins.

    Returns:
        What `fairspan.json` holds.

    Raises:
        UnsupportedModel: if the model cannot be exported, a vector differs, or a file cannot be written. Nothing is
            written then.
        MissingExtra: if onnx, onnxscript or onnxruntime is not installed.
    """
    out = Path(out)
    require_exportable(out)
    if not hasattr(torch.compiler, "is_exporting"):
        raise MissingExtra(
            f"exporting needs torch 2.7 or newer, this is {torch.__version__}: pip install -U torch."
        )
    stage("exporting")
    copied, prompt, window = (
        exportable_copy(model),
        prompt_of(model, side),
        window_of(model, side=side),
    )
    texts = _texts(copied, window)
    graph, example = Graph.of(copied, texts[:2], prompt, side)
    program = trace(graph, example, window)
    acting, sides = calibration_of(copied).on(side), sides_of(copied, side)
    facts: dict[str, Any] = {
        "format": FORMAT,
        "fairspan": __version__,
        "model": name or str(copied[0].model.config.name_or_path),
        "sides": list(sides),
        "prompts": {one: prompt_of(copied, one) for one in sides},
        "calibration": acting.to_dict() if acting.acts else None,
        "max_seq_length": window,
        "pooling": [one.pooling_mode for one in copied.modules() if isinstance(one, Pooling)],
        "converted_from": None
        if model.dtype == torch.float32
        else str(model.dtype).removeprefix("torch."),
        "inputs": list(example),
        "outputs": list(OUTPUTS),
        "opset": program.model.opset_imports[""],
    }
    with written_whole(out) as partial:
        write_folder(copied, partial, side, window)
        (partial / GRAPH).parent.mkdir()
        _save(program, partial / GRAPH)
        stage("verifying")
        wanted = _encoded(copied, texts, side)
        facts |= _verified(partial, [prompt + text for text in texts], list(example), wanted)
        for other in sides[1:]:
            word = [prompt_of(copied, other) + texts[0]]
            _verified(partial, word, list(example), _encoded(copied, texts[:1], other))
        if int8:
            stage("quantizing")
            facts["int8"] = _quantized(
                partial, [prompt + text for text in texts], list(example), wanted
            )
        if (partial / f"{GRAPH}_data").exists():
            # A browser cannot look for the second file.
            config, told = (
                partial / "config.json",
                {"transformers.js_config": {"use_external_data_format": True}},
            )
            write_json(config, read_json(config) | told)
        write_json(partial / "fairspan.json", facts)
    return facts


def _save(program: Any, file: Path) -> None:
    """The graph; weights that are too large for one file under the name that other programs look for."""
    import onnx_ir

    weights = sum(
        one.const_value.nbytes
        for one in program.model.graph.initializers.values()
        if one.const_value
    )
    onnx_ir.save(
        program.model, file, external_data=f"{file.name}_data" if weights > _LARGE else None
    )


def _encoded(model: SentenceTransformer, texts: list[str], side: Side) -> np.ndarray:
    encode = model.encode_query if side == "query" else model.encode_document
    vectors: np.ndarray = encode(texts, batch_size=len(texts), show_progress_bar=False)
    return vectors


def _texts(model: SentenceTransformer, window: int | None) -> list[str]:
    """Random words of a model's vocabulary: one, over two tiles or baskets, a few, and as many as it reads."""
    rng, tokenizer = np.random.default_rng(0), model.tokenizer
    special = set(tokenizer.all_special_ids)
    ids = [int(one) for one in rng.permutation(len(tokenizer)) if int(one) not in special][:_WORDS]
    words = [word for one in ids if (word := str(tokenizer.decode([one])).strip())] or ["a"]
    calibration = calibration_of(model)
    unit = calibration.tile_size or calibration.basket_size
    unit = int(model[0].untiled_length or _LONGEST) if unit == WINDOW else int(unit)
    # A word is one token or more.
    longest = (
        window
        if window is not None and window <= _LONGEST
        else max(_LONGEST // 2, unit + unit // 2)
    )
    counts = (1, min(2 * unit + 9, longest // 2), 9, longest)
    return [" ".join(rng.choice(words, size=count)) for count in counts]


def _verified(
    folder: Path, texts: list[str], inputs: list[str], wanted: np.ndarray
) -> dict[str, Any]:
    """What the folder makes of texts, compared with the model's vectors.

    Raises:
        UnsupportedModel: if they differ.
    """
    got, lengths = _run(folder, texts, inputs)
    difference = relative_difference(got, wanted)
    if not difference <= LIMIT:
        raise UnsupportedModel(
            f"the exported graph and its tokenizer do not give the model's vectors: on texts of {lengths} tokens one "
            f"differs by {difference:.1e}, and at most {LIMIT:.0e} is accepted. Nothing was written."
        )
    verified = {"lengths": lengths, "largest_difference": difference, "limit": LIMIT}
    return {"dimension": wanted.shape[1], "verified": verified}


def _quantized(
    folder: Path, texts: list[str], inputs: list[str], wanted: np.ndarray
) -> dict[str, Any]:
    """Replace the graph by one with weights in 8 bits; how near its vectors are to the model's."""
    import onnx

    file = folder / GRAPH
    with quiet():
        from onnxruntime.quantization import QuantType, quantize_dynamic
        from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer

        # Weights alone, in blocks with a scale of their own: what is computed stays in float32. One scale for the
        # numbers of a batch costs more quality, and makes a vector depend on the other texts.
        made = MatMulNBitsQuantizer(onnx.load(file), bits=8, block_size=32, is_symmetric=True)
        made.process()
        onnx.save(made.model.model, file)
        quantize_dynamic(file, file, op_types_to_quantize=["Gather"], weight_type=QuantType.QInt8)
    file.with_name(f"{file.name}_data").unlink(missing_ok=True)
    got, _ = _run(folder, texts, inputs)
    lengths = np.linalg.norm(got, axis=1) * np.linalg.norm(wanted, axis=1)
    return {"lowest_cosine": float(((got * wanted).sum(axis=1) / lengths).min())}


def _run(folder: Path, texts: list[str], inputs: Sequence[str]) -> tuple[np.ndarray, list[int]]:
    """The vectors of texts, and how many tokens each has, with nothing but what is in the folder."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    tokens = Tokenizer.from_file(str(folder / "tokenizer.json")).encode_batch(texts)
    given = [
        [one.ids for one in tokens],
        [one.attention_mask for one in tokens],
        [one.type_ids for one in tokens],
    ]
    arrays = {
        name: np.array(values) for name, values in zip(INPUTS, given, strict=True) if name in inputs
    }
    try:
        session = onnxruntime.InferenceSession(
            str(folder / GRAPH), options, providers=["CPUExecutionProvider"]
        )
        (got,) = session.run([OUTPUTS[0]], arrays)
    except Exception as error:
        raise UnsupportedModel(
            f"onnxruntime does not run the exported graph: {first_line(error)}"
        ) from None
    return np.asarray(got), [sum(one.attention_mask) for one in tokens]


def relative_difference(got: np.ndarray, wanted: np.ndarray) -> float:
    """The largest difference of one number, relative to the length of its vector; not a number if one is not."""
    if got.shape != wanted.shape:
        return float("nan")
    length = np.linalg.norm(wanted, axis=1, keepdims=True)
    return float((np.abs(got - wanted) / np.where(length > 0, length, 1)).max())
