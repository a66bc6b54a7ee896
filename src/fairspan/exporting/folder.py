"""The files around an exported graph, which other programs need to read its folder as a model."""

import copy
from pathlib import Path
from typing import Any, cast

from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Dense, Normalize, Pooling
from tokenizers import Tokenizer

from fairspan.attention.positions import position_limit
from fairspan.calibration.calibration import PRESETS, Calibration, Side
from fairspan.model.card import model_card
from fairspan.model.even import EvenPooling
from fairspan.model.level import Level
from fairspan.model.saving import write_json
from fairspan.model.source import read_json
from fairspan.model.transformer import prompt_of
from fairspan.model.window import ANY_LENGTH

_CUTTING = ("max_length", "stride", "truncation_strategy")
_MODULES = "sentence_transformers.models"
_CARD = """---
{front}
---

# {name} with fairspan, as an ONNX graph

This is {base}, {how}, exported by fairspan. The weights are those of the base model. {licence}

`onnx/model.onnx` takes `input_ids`, `attention_mask` and for some models `token_type_ids`, int64
[batch, length]. It returns `sentence_embedding`, the final vector of each text, and
`last_hidden_state`, the vectors of its tokens. Calibration, pooling and normalisation are part of
the graph: use `sentence_embedding` without further pooling. {{sides}}
`tokenizer.json` truncates and pads as the model does. `fairspan.json` has the calibration, the
prompts, the limit and how the graph was verified.

```python
import numpy as np
import onnxruntime
from tokenizers import Tokenizer

session = onnxruntime.InferenceSession("onnx/model.onnx")
tokens = Tokenizer.from_file("tokenizer.json").encode_batch(["A long text.", "Another text."])
fields = {{"input_ids": "ids", "attention_mask": "attention_mask", "token_type_ids": "type_ids"}}
inputs = {{}}
for entry in session.get_inputs():
    inputs[entry.name] = np.array([getattr(text, fields[entry.name]) for text in tokens])
vectors = session.run(["sentence_embedding"], inputs)[0]
```
"""


def write_folder(model: SentenceTransformer, folder: Path, side: Side, window: int | None) -> None:
    """Everything of a model's folder but its graph and weights; no window is any length."""
    transformer, *others = model.children()
    limit = window or ANY_LENGTH
    config = copy.deepcopy(transformer.model.config)
    config.max_position_embeddings = limit + _position_offset(transformer.model)
    config.save_pretrained(str(folder))
    _save_tokenizer(model.tokenizer, folder, window)
    calibration = calibration_of(model)
    prompts = {side: prompt_of(model, side) for side in sides_of(model, side)}
    default: str | None = side
    serves = one_side(side)
    if len(prompts) == 2:
        prompts = {**(model.prompts or {}), **prompts}
        default = model.default_prompt_name
        serves = "It serves documents and queries."
        if calibration.level:
            serves += " Queries come out level, too, which changes no ranking of level documents."
    settings = {
        "prompts": prompts,
        "default_prompt_name": default,
        "similarity_fn_name": model.similarity_fn_name,
    }
    write_json(folder / "config_sentence_transformers.json", settings)
    limits = {"max_seq_length": limit, "do_lower_case": False}
    write_json(folder / "sentence_bert_config.json", limits)
    modules = [{"idx": 0, "name": "0", "path": "", "type": f"{_MODULES}.Transformer"}]
    for number, module in enumerate(others, 1):
        # Programs without fairspan pool the graph's tokens, which are level.
        if not isinstance(module, Level):
            modules.append(_save_module(module, folder, number))
    write_json(folder / "modules.json", modules)
    card = model_card(model, calibration, _CARD).replace("{sides}", serves)
    (folder / "README.md").write_text(card, encoding="utf-8")


def one_side(side: Side) -> str:
    """A sentence on a graph that serves only this side."""
    other = "document" if side == "query" else "query"
    return f"Its vectors are those of `encode_{side}`: export the {other} side as well."


