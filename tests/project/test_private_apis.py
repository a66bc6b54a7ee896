"""The private parts of other libraries that fairspan relies on, and what to do if they change."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable
from typing import Any

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Pooling
from transformers import AttentionMaskInterface, MPNetConfig, PretrainedConfig
from transformers.masking_utils import bidirectional_mask_function, create_bidirectional_mask

import fairspan
from fairspan.attention.interface import NAME
from fairspan.exporting.graph import _without_prompt
from fairspan.model.reading import is_compiled
from tests.builders.tiny import words
from tests.project.test_house import SOURCE, nodes

# Attributes of foreign objects that begin with an underscore, by the module that uses them.
PRIVATE = {
    "attention/relative.py": {"_attn_implementation"},
    # What README.md is written from; without it the stock card is (tests/model/test_saving.py).
    "model/card.py": {"_model_card_text"},
    "exporting/graph.py": {"_exclude_prompt_from_mask"},
    "model/loading.py": {"_load_with_module_classes"},
    "model/reading.py": {"_compiled_call_impl"},
}

Make = Callable[..., SentenceTransformer]


def test_no_other_private_attribute_is_used() -> None:
    """Those of others; os._exit and the _replace of named tuples are documented."""
    files = {str(file.relative_to(SOURCE)): nodes(file) for file in SOURCE.rglob("*.py")}
    every = [node for some in files.values() for node in some]
    named = {node.name for node in every if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    for name, some in files.items():
        attributes = [node for node in some if isinstance(node, ast.Attribute)]
        on_self = {node.attr for node in attributes if ast.unparse(node.value) in ("self", "cls")}
        private = {node.attr for node in attributes}
        private |= {node.arg or "" for node in some if isinstance(node, ast.keyword)}
        hidden = {word for word in private if word.startswith("_") and not word.startswith("__")}
        foreign = hidden - on_self - named - {"_exit", "_replace"}
        what = f"{name}: use a public equivalent, or list and test it here"
        assert foreign == PRIVATE.get(name, set()), what


def test_compiled_modules_are_known_by_their_attributes() -> None:
    """Layers of compiled modules may not stop; nothing is traced before their first call."""
    parts = [torch.nn.Linear(2, 2) for _ in range(3)]
    parts[1].compile()
    parts[2] = torch.compile(parts[2])
    assert [is_compiled(torch.nn.Sequential(part)) for part in parts] == [False, True, True]


def test_pooling_leaves_out_the_prompt_in_a_method_of_its_own() -> None:
    """`exporting.graph` puts one in its place that can be traced; if it is gone, see whether
    Pooling.forward can be traced. The first text is padded, the second all prompt."""
    for mask in ([[0, 0, 1, 1, 1], [0, 0, 0, 1, 1]], [[1, 1, 1, 1, 0], [1, 1, 0, 0, 0]]):
        tensor = torch.tensor(mask)
        expected = Pooling._exclude_prompt_from_mask(tensor, 2)
        assert torch.equal(_without_prompt(tensor, 2), expected)


def test_sentence_transformers_loads_with_given_module_classes() -> None:
    """By it `model.loading.load` maps modules.json to CalibratedTransformer without
    trust_remote_code: else build the modules there."""
    parameters = inspect.signature(SentenceTransformer._load_with_module_classes).parameters
    assert list(parameters)[:2] == ["model_name_or_path", "module_classes"]


def test_transformers_marks_masks_that_hide_only_padding(make_tiny: Make) -> None:
    """`attention.interface.mask` keeps such a mask one row, told by the identity of its mask
    function: else it would make an L×L mask for every padded batch."""
    seen: dict[str, object] = {}
    config = MPNetConfig()
    config._attn_implementation = NAME
    before = AttentionMaskInterface()[NAME]
    AttentionMaskInterface.register(NAME, lambda **asked: seen.update(asked))
    try:
        embeds = torch.zeros(1, 3, 4)
        create_bidirectional_mask(config=config, inputs_embeds=embeds, attention_mask=None)
    finally:
        AttentionMaskInterface.register(NAME, before)
    assert seen.get("mask_function") is bidirectional_mask_function
    assert seen.get("q_length") == 3
    model = fairspan.calibrate(make_tiny("bert", "mean"), basket_size=8)
    masks: list[Any] = []
    model[0].model.encoder.layer[0].attention.self.register_forward_pre_hook(
        lambda _, args, kwargs: masks.extend([*args[1:], *kwargs.values()]), with_kwargs=True
    )
    model.encode([words(3), words(9)])
    shapes = [mask for mask in masks if isinstance(mask, torch.Tensor) and mask.ndim == 4]
    assert shapes
    assert all(mask.stride(2) == 0 for mask in shapes), "a mask of a padded batch is one row"


def test_configurations_name_their_attention() -> None:
    """`attention.relative` sets it, so that masks are made by fairspan's mask function: MPNet
    refuses set_attn_implementation, as its own code asks no function."""
    assert isinstance(PretrainedConfig._attn_implementation, property)
