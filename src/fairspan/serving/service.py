"""`Service`: a model that answers requests for embeddings, with its sides, prompts and limits."""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict
from importlib.metadata import version
from typing import Any

import numpy as np
from sentence_transformers import SentenceTransformer

from fairspan.calibration.calibration import Side
from fairspan.calibration.words import in_words
from fairspan.encoding.direct import DirectEncoder, ReadText, usable
from fairspan.errors import FairspanError, first_line
from fairspan.model.transformer import calibrated_transformers
from fairspan.serving.batcher import Batcher
from fairspan.serving.limits import Limits
from fairspan.serving.metrics import Metrics
from fairspan.serving.protocol import EmbeddingRequest, Names, empty, failed, too_large, wrong
from fairspan.serving.reader import Reader

_log = logging.getLogger("fairspan.serving")
SIDES: tuple[Side, ...] = ("document", "query")
# Requests with more characters are tokenised in a thread, one at a time.
_SHORT = 4096
_LARGE = 65_536
# Most seconds of a full pass, and least length of a pass, as a multiple of its fixed cost.
_PASS_SECONDS = 0.25
_LEAST_PASSES = 16
# The fixed cost of a pass, in tokens.
_CPU_PASS = 48
_GPU_PASS = 4096


class Service:
    """One model, and what is allowed of it.

    Texts longer than its window are cut with `truncate`, and refused otherwise. Fewer dimensions
    are given if it was trained for that, or with `force_dimensions`.
    """

    def __init__(
        self,
        model: SentenceTransformer,
        *,
        name: str,
        aliases: Sequence[str] = (),
        limits: Limits | None = None,
        truncate: bool = False,
        force_dimensions: bool = False,
    ) -> None:
        """Load an encoder for each side, and run the model once."""
        self.model = model
        self.limits = limits or Limits()
        self.truncate = truncate
        self.metrics = Metrics()
        self.names = Names(tuple(dict.fromkeys([name, *aliases])), tuple(model.prompts or ()))
        try:
            self._sides = {side: Reader.of(DirectEncoder(model, side)) for side in SIDES}
        except RuntimeError as error:
            message = f"{name} does not embed even a short text: {first_line(error)}"
            raise FairspanError(message) from None
        self._prompted: dict[tuple[Side, str], Future[Reader]] = {}
        self.can_be_cut = force_dimensions or was_trained_for_cutting(model)
        on_cpu = model.device.type == "cpu"
        self.budget = self.limits.max_batch_tokens or (4096 if on_cpu else 16384)
        pass_tokens = _CPU_PASS if on_cpu else _GPU_PASS
        speed = self._warm_up()
        size = min(self.budget, max(_LEAST_PASSES * pass_tokens, int(_PASS_SECONDS * speed)))
        room = self.limits.max_queue_tokens
        self.batcher = Batcher(
            self.metrics, size=size, room=room, speed=speed, pass_tokens=pass_tokens
        )
        # One thread, so that large requests leave a core to short ones.
        self._large = ThreadPoolExecutor(1, "large")

    def close(self) -> None:
        """Take no more; what is under way is finished."""
        self.batcher.close()
        self._large.shutdown(wait=False, cancel_futures=True)

    def info(self) -> dict[str, Any]:
        """What is served, and how."""
        calibrated = calibrated_transformers(self.model)
        calibration = next((module.calibration for module in calibrated), None)
        encoders = {side: reader.encoder for side, reader in self._sides.items()}
        limits = {name.removeprefix("max_"): most for name, most in asdict(self.limits).items()}
        limits["batch_tokens"] = self.budget
        limits["request_bytes"] = self.limits.body_bytes
        return {
            "model": self.names.names[0],
            "names": self.names.every,
            "calibration": calibration and calibration.to_dict(),
            "calibration_in_words": in_words(calibration) if calibration else "the plain model",
            "max_seq_length": {side: encoder.window for side, encoder in encoders.items()},
            "too_long": "truncate" if self.truncate else "refuse",
            "dimension": encoders["document"].dimension,
            "dimensions_can_be_cut": self.can_be_cut,
            "prompts": {side: encoder.prompt for side, encoder in encoders.items()},
            "prompt_names": list(self.names.prompts),
            "limits": limits,
            "device": str(self.model.device),
            "dtype": str(self.model.dtype).removeprefix("torch."),
            "version": version("fairspan"),
        }

    async def embed(self, request: EmbeddingRequest) -> tuple[np.ndarray, int, list[int]]:
        """[texts, dimension], the tokens read, and which texts were cut."""
        self._check_dimensions(request.dimensions)
        reader = await self._reader(request.side, request.prompt_name)
        texts = await self._read(reader, request.inputs)
        self._check_texts(reader, texts)
        lengths = [text.read for text in texts]
        truncated = [index for index, text in enumerate(texts) if text.cut]
        vectors = await self.batcher.vectors(reader, texts, lengths)
        self.metrics.truncated.inc(len(truncated))
        return self._checked(vectors, request.dimensions), sum(lengths), truncated

    async def _read(self, reader: Reader, texts: Sequence[str]) -> list[ReadText]:
        """The texts as the model reads them, in a thread unless that takes longer than reading."""
        characters = sum(map(len, texts))
        if characters <= _SHORT:
            return reader.encoder.read(texts)
        thread = None if characters <= _LARGE else self._large
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(thread, reader.encoder.read, texts)

    async def _reader(self, side: Side, prompt_name: str | None) -> Reader:
        """The reader of a side with one of the model's prompts, or with the side's own."""
        if prompt_name is None:
            return self._sides[side]
        making = self._prompted.get((side, prompt_name))
        if making is None or (making.done() and making.exception() is not None):
            encoder = self._sides[side].encoder
            prompt = self.model.prompts[prompt_name]
            # Making one runs the model.
            making = self.batcher.submit(lambda: Reader.of(encoder.with_prompt(prompt)))
            self._prompted[side, prompt_name] = making
        # Shielded: a client that leaves must not cancel what others wait for.
        return await asyncio.shield(asyncio.wrap_future(making))

    def _check_texts(self, reader: Reader, texts: Sequence[ReadText]) -> None:
        """Raise if a text is empty or too long, or all of them together are."""
        window = reader.encoder.window
        for index, text in enumerate(texts):
            if reader.is_empty(text):
                raise empty(index, of=len(texts))
            if text.cut and not self.truncate:
                raise wrong(
                    "input",
                    f"'input[{index}]' has {text.length:,} tokens, prompt and special tokens "
                    f"included; this model reads {window:,} tokens. Send a shorter text, or start "
                    "the server with --truncate, or with tiles and a larger --max-seq-length.",
                    "context_length_exceeded",
                )
        tokens = sum(text.read for text in texts)
        if tokens > self.limits.max_request_tokens:
            allowed = f"at most {self.limits.max_request_tokens:,} are allowed"
            raise too_large(f"'input' has {tokens:,} tokens; {allowed}.", "input")

    def _check_dimensions(self, dimensions: int | None) -> None:
        """Raise unless vectors can be cut to that many dimensions."""
        full = self._sides["document"].encoder.dimension
        if dimensions is None or dimensions == full:
            return
        if dimensions > full:
            raise wrong("dimensions", f"'dimensions' is more than the {full} of the vectors.")
        if not self.can_be_cut:
            raise wrong(
                "dimensions",
                f"The model is not known to be trained for fewer than its {full} dimensions "
                "(Matryoshka), and truncating other models makes search worse: omit 'dimensions', "
                "or start the server with --force-dimensions.",
                "unsupported_value",
            )

    def _checked(self, vectors: np.ndarray, dimensions: int | None) -> np.ndarray:
        """[texts, dimensions]: the vectors, cut and scaled to length 1, if all are usable."""
        if dimensions is not None and dimensions < vectors.shape[1]:
            vectors = vectors[:, :dimensions]
            with np.errstate(invalid="ignore", divide="ignore"):
                vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        unusable = np.flatnonzero(~usable(vectors))
        if len(unusable):
            self.metrics.unusable.inc(len(unusable))
            counts = len(unusable), len(vectors)
            _log.error("the model gave %d of %d vectors that are zero or not numbers", *counts)
            raise failed(
                f"The model gave a vector for 'input[{unusable[0]}]' that is all zero or not "
                "numbers. Another dtype may help: start the server with --dtype float32 or "
                "bfloat16.",
                "unusable_vector",
            )
        return vectors

    def _warm_up(self) -> float:
        """The tokens per second of a full batch, which is run on each side."""
        for reader in self._sides.values():
            words = "a " * min(reader.encoder.window or 512, self.budget)
            (text,) = reader.encoder.read([words])
            batch = [text] * max(1, self.budget // max(1, text.read))
            try:
                # The first pass takes longer.
                reader.encoder.vectors(batch)
                start = time.perf_counter()
                reader.encoder.vectors(batch)
            except RuntimeError as error:
                raise FairspanError(
                    f"the model failed on a batch of {len(batch)} texts of {text.read:,} tokens: "
                    f"{first_line(error)} If its memory is too small, use a smaller "
                    "max_batch_tokens or max_seq_length."
                ) from None
        return len(batch) * text.read / (time.perf_counter() - start)


def was_trained_for_cutting(model: SentenceTransformer) -> bool:
    """Whether the model's configuration or card says that it was trained for fewer dimensions."""
    config = getattr(getattr(model, "transformers_model", None), "config", None)
    if getattr(config, "is_matryoshka", False) or getattr(config, "matryoshka_dimensions", None):
        return True
    card = str(getattr(model, "_model_card_text", None) or "")
    return re.search("matryoshka", card, re.IGNORECASE) is not None
