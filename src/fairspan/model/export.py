"""`export`: a model as one ONNX graph with its tokenizer beside it, verified before it is written."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Pooling

from fairspan.attention.positions import position_limit
from fairspan.calibration.temperature import Side
from fairspan.errors import MissingExtra
from fairspan.model.export_files import ExportFiles, require_packages, require_place
from fairspan.model.graph import OUTPUT, Graph, exportable_copy, trace
from fairspan.model.prompts import prompt_of
from fairspan.model.tiling import longest_text
from fairspan.model.transformer import CalibratedTransformer
from fairspan.model.verification import BATCH_SIZES, LIMIT, Samples, check_tokenizer, largest_difference

FORMAT = 1


def export(
    model: SentenceTransformer,
    out: str | Path,
    *,
    side: Side = "document",
    name: str | None = None,
    stage: Callable[[str], None] = lambda stage: None,
) -> dict[str, Any]:
    """Write a model, calibrated or plain, as one ONNX graph for onnxruntime.

    The graph takes `input_ids` and `attention_mask`, and `token_type_ids` if the tokenizer gives any, of any number
    of texts of any length, and gives `sentence_embedding`: pooling, dense layers and normalisation are inside. For
    OUT.onnx, the tokenizer is written to OUT.tokenizer/, and what has to be known of the graph to OUT.json. It is run
    on texts of three lengths and in two batch sizes first, and not written if a vector differs from the model's.

    Args:
        out: the file to write, which ends in .onnx. Weights of more than 2 GB go into a second file, OUT.onnx.data.
        side: the graph gives the vectors of `encode_document`, or of `encode_query`. The side's prompt has to be put
            before every text: it is in OUT.json, and its length is known to the graph.
        name: what OUT.json calls the model.
        stage: called with the name of each stage when it begins.

    Returns:
        What OUT.json holds.

    Raises:
        ExportError: if the model cannot be exported, a vector differs, or a file cannot be written; nothing is left
            of it then.
        MissingExtra: if onnx, onnxscript or onnxruntime is not installed.
    """
    out = Path(out)
    require_place(out)
    require_packages()
    if not hasattr(torch.compiler, "is_exporting"):
        raise MissingExtra(
            f"exporting needs torch 2.7 or newer, and this is {torch.__version__}: pip install -U torch."
        )
    stage("exporting")
    converted = next((one.dtype for one in model.parameters() if one.is_floating_point()), torch.float32)
    copied = exportable_copy(model)
    prompt, window = prompt_of(model, side), _window(copied, side)
    samples = Samples(copied, side, prompt, window)
    graph = Graph(copied, side, samples.prompt_length)
    example = samples.batch(samples.lengths[1], max(BATCH_SIZES))
    program = trace(graph, example, window)
    facts: dict[str, Any] = {
        "format": FORMAT,
        "fairspan": _version(),
        "model": name or str(copied[0].model.config.name_or_path),
        "side": side,
        "prompt": prompt,
        "calibration": _calibration(copied, side),
        "window": window,
        "pooling": [one.pooling_mode for one in copied.modules() if isinstance(one, Pooling)],
        "dtype": "float32",
        "converted_from": None if converted == torch.float32 else str(converted).removeprefix("torch."),
        "inputs": list(example),
        "output": OUTPUT,
        "opset": program.model.opset_imports[""],
    }
    with ExportFiles(out) as files:
        graph_file, folder = files.partial(files.graph), files.partial(files.tokenizer)
        program.save(graph_file)
        _save_tokenizer(copied.tokenizer, folder, window)
        stage(f"verifying at {len(samples.lengths)} lengths × {len(BATCH_SIZES)} batch sizes")
        check_tokenizer(samples, folder)
        difference, facts["dimension"] = largest_difference(samples, graph_file)
        facts["verified"] = {
            "lengths": samples.lengths,
            "batch_sizes": list(BATCH_SIZES),
            "largest_difference": difference,
            "limit": LIMIT,
        }
        external = files.partial(files.weights).exists()
        facts["files"] = {
            "graph": out.name,
            "weights": files.weights.name if external else None,
            "tokenizer": files.tokenizer.name,
        }
        text = json.dumps(facts, indent=2, ensure_ascii=False, allow_nan=False)
        files.partial(files.facts).write_text(text + "\n", encoding="utf-8")
    return facts


def _version() -> str:
    from fairspan import __version__

    return __version__


def _window(model: SentenceTransformer, side: Side) -> int | None:
    """How many tokens of a text are read; None if nothing is known of a limit."""
    module = model[0]
    limits = [longest_text(module, side)]
    if not (isinstance(module, CalibratedTransformer) and module.calibration.tiles_on(side)):
        limits.append(position_limit(module.model))
    return min((limit for limit in limits if limit is not None and limit < 1_000_000), default=None)


def _calibration(model: SentenceTransformer, side: Side) -> dict[str, Any] | None:
    module = model[0]
    if not isinstance(module, CalibratedTransformer) or not module.calibration.acts_on(side):
        return None
    return module.calibration.on(side).to_dict()


def _save_tokenizer(tokenizer: Any, folder: Path, window: int | None) -> None:
    """The tokenizer's files; `tokenizer.json` cuts and pads as the model does."""
    from tokenizers import Tokenizer

    tokenizer.save_pretrained(str(folder))
    file = folder / "tokenizer.json"
    if not file.exists():
        return
    fast = Tokenizer.from_file(str(file))
    if window is not None:
        fast.enable_truncation(max_length=window, direction=tokenizer.truncation_side)
    fast.enable_padding(
        direction=tokenizer.padding_side,
        pad_id=tokenizer.pad_token_id,
        pad_type_id=tokenizer.pad_token_type_id,
        pad_token=tokenizer.pad_token,
    )
    fast.save(str(file))