def _position_offset(model: Any) -> int:
    """From which number a model counts positions, which readers of its configuration subtract."""
    positions = getattr(model.config, "max_position_embeddings", None)
    limit = position_limit(model)
    return positions - limit if positions and limit else 0


def _save_module(module: Any, folder: Path, number: int) -> dict[str, Any]:
    """Save a module after the transformer; its entry in `modules.json`."""
    kind = type(module)
    if kind is EvenPooling:
        # Programs pool the graph's tokens, whose mean is the even vector.
        kind = Pooling
    path = f"{number}_{kind.__name__}"
    (folder / path).mkdir()
    module.save(str(folder / path))
    if isinstance(module, Pooling):
        write_json(folder / path / "config.json", _pooling(module))
    home = _MODULES if kind in (Dense, Normalize, Pooling) else kind.__module__
    return {"idx": number, "name": str(number), "path": path, "type": f"{home}.{kind.__name__}"}


def calibration_of(model: SentenceTransformer) -> Calibration:
    return cast(Calibration, getattr(model[0], "calibration", PRESETS["plain"]))


def sides_of(model: SentenceTransformer, side: Side) -> tuple[Side, ...]:
    """The sides that a graph of one side serves, for texts of any length."""
    calibration = calibration_of(model)
    other: Side = "document" if side == "query" else "query"
    document = calibration.on("document")
    if side == "document":
        # Level queries rank level documents as plain queries do.
        document = document.but(level=False)
    alike = calibration.on("query") == document
    poolings = [module for module in model.modules() if isinstance(module, Pooling)]
    # Tiles share the prompt, and pooling may skip it: then the graph has its length.
    is_fixed = calibration.on(side).tile_size is not None or any(
        not pool.include_prompt for pool in poolings
    )
    same_length = _prompt_length(model, side) == _prompt_length(model, other)
    return (side, other) if alike and (same_length or not is_fixed) else (side,)


def _prompt_length(model: SentenceTransformer, side: Side) -> int:
    """The tokens of a side's prompt, special ones in front of it included."""
    features = model.preprocess([""], prompt=prompt_of(model, side) or None, task=side)
    return int(features.get("prompt_length") or 0)


def _save_tokenizer(tokenizer: Any, folder: Path, window: int | None) -> None:
    """The tokenizer's files; `tokenizer.json` cuts and pads as the model does."""
    tokenizer.save_pretrained(str(folder))
    file = str(folder / "tokenizer.json")
    fast = Tokenizer.from_file(file)
    fast.no_truncation()
    if window is not None:
        fast.enable_truncation(max_length=window, direction=tokenizer.truncation_side)
    fast.enable_padding(
        direction=tokenizer.padding_side,
        pad_id=tokenizer.pad_token_id,
        pad_type_id=tokenizer.pad_token_type_id,
        pad_token=tokenizer.pad_token,
    )
    fast.save(file)
    config = read_json(folder / "tokenizer_config.json")
    config["model_max_length"] = window or ANY_LENGTH
    if config.get("tokenizer_class") == "TokenizersBackend":
        # Its name before transformers 5, which reads both.
        config["tokenizer_class"] = "PreTrainedTokenizerFast"
    for name in _CUTTING:
        # fastembed would cut texts there.
        config.pop(name, None)
    write_json(folder / "tokenizer_config.json", config)
    tokens = tokenizer.special_tokens_map.items()
    special = {name: str(token) for name, token in tokens if not isinstance(token, list)}
    write_json(folder / "special_tokens_map.json", special)


def _pooling(module: Any) -> dict[str, Any]:
    """The form that every sentence-transformers reads, and text-embeddings-inference needs."""
    mode = module.pooling_mode
    chosen = [mode] if isinstance(mode, str) else mode
    names = {
        "cls": "cls_token",
        "lasttoken": "lasttoken",
        "mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    }
    config = {"word_embedding_dimension": module.embedding_dimension}
    for mode in ("cls", "mean", *chosen):
        config[f"pooling_mode_{names.get(mode, f'{mode}_tokens')}"] = mode in chosen
    return config | {"include_prompt": module.include_prompt}
