"""`ModelEncoder`: one side of a SentenceTransformer under a calibration."""

import json
import warnings
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Pooling
from sentence_transformers.util import batch_to_device

from fairspan.calibration.calibration import PRESETS, Calibration, Side
from fairspan.calibration.level import CommonDirection
from fairspan.encoding.direct import DirectEncoder, encode_side
from fairspan.encoding.encoder import Encoder
from fairspan.encoding.text import Text, key_of
from fairspan.encoding.tokens import ModelTokens, cutting, tokens_of_spans, window_of
from fairspan.errors import FairspanError, UnsupportedModel
from fairspan.model.build import calibrate, common_direction
from fairspan.model.level import Level, level_of
from fairspan.model.segments import SegmentedText
from fairspan.model.transformer import CalibratedTransformer, calibrated_transformers
from fairspan.model.window import ANY_LENGTH

# Part of every key: raised when the engine's numbers change, so that old vectors are not used.
ENGINE = 4


class ModelEncoder(Encoder):
    """One side of a SentenceTransformer under a calibration, which cuts texts at its window.

    With `by_segments` every segment of a text is a tile; a text without borders is one segment.
    `common` is for a calibration with level; by default it is the model's own, or found.
    """

    def __init__(
        self,
        model: SentenceTransformer,
        calibration: Calibration,
        *,
        prompt: str,
        fingerprint: str,
        side: Side = "document",
        by_segments: bool = False,
        common: CommonDirection | None = None,
    ) -> None:
        """Calibrate the model, and name all that decides its vectors."""
        self.window = window_of(model, calibration, side)
        # How far the plain model reads, which decides a direction that is found.
        plain_window = window_of(model, PRESETS["plain"], side)
        if calibration.on(side).level:
            common = common or common_direction(model, prompt=prompt)
            model = calibrate(model, calibration, level=common)
        elif calibration.on(side).acts:
            model = calibrate(model, calibration)
        self.model = cutting(model, self.window)
        self._prompt = prompt
        self._side = side
        self._by_segments = by_segments
        # Read back from the modules: a model may have come calibrated, and "plain" leaves it so.
        modules = list(calibrated_transformers(self.model))
        acting = [_acting(module, side) for module in modules]
        self.common = level_of(self.model) if side == "document" else None
        if self.common is not None:
            acting.append({"plain_window": plain_window})
        identity = [ENGINE, fingerprint, acting, prompt, side, by_segments]
        self._identity = json.dumps(identity, sort_keys=True)
        self._plain = json.dumps([ENGINE, fingerprint, [], prompt, side, False], sort_keys=True)
        # How many tokens a text may have to have its plain vector.
        self._kept = 0
        calibrations = [module.calibration for module in modules]
        keeps = [
            calibration.reads_what_fits_plainly and not calibration.level
            for calibration in calibrations
        ]
        if modules and all(keeps) and not by_segments:
            windows = [module.tiling.at_once for module in modules if module.tiling is not None]
            self._kept = min(windows, default=ANY_LENGTH)

    @cached_property
    def _direct(self) -> DirectEncoder:
        """Made for the first batch: it runs the model, which counting texts does not need."""
        return DirectEncoder(self.model, self._side, prompt=self._prompt)

    def vectors(self, batch: Sequence[Text]) -> list[np.ndarray]:
        """One vector per text, [d]."""
        if not self._by_segments:
            return list(self._direct.vectors(self._direct.read([text.text for text in batch])))
        with warnings.catch_warnings():
            # What is cut off is reported where `window` is read.
            cut_off = "(?s).*is longer than the model: its segments"
            warnings.filterwarnings("ignore", message=cut_off)
            vectors = encode_side(self.model, self._side, self._read(batch), self._prompt)
        return list(np.asarray(vectors, dtype=np.float32))

    def with_spans(self, batch: Sequence[Text]) -> list[np.ndarray]:
        """The vector of each text and those of its spans, [1 + spans, d], from the same pass."""
        self.model.eval()
        with torch.inference_mode():
            # `encode` does not give tokens and vectors together in every version.
            features = self.model.preprocess(self._read(batch), prompt=self._prompt or None)
            # A copy, so that a pass which computed only the pooled row computes all tokens now.
            features = dict(self.model(batch_to_device(features, self.model.device)))
        offsets = ModelTokens(self.model, self._prompt).offsets([text.text for text in batch])
        vectors = features["sentence_embedding"].float().cpu().numpy()
        results = []
        for number, (text, text_offsets) in enumerate(zip(batch, offsets, strict=True)):
            tokens = _tokens_of(features, number, len(text_offsets), text)
            spans = _span_vectors(text, text_offsets, tokens)
            if self.common is not None:
                spans = self.common.level(spans)
            results.append(np.concatenate([vectors[number : number + 1], spans]))
        return results

    def key(self, text: Text) -> bytes:
        """Where the vector of a text is stored: its segments and where it is cut decide it, too."""
        borders = text.borders if self._by_segments else None
        cut = self.window if self.window is not None and text.length > self.window else None
        identity = self._plain if text.length <= self._kept else self._identity
        key = key_of(identity, text.text, json.dumps([borders, cut]))
        return key_of(key.hex(), str(text.spans)) if text.spans else key

    def _read(self, batch: Sequence[Text]) -> list[str]:
        """The texts as the model is to read them."""
        if self._by_segments:
            return [SegmentedText.cut(text.text, text.borders or (0,)) for text in batch]
        return [text.text for text in batch]


