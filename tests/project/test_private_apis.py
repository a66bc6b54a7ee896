"""The private parts of other libraries that fairspan relies on, and what to do if they change."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable
from pathlib import Path

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
from transformers import MPNetConfig, PretrainedConfig
from transformers.masking_utils import bidirectional_mask_function, create_bidirectional_mask
from transformers.models.mpnet import modeling_mpnet

import fairspan
from fairspan.attention.interface import NAME
from fairspan.exporting.graph import _without_prompt
from fairspan.model.reading import is_compiled
from tests.builders.tiny import words

SOURCE = Path(fairspan.__file__).parent
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
    trees = {
        str(file.relative_to(SOURCE)): ast.parse(file.read_text("utf-8"))
        for file in SOURCE.rglob("*.py")
    }
    nodes = {name: list(ast.walk(tree)) for name, tree in trees.items()}
    every = [node for some in nodes.values() for node in some]
    own = {node.name for node in every if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    for name, some in nodes.items():
        attributes = [node for node in some if isinstance(node, ast.Attribute)]
        on_self = {one.attr for one in attributes if ast.unparse(one.value) in ("self", "cls")}
        private = {one.attr for one in attributes}
        private |= {node.arg or "" for node in some if isinstance(node, ast.keyword)}
        # os._exit and the _replace of named tuples are documented.
        hidden = {one for one in private if one.startswith("_") and not one.startswith("__")}
        foreign = hidden - on_self - own - {"_exit", "_replace"}
        what = f"{name}: use a public equivalent, or list and test it here"
        assert foreign == PRIVATE.get(name, set()), what


def test_compiled_modules_are_known_by_their_attributes() -> None:
    """Layers of compiled modules may not stop; nothing is traced before their first call."""
    parts = [torch.nn.Linear(2, 2) for _ in range(3)]
    parts[1].compile()
    parts[2] = torch.compile(parts[2])
    assert [is_compiled(torch.nn.Sequential(part)) for part in parts] == [False, True, True]


def test_pooling_leaves_out_the_prompt_in_a_method_of_its_own() -> None:
    """`exporting.graph` puts one in its place that can be traced. The first text is padded, the
    second all prompt."""
    exclude = getattr(Pooling, "_exclude_prompt_from_mask", None)
    assert exclude is not None, (
        "Pooling._exclude_prompt_from_mask is gone, which exporting.graph replaces, since it looks "
        "at the values of a mask: see whether Pooling.forward can be traced as it is."
    )
    for mask in ([[0, 0, 1, 1, 1], [0, 0, 0, 1, 1]], [[1, 1, 1, 1, 0], [1, 1, 0, 0, 0]]):
        given = torch.tensor(mask)
        assert torch.equal(_without_prompt(given, 2), exclude(given, 2))


def test_sentence_transformers_loads_with_given_module_classes() -> None:
    """`model.loading.load` needs it to load calibrated models without trusting their code."""
    load = getattr(SentenceTransformer, "_load_with_module_classes", None)
    assert load is not None, (
        "SentenceTransformer._load_with_module_classes is gone, by which model.loading.load maps "
        "modules.json to CalibratedTransformer without trust_remote_code: look for its successor "
        "in SentenceTransformer.__init__, or build the modules in load()."
    )
    parameters = list(inspect.signature(load).parameters)
    assert parameters[:2] == ["model_name_or_path", "module_classes"], (
        f"SentenceTransformer._load_with_module_classes takes {parameters}: adapt the call in "
        "fairspan.model.loading."
    )


def test_transformers_marks_masks_that_hide_only_padding(make_tiny: Make) -> None:
    """`attention.interface.mask` keeps such a mask one row, told by the identity of its mask
    function."""
    seen: dict[str, object] = {}

    def remember(**given: object) -> None:
        seen.update(given)

    from transformers import AttentionMaskInterface

    config = MPNetConfig()
    config._attn_implementation = NAME
    before = AttentionMaskInterface()[NAME]
    AttentionMaskInterface.register(NAME, remember)
    try:
        create_bidirectional_mask(
            config=config, inputs_embeds=torch.zeros(1, 3, 4), attention_mask=None
        )
    finally:
        AttentionMaskInterface.register(NAME, before)
    assert seen.get("mask_function") is bidirectional_mask_function, (
        "transformers no longer passes masking_utils.bidirectional_mask_function itself, with "
        "which attention.interface.mask compares: it would make an L×L mask for every padded "
        "batch. Find out how a mask that hides only padding can be told now."
    )
    assert seen.get("q_length") == 3, (
        "mask functions are no longer called with q_length: see attention.interface.mask."
    )
    model = fairspan.calibrate(make_tiny("bert", "mean"), basket_size=8)
    masks = []
    attend = model[0].model.encoder.layer[0].attention.self
    attend.register_forward_pre_hook(
        lambda _, args, kwargs: masks.append(args[1:] or kwargs), with_kwargs=True
    )
    model.encode([words(3), words(9)])
    tensors = [x for given in masks for x in (given.values() if isinstance(given, dict) else given)]
    shapes = [x for x in tensors if isinstance(x, torch.Tensor) and x.ndim == 4]
    assert shapes
    assert all(x.stride(2) == 0 for x in shapes), (
        "a mask of a padded batch is one row: attention.interface.mask"
    )


def test_configurations_name_their_attention() -> None:
    """`attention.relative` sets it: MPNet refuses set_attn_implementation, as its own code asks no
    function."""
    assert isinstance(getattr(PretrainedConfig, "_attn_implementation", None), property), (
        "configurations have no _attn_implementation any more. attention.relative sets it, so that "
        "masks are made by fairspan's mask function: set its successor there."
    )


def test_mpnet_has_the_modules_that_its_port_uses() -> None:
    model = modeling_mpnet.MPNetModel(
        MPNetConfig(hidden_size=8, num_hidden_layers=1, num_attention_heads=2)
    )
    layer = model.encoder.layer[0]
    names = [f"attention.attn.{name}" for name in ("q", "k", "v", "o", "dropout")]
    for name in (*names, "attention.LayerNorm", "attention.dropout", "intermediate", "output"):
        assert name in dict(layer.named_modules()), (
            f"transformers' MPNetLayer has no {name} any more: compare attention.relative with it, "
            "and drop it if MPNet now asks the attention interface itself."
        )


def test_transformer_modules_have_what_calibrated_ones_override() -> None:
    names = ("on_model_ready", "preprocess", "forward", "get_config_dict", "save", "load")
    missing = [
        name for name in (*names, "load_config") if not callable(getattr(Transformer, name, None))
    ]
    assert not missing, (
        f"sentence_transformers' Transformer has no {missing} any more, which model.transformer "
        "overrides: models would be saved, loaded or run without their calibration."
    )
