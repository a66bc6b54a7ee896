"""A calibrated model is trained like any other: its gradients are those of the matrices, and
adapters come back."""

import copy
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from datasets import Dataset
from peft import LoraConfig
from sentence_transformers import SentenceTransformer, SentenceTransformerTrainer
from sentence_transformers import SentenceTransformerTrainingArguments as Arguments
from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss

import fairspan
from fairspan.errors import UnsupportedModel
from tests.attention.by_matrices import matrices_instead
from tests.builders.tiny import REPRESENTATIVES, Kind, tiny_model, words

TEXTS = [words(40, 1), words(150, 2), words(5, 3)]


def tiny(
    folder: Path, architecture: str = "bert", pooling: str = "mean", side: str = "right"
) -> SentenceTransformer:
    no_dropout = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    model = tiny_model(folder / "tiny", architecture, pooling, padding_side=side, **no_dropout)
    model.max_seq_length = 64
    return model


def adapted(model: SentenceTransformer) -> SentenceTransformer:
    torch.manual_seed(1)
    model.add_adapter(LoraConfig(r=4, target_modules="all-linear", init_lora_weights=False))
    return model


BASKETS = {"basket_size": 16, "temperature": 0.7, "layers": "all"}
TILES_16 = {"calibration": "tiles-16", "temperature": 0.8}
BERT, MPNET, QWEN3 = REPRESENTATIVES
TILES = "tiles-128+short_texts=leave"


@pytest.mark.parametrize(
    ("kind", "fields", "adapter_first"),
    [
        (BERT, BASKETS, False),
        (BERT, {"tile_size": 16, "strength": 1.0, "basket_size": 7}, True),
        (MPNET, TILES_16, True),
        (QWEN3, BASKETS, True),
        (QWEN3, TILES_16, False),
    ],
)
def test_an_adapter_has_the_gradients_of_the_matrices(
    tmp_path: Path, kind: Kind, fields: dict[str, Any], adapter_first: bool
) -> None:
    """By finite differences of the matrices, in float64; in training mode, which without dropout is
    evaluation."""
    plain = tiny(tmp_path, *kind).double()
    first, second = adapted, lambda model: fairspan.calibrate(model, **fields)
    fair = second(first(plain)) if adapter_first else first(second(plain))
    evaluated = fair.encode(TEXTS, convert_to_tensor=True).pow(3).sum()

    def loss() -> torch.Tensor:
        return fair.train()(fair.preprocess(TEXTS))["sentence_embedding"].pow(3).sum()

    (fast := loss()).backward()
    assert fast.item() == pytest.approx(evaluated.item(), abs=1e-8)
    trained = {name: weight for name, weight in fair.named_parameters() if weight.grad is not None}
    assert {name.split(".")[-3] for name in trained} == {"lora_A", "lora_B"}
    moves = [(weight, torch.randn_like(weight)) for weight in trained.values()]
    # The error is of the order of the square of the step; norms of Qwen3 are in float32, which
    # needs a larger one.
    step, tolerance = (1e-4, 1e-3) if kind[0] == "qwen3" else (1e-6, 1e-6)
    found = []
    with matrices_instead(), torch.no_grad():
        for times in (1, -2):
            for weight, way in moves:
                weight += times * step * way
            found.append(float(loss()))
    expected = sum(float((weight.grad * way).sum()) for weight, way in moves)
    assert (found[0] - found[1]) / (2 * step) == pytest.approx(expected, rel=tolerance)


def test_weights_are_trained_in_both_models_an_adapter_or_a_copy_in_one(tmp_path: Path) -> None:
    plain = tiny(tmp_path)
    before = plain.encode(TEXTS)
    fair = adapted(fairspan.calibrate(plain, TILES))
    changes = []
    for model in (
        copy.deepcopy(fairspan.calibrate(plain, TILES)),
        fair,
        fairspan.calibrate(plain, TILES),
    ):
        start = model.encode(TEXTS)
        model(model.preprocess(TEXTS))["sentence_embedding"].square().sum().backward()
        torch.optim.SGD([one for one in model.parameters() if one.requires_grad], lr=1e-2).step()
        assert not np.allclose(model.encode(TEXTS), start, atol=1e-3)
        changes.append(not np.array_equal(plain.encode(TEXTS), before))
    assert changes == [False, False, True]


@pytest.mark.filterwarnings("ignore")  # those of the trainer
def test_the_trainer_trains_an_adapter_finds_the_best_and_goes_on(tmp_path: Path) -> None:
    """With gradient checkpointing, onto a calibrated model that was loaded from its folder."""
    fairspan.calibrate(tiny(tmp_path), TILES).save_pretrained(str(tmp_path / "fair"))
    fair = adapted(fairspan.load(tmp_path / "fair", device="cpu"))
    data = Dataset.from_dict(
        {str(length): [words(length, seed) for seed in range(8)] for length in (6, 90)}
    )
    true = ("gradient_checkpointing", "load_best_model_at_end", "use_cpu", "disable_tqdm")
    options: dict[str, Any] = dict.fromkeys(true, True) | {"save_steps": 1, "eval_steps": 1}
    options |= {"eval_strategy": "steps", "report_to": [], "output_dir": str(tmp_path)}
    options |= {"per_device_train_batch_size": 4, "learning_rate": 1e-2}

    def train(steps: int, checkpoint: str | None = None) -> Any:
        loss = MultipleNegativesRankingLoss(fair)
        how = Arguments(max_steps=steps, **options)
        trainer = SentenceTransformerTrainer(fair, how, data, data, loss)
        trainer.train(resume_from_checkpoint=checkpoint)
        return trainer.state

    start, best = fair.encode(TEXTS), train(2).best_model_checkpoint
    vectors = fair.encode(TEXTS)
    assert not np.allclose(vectors, start, atol=1e-3)
    fair.save_pretrained(str(tmp_path / "trained"))
    checkpoint = SentenceTransformer(best, trust_remote_code=True, device="cpu")
    for loaded in (checkpoint, fairspan.load(tmp_path / "trained", device="cpu")):
        assert loaded[0].calibration == fair[0].calibration
        assert np.allclose(loaded.encode(TEXTS), vectors, atol=1e-5)
    assert train(3, str(tmp_path / "checkpoint-2")).global_step == 3


@pytest.mark.parametrize("trap", ["adapter_model.bin", "megatron_config"])
def test_an_adapter_cannot_run_anything(tmp_path: Path, trap: str) -> None:
    """peft imports the module that an adapter for Megatron names, and reads pickles. The folder is
    trusted, which fairspan.load never does."""
    adapted(fairspan.calibrate(tiny(tmp_path), TILES)).save_pretrained(str(tmp_path / "fair"))
    part = tmp_path / "fair" / "0_CalibratedTransformer"
    if trap == "megatron_config":
        values = json.loads((part / "adapter_config.json").read_text())
        (part / "adapter_config.json").write_text(
            json.dumps({**values, trap: {"a": 1}, "megatron_core": "this"})
        )
    else:
        (part / "adapter_model.safetensors").rename(part / trap)
    with pytest.raises(UnsupportedModel, match="foreign code or pickles"):
        SentenceTransformer(str(tmp_path / "fair"), trust_remote_code=True)
