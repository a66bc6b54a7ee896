"""What lies around an exported graph, so that other programs take its folder for one of their models."""

import copy
from pathlib import Path
from typing import Any

from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Dense, Normalize, Pooling
from tokenizers import Tokenizer

from fairspan.attention.positions import position_limit
from fairspan.calibration.calibration import PRESETS, Calibration, Side
from fairspan.model.card import model_card
from fairspan.model.saving import write_json
from fairspan.model.source import read_json
from fairspan.model.transformer import prompt_of
from fairspan.model.window import ANY_LENGTH

_CUTTING = ("max_length", "stride", "truncation_strategy")
_CARD = """---
{front}
---

# {name} with fairspan, as an ONNX graph

This is {base}, {how}, exported by fairspan. The weights are those of the base model. {licence}

`onnx/model.onnx` takes `input_ids`, `attention_mask` and perhaps `token_type_ids`, int64 [batch, length], and gives
`sentence_embedding`, one finished vector per text, and `last_hidden_state`, one per token. Calibration, pooling and
normalisation are inside: take `sentence_embedding` and pool nothing. `tokenizer.json` cuts and pads as the model
does. `fairspan.json` has the calibration, the prompts, the limit and how the graph was verified.

```python
import numpy as np
import onnxruntime
from tokenizers import Tokenizer

session = onnxruntime.InferenceSession("onnx/model.onnx")
tokens = Tokenizer.from_file("tokenizer.json").encode_batch(["A long text.", "Another text."])
fields = {{"input_ids": "ids", "attention_mask": "attention_mask", "token_type_ids": "type_ids"}}
given = {{one.name: np.array([getattr(text, fields[one.name]) for text in tokens]) for one in session.get_inputs()}}
vectors = session.run(["sentence_embedding"], given)[0]
```
"""


def write_folder(model: SentenceTransformer, folder: Path, side: Side, window: int | None) -> None:
    """Everything of a model's folder but its graph and weights.

    Args:
        window: the most tokens that the graph reads; None for any length.
    """
    transformer, *others = model.children()
    config = copy.deepcopy(transformer.model.config)
    # Some models count their positions from an offset, which readers of this field subtract.
    positions, limit = (
        getattr(config, "max_position_embeddings", None),
        position_limit(transformer.model),
    )
    config.max_position_embeddings = (window or ANY_LENGTH) + (
        positions - limit if positions and limit else 0
    )
    config.save_pretrained(str(folder))
    _save_tokenizer(model.tokenizer, folder, window)
    prompts = {one: prompt_of(model, one) for one in sides_of(model, side)}
    known = {name: text for name, text in (model.prompts or {}).items() if len(prompts) == 2}
    made: dict[str, Any] = {
        "prompts": known | prompts,
        "default_prompt_name": model.default_prompt_name if len(prompts) == 2 else side,
        "similarity_fn_name": model.similarity_fn_name,
    }
    write_json(folder / "config_sentence_transformers.json", made)
    write_json(
        folder / "sentence_bert_config.json",
        {"max_seq_length": window or ANY_LENGTH, "do_lower_case": False},
    )
    listed = [
        {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"}
    ]
    for number, module in enumerate(others, 1):
        place, kind = f"{number}_{type(module).__name__}", type(module)
        (folder / place).mkdir()
        module.save(str(folder / place))
        home = (
            "sentence_transformers.models"
            if kind in (Dense, Normalize, Pooling)
            else kind.__module__
        )
        if isinstance(module, Pooling):
            write_json(folder / place / "config.json", _pooling(module))
        listed.append(
            {"idx": number, "name": str(number), "path": place, "type": f"{home}.{kind.__name__}"}
        )
    write_json(folder / "modules.json", listed)
    (folder / "README.md").write_text(
        model_card(model, calibration_of(model), _CARD), encoding="utf-8"
    )


def calibration_of(model: SentenceTransformer) -> Calibration:
    calibration: Calibration = getattr(model[0], "calibration", PRESETS["plain"])
    return calibration


def sides_of(model: SentenceTransformer, side: Side) -> tuple[Side, ...]:
    """The sides whose vectors a graph of one side gives.

    Both if they are calibrated alike, or if tiles are all that tells them apart, since no tiles are in a question
    that fits into one.
    """
    calibration = calibration_of(model)
    other: Side = "document" if side == "query" else "query"
    alike = calibration.on("query") == calibration.on("document")
    only_tiles = calibration.strength == 0 and calibration.tiles_on(side)
    skips = any(isinstance(one, Pooling) and not one.include_prompt for one in model.modules())
    same_prompt = prompt_of(model, "query") == prompt_of(model, "document")
    return (side, other) if (alike or only_tiles) and (same_prompt or not skips) else (side,)


def _save_tokenizer(tokenizer: Any, folder: Path, window: int | None) -> None:
    """The tokenizer's files; `tokenizer.json` cuts and pads as the model does."""
    tokenizer.save_pretrained(str(folder))
    file, config = folder / "tokenizer.json", folder / "tokenizer_config.json"
    fast = Tokenizer.from_file(str(file))
    fast.no_truncation()
    if window is not None:
        fast.enable_truncation(max_length=window, direction=tokenizer.truncation_side)
    fast.enable_padding(
        direction=tokenizer.padding_side,
        pad_id=tokenizer.pad_token_id,
        pad_type_id=tokenizer.pad_token_type_id,
        pad_token=tokenizer.pad_token,
    )
    fast.save(str(file))
    made = read_json(config) | {"model_max_length": window or ANY_LENGTH}
    if made.get("tokenizer_class") == "TokenizersBackend":
        made["tokenizer_class"] = (
            "PreTrainedTokenizerFast"  # its name before transformers 5, which knows both
        )
    # What else says where texts are cut, which fastembed would heed.
    write_json(config, {name: one for name, one in made.items() if name not in _CUTTING})
    special = {
        name: str(one)
        for name, one in tokenizer.special_tokens_map.items()
        if not isinstance(one, list)
    }
    write_json(folder / "special_tokens_map.json", special)


def _pooling(module: Any) -> dict[str, Any]:
    """In the form that every release of sentence-transformers knows, and text-embeddings-inference needs."""
    chosen = (
        [module.pooling_mode] if isinstance(module.pooling_mode, str) else list(module.pooling_mode)
    )
    names = {
        "cls": "cls_token",
        "lasttoken": "lasttoken",
        "mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    }
    modes = {
        f"pooling_mode_{names.get(one, f'{one}_tokens')}": one in chosen
        for one in ("cls", "mean", *chosen)
    }
    return {
        "word_embedding_dimension": module.embedding_dimension,
        **modes,
        "include_prompt": module.include_prompt,
    }
