"""`Service`: a model that answers requests for embeddings, with its sides, prompts and limits."""

from __future__ import annotations

import asyncio
import ctypes
import logging
import re
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from typing import Any, TypeVar

import numpy as np
from sentence_transformers import SentenceTransformer

from fairspan import __version__
from fairspan.calibration.calibration import Calibration, Side
from fairspan.calibration.words import in_words
from fairspan.encoding.direct import DirectEncoder, ReadText, usable
from fairspan.errors import FairspanError, first_line
from fairspan.serving.batcher import Batcher, Limits
from fairspan.serving.metrics import Metrics
from fairspan.serving.protocol import Asked, Names, Refusal, too_large, wrong

_log = logging.getLogger("fairspan.serving")
SIDES: tuple[Side, ...] = ("document", "query")
Result = TypeVar("Result")
# Bytes, characters or numbers up to which a step of a request is done at once, and beyond which one at a time.
_SHORT, _LARGE = 4096, 65_536
# Far more than a token has in any language. A text with more of them in the window is not tokenised.
_TOKEN_CHARACTERS = 64


class Service:
    """One model, read in one thread.

    Args:
        model: as it is to answer, calibrated or not, with its window set.
        name: what it is called by clients.
        aliases: other names that are taken.
        truncate: cut a text that is longer than the window, and say so; otherwise refuse it.
        force_dimensions: give fewer `dimensions` also of a model that was not trained for it.
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
        self.model, self.limits, self.truncate = model, limits or Limits(), truncate
        self.metrics = Metrics()
        self.names = Names(tuple(dict.fromkeys([name, *aliases])), tuple(model.prompts or ()))
        self._encoders: dict[tuple[Side, str | None], DirectEncoder] = {}
        try:
            self._sides = {side: self._encoder(side, None) for side in SIDES}
        except RuntimeError as error:
            raise FairspanError(
                f"{name} does not embed even a short text: {first_line(error)}"
            ) from None
        self.can_be_cut = force_dimensions or was_trained_for_cutting(model)
        budget = self.limits.batch_tokens or (4096 if model.device.type == "cpu" else 16384)
        self.batcher = Batcher(budget=budget, room=self.limits.queue_tokens, metrics=self.metrics)
        self.is_draining = False
        # One thread, so that short requests find a core, and little memory is kept for the next large one.
        self._large = ThreadPoolExecutor(1, "large")
        self.batcher.submit(self._warm_up).result()

    @property
    def state(self) -> str:
        """ "ready", or why no request should be sent."""
        if self.batcher.broken is not None:
            return "broken"
        return "draining" if self.is_draining else "ready"

    def info(self) -> dict[str, Any]:
        """What is served, and how."""
        found = (getattr(module, "calibration", None) for module in self.model.modules())
        calibration = next((one for one in found if isinstance(one, Calibration)), None)
        documents = self._sides["document"]
        return {
            "model": self.names.names[0],
            "names": self.names.every,
            "calibration": None if calibration is None else calibration.to_dict(),
            "calibration_in_words": "the plain model"
            if calibration is None
            else in_words(calibration),
            "max_seq_length": {side: encoder.window for side, encoder in self._sides.items()},
            "too_long": "truncate" if self.truncate else "refuse",
            "dimension": documents.dimension,
            "dimensions_can_be_cut": self.can_be_cut,
            "prompts": {side: encoder.prompt for side, encoder in self._sides.items()},
            "prompt_names": list(self.names.prompts),
            "takes_token_ids": documents.takes_ids,
            "limits": asdict(self.limits)
            | {"batch_tokens": self.batcher.budget, "request_bytes": self.limits.body_bytes},
            "device": str(self.model.device),
            "dtype": str(self.model.dtype).removeprefix("torch."),
            "version": __version__,
        }

    async def embed(self, asked: Asked) -> tuple[np.ndarray, int, list[int]]:
        """The vectors [texts, dimension] of a request, the tokens read, and which texts were cut.

        Raises:
            Refusal: if there are none.
        """
        self._check_dimensions(asked.dimensions)
        key = (
            asked.side,
            None if asked.prompt_name is None else self.model.prompts[asked.prompt_name],
        )
        encoder = self._encoders.get(key)
        if encoder is None:
            encoder = await self.batcher.call(
                lambda: self._encoder(*key)
            )  # making one runs the model
        texts = await self._read(encoder, asked)
        tokens, truncated = (
            sum(text.read for text in texts),
            [index for index, text in enumerate(texts) if text.cut],
        )
        vectors = await self.batcher.vectors(encoder, texts)
        self.metrics.truncated.inc(len(truncated))
        checked = await self.in_turn(vectors.size, self._checked, vectors, asked.dimensions)
        return checked, tokens, truncated

    async def in_turn(self, size: int, work: Callable[..., Result], *given: Any) -> Result:
        """What `work` returns, in a thread unless that would take longer than the work."""
        if size <= _SHORT:
            return work(*given)
        if size <= _LARGE:
            return await asyncio.to_thread(work, *given)
        try:
            return await asyncio.wrap_future(self._large.submit(work, *given))
        finally:
            if size > 16 * _LARGE:
                self._large.submit(_release_memory)

    async def _read(self, encoder: DirectEncoder, asked: Asked) -> list[ReadText]:
        """The texts as the model reads them, a part at a time, up to one that is refused."""
        most = (encoder.window or self.limits.request_tokens) * _TOKEN_CHARACTERS
        longer = [index for index, one in enumerate(asked.inputs) if len(one) > most]
        if longer and not (self.truncate and encoder.keeps_beginning):
            raise self._too_long(longer[0], f"{len(asked.inputs[longer[0]]):,} characters", encoder)
        tokens, found = 0, list[ReadText]()
        for part in _parts([one[:most] for one in asked.inputs] if longer else asked.inputs):
            size = sum(map(len, part))
            # The model's own tokenizer, which counts where no ids are taken, may be in use by a pass.
            if encoder.takes_ids:
                read = await self.in_turn(size, _read, encoder, part)
            else:
                read = await self.batcher.call(partial(_read, encoder, part))
            for index, text in enumerate(read, start=len(found)):
                if text.cut and not self.truncate:
                    raise self._too_long(
                        index,
                        f"{text.length:,} tokens, prompt and special tokens included",
                        encoder,
                    )
            found += read
            tokens += sum(text.read for text in read)
            if tokens > self.limits.request_tokens:
                said = f"{'' if len(found) == len(asked.inputs) else 'at least '}{tokens:,} tokens"
                raise too_large(
                    f"'input' has {said}; at most {self.limits.request_tokens:,} are allowed.",
                    "input",
                )
        for index in longer:
            # With fewer tokens, what was left out might have been read.
            if found[index].length < 2 * found[index].read:
                raise self._too_long(index, f"{len(asked.inputs[index]):,} characters", encoder)
        return found

    def _too_long(self, index: int, has: str, encoder: DirectEncoder) -> Refusal:
        return wrong(
            "input",
            f"'input[{index}]' has {has}; this model reads {encoder.window:,} tokens. Send a shorter text, or start "
            "the server with --truncate, or with tiles and a larger --max-seq-length.",
            "context_length_exceeded",
        )

    def _encoder(self, side: Side, prompt: str | None) -> DirectEncoder:
        """One for a side and its prompt, None for the side's own."""
        if (side, prompt) not in self._encoders:
            made = DirectEncoder(self.model, side, prompt=prompt)
            self._encoders |= {(side, prompt): made, (side, made.prompt): made}
        return self._encoders[side, prompt]

    def _check_dimensions(self, wanted: int | None) -> None:
        has = self._sides["document"].dimension
        if wanted is None or wanted == has:
            return
        if wanted > has:
            raise wrong("dimensions", f"'dimensions' is {wanted}; the vectors have {has}.")
        if not self.can_be_cut:
            raise wrong(
                "dimensions",
                f"The model is not known to be trained for fewer than its {has} dimensions (Matryoshka), and "
                "truncating other models makes search worse: omit 'dimensions', or start the server with "
                "--force-dimensions.",
                "unsupported_value",
            )

    def _checked(self, vectors: np.ndarray, dimensions: int | None) -> np.ndarray:
        """The vectors, cut to that many dimensions, if all of them are numbers and none is zero."""
        if dimensions is not None and dimensions < vectors.shape[1]:
            vectors = vectors[:, :dimensions]
            with np.errstate(invalid="ignore", divide="ignore"):
                vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        unusable = np.flatnonzero(~usable(vectors))
        if len(unusable):
            self.metrics.unusable.inc(len(unusable))
            _log.error(
                "the model gave %d of %d vectors that are zero or not numbers",
                len(unusable),
                len(vectors),
            )
            raise Refusal(
                500,
                f"The model gave a vector for 'input[{unusable[0]}]' that is all zero or not numbers. Another dtype "
                "may help: start the server with --dtype float32 or bfloat16.",
                kind="server_error",
                param="input",
                code="unusable_vector",
            )
        return vectors

    def _warm_up(self) -> None:
        """Run a short text and a full batch on each side, and find out what a pass costs besides its tokens."""
        budget, costs = self.batcher.budget, []
        for encoder in self._sides.values():
            long, short = encoder.read(["a " * min(encoder.window or 512, budget), "a few words"])
            for batch in ([short], [long] * max(1, budget // max(1, long.read)), [short]):
                start = time.perf_counter()
                try:
                    encoder.vectors(batch)
                except RuntimeError as error:
                    raise FairspanError(
                        f"the model failed on a batch of {len(batch)} texts of {batch[0].read:,} tokens: "
                        f"{first_line(error)} If its memory is too small, use a smaller max_batch_tokens or "
                        "max_seq_length."
                    ) from None
                costs.append((len(batch) * batch[0].read, time.perf_counter() - start))
        (tokens, seconds), (few, least) = costs[-2:]
        per_token = max(seconds - least, 1e-9) / max(tokens - few, 1)
        self.batcher.pass_tokens = int(min(max(least / per_token - few, 0), budget))
        self.batcher.speed = tokens / seconds


def was_trained_for_cutting(model: SentenceTransformer) -> bool:
    """Whether the model says that it was trained for fewer dimensions: in its configuration or on its card."""
    config = getattr(getattr(model, "transformers_model", None), "config", None)
    if getattr(config, "is_matryoshka", False) or getattr(config, "matryoshka_dimensions", None):
        return True
    return bool(
        re.search("matryoshka", str(getattr(model, "_model_card_text", None) or ""), re.IGNORECASE)
    )


def _release_memory() -> None:
    """Give back what large requests took, where the C library would keep it for the next ones."""
    with suppress(AttributeError, OSError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)


def _parts(inputs: Sequence[Any]) -> Iterator[Sequence[Any]]:
    """Of about `_LARGE` characters or ids each."""
    start = size = 0
    for end, one in enumerate(inputs, start=1):
        size += len(one)
        if size > _LARGE or end == len(inputs):
            yield inputs[start:end]
            start, size = end, 0


def _read(encoder: DirectEncoder, inputs: Sequence[Any]) -> list[ReadText]:
    if isinstance(inputs[0], str):
        return encoder.read(inputs)
    try:
        return [encoder.read_ids(ids) for ids in inputs]
    except FairspanError as error:
        raise wrong("input", f"'input': {error}", "invalid_token") from None