def refuse_other_spaces(model: SentenceTransformer, what: str, *, of_means: bool = False) -> None:
    """Raise unless token embeddings and whole vectors are in one space, so that they compare.

    They are if only one pooling, and perhaps a normalisation, follows the transformer. Where whole
    vectors are made level, those of spans of tokens are, too. `what` compares them, and names
    itself where it cannot; with `of_means` for mean pooling only.
    """
    modules = [module for module in model.children() if not isinstance(module, Level)]
    after = [type(module).__name__ for module in modules][1:]
    modes = [module.pooling_mode for module in model.children() if isinstance(module, Pooling)]
    pooled_once = len(modes) == 1 and isinstance(modes[0], str)
    keeps_space = pooled_once and after[1:] in ([], ["Normalize"])
    if not keeps_space or model.truncate_dim is not None:
        raise UnsupportedModel(
            f"{what} compares tokens with whole vectors, and this model changes the space "
            f"between them ({', '.join(after) or 'no pooling'}, "
            f"truncate_dim={model.truncate_dim}): omit {what}."
        )
    if of_means and modes[0] not in ("mean", "mean_sqrt_len_tokens"):
        raise UnsupportedModel(
            f"{what} compares the mean of a segment's tokens with its vector, which this model "
            f"takes by {modes[0]} pooling: omit {what}, or use a model with mean pooling."
        )


def _acting(module: CalibratedTransformer, side: Side) -> dict[str, Any]:
    """What decides the vectors of one side, whether or not a calibration acts on the other too."""
    calibration = module.calibration
    fields = {**calibration.to_dict(), "level": calibration.on(side).level}
    if calibration.on(side).acts:
        fields["sides"] = "both"
    if module.tiling is not None:
        fields["window"] = module.tiling.at_once
    return fields


def _tokens_of(features: dict[str, Any], number: int, count: int, text: Text) -> torch.Tensor:
    """[tokens, dimension] of one text of a batch, without padding."""
    tokens = features.get("token_embeddings")
    mask = features.get("attention_mask")
    if tokens is None or mask is None or tokens.ndim != 3 or mask.shape != tokens.shape[:2]:
        raise UnsupportedModel(
            "retention needs token embeddings in padded batches, which this model does not give: "
            "load it without flash attention, or omit retention."
        )
    read: torch.Tensor = tokens[number][mask[number].bool()]
    if len(read) != count:
        raise FairspanError(
            f"the model read {len(read)} tokens of the document that begins {text.text[:40]!r}, "
            f"and its tokenizer made {count}: tokens cannot be assigned to segments."
        )
    return read


def _span_vectors(text: Text, offsets: np.ndarray, tokens: torch.Tensor) -> np.ndarray:
    """[spans, dimension], the L2-normalised mean of each span's tokens."""
    if not text.spans:
        return np.empty((0, tokens.shape[-1]), dtype=np.float32)
    means = []
    for span, numbers in zip(text.spans, tokens_of_spans(offsets, text.spans), strict=True):
        if not len(numbers):
            raise FairspanError(
                f"no token is in {text.text[slice(*span)][:40]!r}, so it has no contextual vector."
            )
        means.append(tokens[torch.from_numpy(numbers).to(tokens.device)].double().mean(dim=0))
    stacked = torch.nn.functional.normalize(torch.stack(means), dim=1)
    return stacked.float().cpu().numpy()
