"""`Service`: a model that answers requests for embeddings, with its sides, prompts and limits."""

from __future__ import annotations

import asyncio
import logging
import math
import re
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

import numpy as np
from sentence_transformers import SentenceTransformer

from fairspan import __version__
from fairspan.calibration.calibration import Calibration
from fairspan.calibration.temperature import Side
from fairspan.calibration.words import in_words
from fairspan.encoding.direct import DirectEncoder, ReadText, usable
from fairspan.errors import EncodingError, MissingExtra
from fairspan.model.language_text import LanguageText
from fairspan.serving.batcher import Batcher, PassFailed, QueueFull, Watch
from fairspan.serving.limits import Limits
from fairspan.serving.metrics import Metrics
from fairspan.serving.protocol import Asked, Names, Refusal, too_large

Result = TypeVar("Result")

_log = logging.getLogger("fairspan.serving")
SIDES: tuple[Side, ...] = ("document", "query")
_SERVER_ERROR = "server_error"
# Reading fewer characters than this takes less time than handing them to another thread.
_READ_AT_ONCE = 4000
# Of vectors; checking or writing more takes a millisecond or longer.
_AT_ONCE = 16_384
_MATRYOSHKA = re.compile("matryoshka", re.IGNORECASE)


@dataclass(frozen=True, slots=True, eq=False)
class Embedded:
    """What became of a request: vectors [texts, dimension], tokens read, and which texts were cut."""

    vectors: np.ndarray
    tokens: int
    truncated: list[int]


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
        metrics: Metrics | None = None,
    ) -> None:
        self.model, self.limits, self.truncate = model, limits or Limits(), truncate
        self.metrics = metrics or Metrics()
        self.names = Names(tuple(dict.fromkeys([name, *aliases])), tuple(model.prompts or ()))
        self._encoders: dict[tuple[Side, str | None], DirectEncoder] = {}
        try:
            for side in SIDES:
                self._encoder(side)
        except RuntimeError as error:
            raise EncodingError(f"{name} does not embed even a short text: {_first_line(error)}") from None
        self.can_be_cut = force_dimensions or was_trained_for_cutting(model)
        on_cpu = model.device.type == "cpu"
        self.batcher = Batcher(
            budget=self.limits.batch_tokens or (4096 if on_cpu else 16384),
            room=self.limits.queue_tokens,
            patience=self.limits.patience_ms / 1000,
            watch=_Counting(self.metrics),
        )
        self.metrics.watch_queue(lambda: self.batcher.requests, lambda: self.batcher.tokens)
        self.is_warm = self.is_draining = False
        self._readers = ThreadPoolExecutor(2, thread_name_prefix="tokenizer")

    @property
    def name(self) -> str:
        return self.names.names[0]

    @property
    def state(self) -> str:
        """ "ready", or why no request should be sent."""
        if self.batcher.broken is not None:
            return "broken"
        return "draining" if self.is_draining else "ready" if self.is_warm else "starting"

    @property
    def calibration(self) -> Calibration | None:
        found = (getattr(module, "calibration", None) for module in self.model.modules())
        return next((one for one in found if isinstance(one, Calibration)), None)

    @property
    def dimension(self) -> int:
        return self._encoder("document").dimension

    @property
    def windows(self) -> dict[Side, int | None]:
        """How many tokens of a text are read on each side."""
        return {side: self._encoder(side).window for side in SIDES}

    def info(self) -> dict[str, Any]:
        """What is served, and how."""
        calibration = self.calibration
        return {
            "model": self.name,
            "names": self.names.every,
            "calibration": None if calibration is None else calibration.to_dict(),
            "calibration_in_words": "the plain model" if calibration is None else in_words(calibration),
            "max_tokens": self.windows,
            "too_long": "truncate" if self.truncate else "refuse",
            "dimension": self.dimension,
            "dimensions_can_be_cut": self.can_be_cut,
            "prompts": {side: self._encoder(side).prompt for side in SIDES},
            "prompt_names": list(self.names.prompts),
            "takes_token_ids": self._encoder("document").takes_ids,
            "needs_language": self._encoder("document").needs_language,
            "limits": {**asdict(self.limits), "batch_tokens": self.batcher.budget},
            "device": str(self.model.device),
            "dtype": str(self.model.dtype).removeprefix("torch."),
            "version": __version__,
        }

    async def start(self) -> None:
        """Run a short text and a full batch on each side, where requests will be run."""
        if not self.is_warm:
            self.batcher.start()
            await self.batcher.call(self._warm_up)
            self.is_warm = True

    def close(self, timeout: float | None = None) -> bool:
        """Finish what waits; whether that ended in time."""
        self._readers.shutdown(wait=False)
        return self.batcher.close(timeout)

    async def embed(self, asked: Asked) -> Embedded:
        """The vectors of a request.

        Raises:
            Refusal: if there are none.
        """
        self._check_dimensions(asked)
        try:
            # Before its texts are tokenised for nothing; one at least will be a token.
            self.batcher.refuse_if_full(1)
            return await self._embed(asked)
        except QueueFull as error:
            raise busy(error.seconds) from None

    async def _embed(self, asked: Asked) -> Embedded:
        encoder = await self._encoder_of(asked)
        with self.batcher.coming():
            texts = await self._read(encoder, asked)
        tokens = sum(text.read for text in texts)
        truncated = [index for index, text in enumerate(texts) if text.cut]
        if truncated and not self.truncate:
            raise self._too_long(truncated[0], texts[truncated[0]], encoder)
        if tokens > self.limits.request_tokens:
            raise too_large(
                f"'input' has {tokens:,} tokens; a request may have {self.limits.request_tokens:,}.", "input"
            )
        try:
            vectors = await self.batcher.vectors(encoder, texts)
        except PassFailed as error:
            raise _failed(error, texts[error.index]) from None
        self.metrics.truncated.inc(len(truncated))
        checked = await off_loop(vectors.size, lambda: self._cut(vectors, asked.dimensions))
        return Embedded(checked, tokens, truncated)

    def _encoder(self, side: Side, prompt_name: str | None = None) -> DirectEncoder:
        key = (side, prompt_name)
        if key not in self._encoders:
            prompt = None if prompt_name is None else self.model.prompts[prompt_name]
            self._encoders[key] = DirectEncoder(self.model, side, prompt=prompt)
        return self._encoders[key]

    async def _encoder_of(self, asked: Asked) -> DirectEncoder:
        side, prompt_name = asked.side, asked.prompt_name
        if prompt_name is not None and self.model.prompts[prompt_name] == self._encoder(side).prompt:
            prompt_name = None
        known = self._encoders.get((side, prompt_name))
        if known is not None:
            return known
        # Making one runs the model.
        return await self.batcher.call(lambda: self._encoder(side, prompt_name))

    async def _read(self, encoder: DirectEncoder, asked: Asked) -> list[ReadText]:
        inputs: Any = asked.inputs
        if asked.language is not None and encoder.needs_language and not asked.are_ids:
            inputs = [LanguageText(text, asked.language) for text in inputs]

        def read() -> list[ReadText]:
            if asked.are_ids:
                return [_read_ids(encoder, index, ids) for index, ids in enumerate(inputs)]
            return encoder.read(inputs)

        if not encoder.takes_ids:
            # Then the model's own tokenizer counts, which a pass may be using.
            return await self.batcher.call(read)
        if sum(map(len, inputs)) <= _READ_AT_ONCE:
            return read()
        return await asyncio.get_running_loop().run_in_executor(self._readers, read)

    def _check_dimensions(self, asked: Asked) -> None:
        wanted, has = asked.dimensions, self.dimension
        if wanted is None or wanted == has:
            return
        if wanted > has:
            raise Refusal(
                400, f"'dimensions' is {wanted}; the vectors have {has}.", param="dimensions", code="invalid_value"
            )
        if not self.can_be_cut:
            raise Refusal(
                400,
                f"Nothing says that the model was trained for fewer than its {has} dimensions (Matryoshka training), "
                "and cut vectors of other models find less: omit 'dimensions', or start the server with "
                "--force-dimensions.",
                param="dimensions",
                code="unsupported_value",
            )

    def _too_long(self, index: int, text: ReadText, encoder: DirectEncoder) -> Refusal:
        return Refusal(
            400,
            f"'input[{index}]' has {text.length:,} tokens, prompt and special tokens included; this model reads "
            f"{encoder.window:,}. Send a shorter text, or start the server with --truncate, or with tiles and a "
            "larger --max-tokens.",
            param="input",
            code="context_length_exceeded",
        )

    def _cut(self, vectors: np.ndarray, dimensions: int | None) -> np.ndarray:
        if dimensions is not None and dimensions < vectors.shape[1]:
            vectors = vectors[:, :dimensions]
            with np.errstate(invalid="ignore", divide="ignore"):
                vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        wrong = np.flatnonzero(~usable(vectors))
        if len(wrong):
            self.metrics.unusable.inc(len(wrong))
            _log.error("the model gave %d of %d vectors that are zero or not numbers", len(wrong), len(vectors))
            raise Refusal(
                500,
                f"The model gave a vector for 'input[{wrong[0]}]' that is all zero or not numbers. Another dtype may "
                "help: start the server with --dtype float32 or bfloat16.",
                kind=_SERVER_ERROR,
                param="input",
                code="unusable_vector",
            )
        return vectors

    def _warm_up(self) -> None:
        """Run both sides, and find out what a pass costs besides its tokens."""
        budget, costs = self.batcher.budget, []
        for side in SIDES:
            encoder = self._encoder(side)
            length = min(encoder.window or 512, budget)
            # With a language, so that no detector is needed where every request says one.
            (long,) = encoder.read([LanguageText("a " * length, "en")])
            (short,) = encoder.read([LanguageText("a few words", "en")])
            many = [long] * max(1, budget // max(1, long.read))
            for batch in ([short], many, [short]):
                start = time.perf_counter()
                try:
                    encoder.vectors(batch)
                except RuntimeError as error:
                    raise _does_not_fit(len(batch), batch[0].read, error) from None
                costs.append((len(batch) * batch[0].read, time.perf_counter() - start))
        (tokens, seconds), (few, least) = costs[-2:]
        per_token = max(seconds - least, 1e-9) / max(tokens - few, 1)
        self.batcher.pass_tokens = int(min(max(least / per_token - few, 0), budget))
        self.batcher.speed = tokens / seconds


async def off_loop(numbers: int, work: Callable[[], Result]) -> Result:
    """What `work` returns, in another thread if it deals with so many numbers that others would notice."""
    return work() if numbers <= _AT_ONCE else await asyncio.to_thread(work)


class _Counting(Watch):
    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def batch(self, texts: int, tokens: int, padded: int, seconds: float) -> None:
        own = self._metrics
        own.texts.inc(texts)
        own.tokens.inc(tokens)
        own.batch_texts.observe(texts)
        own.batch_tokens.observe(padded)
        own.model_seconds.observe(seconds)

    def begun(self, seconds: float) -> None:
        self._metrics.queue_seconds.observe(seconds)

    def failed(self, error: Exception) -> None:
        self._metrics.failures.inc()
        _log.error("a pass of the model failed: %s", _first_line(error))


def was_trained_for_cutting(model: SentenceTransformer) -> bool:
    """Whether the model says that it was trained for fewer dimensions: in its configuration or on its card."""
    config = getattr(getattr(model, "transformers_model", None), "config", None)
    if getattr(config, "is_matryoshka", False) or getattr(config, "matryoshka_dimensions", None):
        return True
    return bool(_MATRYOSHKA.search(str(getattr(model, "_model_card_text", None) or "")))


def _read_ids(encoder: DirectEncoder, index: int, ids: Any) -> ReadText:
    try:
        return encoder.read_ids(ids)
    except EncodingError as error:
        raise Refusal(400, f"'input[{index}]': {error.message}", param="input", code="invalid_token") from None


def busy(seconds: float) -> Refusal:
    wait = max(1, math.ceil(seconds))
    return Refusal(
        429,
        f"The queue is full. Try again in {wait} s.",
        kind="rate_limit_error",
        code="rate_limit_exceeded",
        headers={"Retry-After": str(wait)},
    )


def _failed(error: PassFailed, text: ReadText) -> Refusal:
    if isinstance(error.error, MissingExtra):
        said = "The model needs the language of a text, and no detector is installed: give 'language', such as 'de'."
        return Refusal(400, said, param="language", code="missing_required_parameter")
    return Refusal(
        500,
        f"The model failed on 'input[{error.index}]', of {text.read:,} tokens: {_first_line(error.error)}",
        kind=_SERVER_ERROR,
        param="input",
        code="out_of_memory" if "memory" in str(error).lower() else "model_failed",
    )


def _does_not_fit(texts: int, tokens: int, error: Exception) -> EncodingError:
    return EncodingError(
        f"the model failed on a batch of {texts} texts of {tokens:,} tokens: {_first_line(error)} If its memory is "
        "too small, use a smaller [[max_batch_tokens=]] or [[max_tokens=]]."
    )


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
