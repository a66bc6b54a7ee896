"""Whether an exported graph gives the model's vectors: texts of three lengths, in two batch sizes, in onnxruntime."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from sentence_transformers import SentenceTransformer
from torch import Tensor

from fairspan.calibration.temperature import Side
from fairspan.errors import ExportError
from fairspan.model.graph import INPUTS, OUTPUT
from fairspan.model.transformer import SIDE, CalibratedTransformer

LIMIT = 1e-4
"""How far a vector may be from the model's, relative to its length."""
BATCH_SIZES = (1, 3)
_SHORT, _LONGEST = 9, 2047
_WORDS = 400


class Samples:
    """Texts of random words of a model's vocabulary, at the lengths that a graph is verified at."""

    def __init__(self, model: SentenceTransformer, side: Side, prompt: str, window: int | None) -> None:
        self.model, self.side, self.prompt = model, side, prompt
        self.rng = np.random.default_rng(0)
        self.words = _vocabulary(model.tokenizer, self.rng)
        self.prompt_length: int | None = self.features([self.words[0]]).get("prompt_length")
        before, longest = self.prompt_length or 0, min(window or _LONGEST, _LONGEST)
        longest -= (longest + 1) % 2  # odd, so that no tile or basket ends with it
        middle = before + 2 * _unit(model) + _SHORT
        self.lengths = sorted({min(length, longest) for length in (before + _SHORT, middle, longest)})
        if len(self.lengths) < 3:
            self.lengths = sorted({max(1, longest // 4), max(1, longest // 2), longest})

    def features(self, texts: list[str]) -> dict[str, Any]:
        """A batch as `encode_document` or `encode_query` makes it."""
        features: dict[str, Any] = self.model.preprocess(texts, prompt=self.prompt or None, task=self.side)
        unknown = [key for key, value in features.items() if isinstance(value, Tensor) and key not in INPUTS]
        if unknown:
            raise ExportError(
                f"the model takes {unknown[0]!r} besides the ids of tokens, which a graph has no input for."
            )
        return features

    def text(self, words: int) -> str:
        return " ".join(self.rng.choice(self.words, size=words))

    def batch(self, length: int, size: int) -> dict[str, Tensor]:
        """The inputs of a graph: one text of that length, the others shorter and padded."""
        module = self.model[0]
        limit, module.max_seq_length = module.max_seq_length, length
        try:
            features = self.features([self.text(max(1, length // (1 + number))) for number in range(size)])
        finally:
            module.max_seq_length = limit
        return {name: features[name] for name in INPUTS if name in features}

    def vectors(self, inputs: dict[str, Tensor]) -> np.ndarray:
        """What the model gives for them."""
        features: dict[str, Any] = {**inputs, "modality": "text"}
        if self.prompt_length is not None:
            features["prompt_length"] = self.prompt_length
        if isinstance(self.model[0], CalibratedTransformer):
            features[SIDE] = self.side
        with torch.inference_mode():
            found = self.model(features)[OUTPUT]
        return np.asarray(found[:, : self.model.truncate_dim].numpy())


def _vocabulary(tokenizer: Any, rng: np.random.Generator) -> list[str]:
    special = set(tokenizer.all_special_ids)
    ids = [int(one) for one in rng.permutation(len(tokenizer)) if int(one) not in special][:_WORDS]
    words = [str(tokenizer.decode([one])).strip() for one in ids]
    return [word for word in words if word] or ["a"]


def _unit(model: SentenceTransformer) -> int:
    """The tokens of a tile or a basket."""
    calibration = getattr(model[0], "calibration", None)
    return 64 if calibration is None else calibration.tile_size or calibration.basket_size


def largest_difference(samples: Samples, graph: Path) -> tuple[float, int]:
    """The largest difference between the graph's vectors and the model's, and how many dimensions they have.

    Raises:
        ExportError: if one is above the limit, or not a number.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    largest, dimension = 0.0, 0
    try:
        session = onnxruntime.InferenceSession(str(graph), options, providers=["CPUExecutionProvider"])
    except Exception as error:
        raise ExportError(f"onnxruntime does not load the exported graph: {_line(error)}") from None
    for length in samples.lengths:
        for size in BATCH_SIZES:
            inputs = samples.batch(length, size)
            wanted = samples.vectors(inputs)
            try:
                (got,) = session.run([OUTPUT], {name: tensor.numpy() for name, tensor in inputs.items()})
            except Exception as error:
                raise ExportError(
                    f"onnxruntime does not run the exported graph on {size} × {length} tokens: {_line(error)}"
                ) from None
            difference = relative_difference(np.asarray(got), wanted)
            if not difference <= LIMIT:
                raise ExportError(
                    f"the exported graph does not give the model's vectors: on {size} × {length} tokens one differs "
                    f"by {difference:.1e}, and at most {LIMIT:.0e} is accepted. Nothing was written."
                )
            largest, dimension = max(largest, difference), wanted.shape[1]
    return largest, dimension


def relative_difference(got: np.ndarray, wanted: np.ndarray) -> float:
    """The largest difference of one number, relative to the length of its vector; not a number if one is not."""
    if got.shape != wanted.shape:
        return float("nan")
    length = np.linalg.norm(wanted, axis=1, keepdims=True)
    return float((np.abs(got - wanted) / np.where(length > 0, length, 1)).max())


def check_tokenizer(samples: Samples, folder: Path) -> None:
    """Raise if the tokenizer that was written gives other tokens than the model does."""
    from tokenizers import Tokenizer

    file = folder / "tokenizer.json"
    if not file.exists():
        return
    tokenizer = Tokenizer.from_file(str(file))
    texts = [samples.text(words) for words in (1, samples.lengths[1], 2 * samples.lengths[-1])]
    wanted = samples.features(texts)
    got = tokenizer.encode_batch([samples.prompt + text for text in texts])
    same = [one.ids for one in got] == wanted["input_ids"].tolist()
    if not same or [one.attention_mask for one in got] != wanted["attention_mask"].tolist():
        raise ExportError(
            "the model's tokenizer alone does not give the tokens that the model reads, so that a graph with it "
            "would give other vectors."
        )


def _line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
