"""`LanguageModule`: a correction of languages as the last module of a SentenceTransformer; texts with languages."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.numpy import load_file
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules.module import Module
from torch import Tensor

from fairspan.calibration.language_method import LanguageMethod
from fairspan.errors import FairspanError, LoadError, UnsupportedModel
from fairspan.model.language_text import LanguageText
from fairspan.model.languages import NOTHING, LanguageCorrection, Shares

# A feature of fairspan's own: the languages of every text of a batch with their shares.
LANGUAGES = "fairspan_languages"
_MATRICES = {"offsets": 2, "directions": 3}
_FILE = "model.safetensors"
_PLACES = ("token", "cache_folder", "revision", "local_files_only")


class LanguageModule(Module):
    """v − r_l(v) after everything else; see `LanguageCorrection`. Vectors of unknown languages stay as they are."""

    # The reference written to modules.json; it must not change when files move.
    __module__ = "fairspan.model"
    config_keys: ClassVar[list[str]] = ["method", "languages", "normalise", "fitted_on"]

    offsets: Tensor | None
    directions: Tensor | None

    def __init__(self, correction: LanguageCorrection) -> None:
        super().__init__()
        self.method, self.languages = correction.method, list(correction.languages)
        self.normalise, self.fitted_on = correction.normalise, dict(correction.fitted_on)
        self.dimension, self.needs_language = correction.dimension, correction.needs_language
        self.correction = correction
        self.untouched: dict[str, int] = {}
        """How many texts so far had a part in each language that was not fitted."""
        for name in _MATRICES:
            matrix = getattr(correction, name)
            # In one order of memory, in which a saved one is as well: sums round alike.
            made = None if matrix is None else torch.from_numpy(np.ascontiguousarray(matrix, dtype=np.float32))
            self.register_buffer(name, made)

    def on_model_ready(self, model: SentenceTransformer) -> None:
        """Have the texts' languages sent along with every batch."""
        for module in model.modules():
            if hasattr(module, "name_languages"):
                # A tuple keeps this module from being registered as a part of that one.
                module.name_languages = (self.spoken,)

    def spoken(self, texts: Sequence[Any]) -> list[Shares] | None:
        """The languages of texts: those that they come with, or what a detector finds; None if none are needed."""
        if not self.needs_language:
            return None
        found: list[Shares | None] = [getattr(text, "spoken", None) for text in texts]
        unknown = [str(text) for text, own in zip(texts, found, strict=True) if own is None]
        if unknown:
            from fairspan.model.detection import detect_languages

            detected = iter(detect_languages(unknown, self.method))
            found = [((next(detected), 1.0),) if own is None else own for own in found]
        shares = [own for own in found if own is not None]
        for language, count in self.correction.untouched(shares).items():
            self.untouched[language] = self.untouched.get(language, 0) + count
        return shares

    def forward(self, features: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        given: Tensor = features["sentence_embedding"]
        vectors = torch.nn.functional.normalize(given, dim=-1) if self.normalise else given
        after = vectors - self._removed(vectors, features)
        gone = after.norm(dim=-1, keepdim=True) <= NOTHING * vectors.norm(dim=-1, keepdim=True)
        after = torch.where(gone, vectors, after)
        features["sentence_embedding"] = torch.nn.functional.normalize(after, dim=-1) if self.normalise else after
        return features

    def _removed(self, vectors: Tensor, features: Mapping[str, Any]) -> Tensor:
        if not self.needs_language:
            basis = self._matrix(self.directions, vectors)[0]
            return vectors @ basis.T @ basis
        if LANGUAGES not in features:
            raise FairspanError(f"{self.method} needs the language of each text: use fairspan.encode_languages.")
        weights = torch.from_numpy(self.correction.weights(features[LANGUAGES])).to(vectors)
        if self.offsets is not None:
            return weights @ self._matrix(self.offsets, vectors)
        bases = self._matrix(self.directions, vectors)
        along = torch.einsum("nd,lkd->nlk", vectors, bases)
        return torch.einsum("nl,nlk,lkd->nd", weights, along, bases)

    @staticmethod
    def _matrix(matrix: Tensor | None, like: Tensor) -> Tensor:
        assert matrix is not None
        return matrix.to(like)

    def get_embedding_dimension(self) -> int:
        return self.dimension

    def save(self, output_path: str, *args: Any, safe_serialization: bool = True, **kwargs: Any) -> None:
        self.save_config(output_path)
        self.save_torch_weights(output_path)

    @classmethod
    def load(cls, model_name_or_path: str, subfolder: str = "", **kwargs: Any) -> LanguageModule:
        places = {name: kwargs[name] for name in _PLACES if name in kwargs}
        config = cls.load_config(model_name_or_path, subfolder=subfolder, **places)
        file = cls.load_file_path(model_name_or_path, _FILE, subfolder=subfolder, **places)
        return cls(read_correction(config, file, str(Path(model_name_or_path) / subfolder)))


def read_correction(config: Mapping[str, Any], file: str | None, where: str) -> LanguageCorrection:
    """A saved correction.

    Raises:
        LoadError: if its configuration and its matrices are not those of a correction.
    """
    try:
        method, languages = str(config["method"]), tuple(map(str, config["languages"]))
        LanguageMethod.read(method)
        found = {} if file is None else load_file(file)
    except (KeyError, TypeError, FairspanError, SafetensorError, OSError) as error:
        raise LoadError(f"{where} holds no correction of languages: {str(error).splitlines()[0]}.") from None
    made = LanguageCorrection(
        method,
        languages,
        **{name: found[name].astype(np.float64) for name in _MATRICES if name in found},
        normalise=bool(config.get("normalise", True)),
        fitted_on=dict(config.get("fitted_on") or {}),
    )
    wanted = "offsets" if LanguageMethod.read(method).name in ("centre", "shift") else "directions"
    matrix = found.get(wanted)
    first = len(languages) if made.needs_language else 1
    fits = matrix is not None and matrix.ndim == _MATRICES[wanted] and matrix.shape[0] == first and len(found) == 1
    if matrix is None or not fits or not matrix.size or not np.isfinite(matrix).all():
        raise LoadError(
            f"{where}: {_FILE} does not hold the matrix {wanted!r} of {method} for {len(languages)} languages: save "
            "the model again."
        )
    return made


def language_modules(model: SentenceTransformer) -> Iterator[LanguageModule]:
    return (module for module in model.modules() if isinstance(module, LanguageModule))


def needs_language(model: SentenceTransformer) -> bool:
    """Whether vectors depend on the language that a text is said to be in."""
    return any(module.needs_language for module in language_modules(model))


def refuse_foreign_fit(
    model: SentenceTransformer, fit: LanguageCorrection, fingerprint: Callable[[SentenceTransformer], str]
) -> None:
    """Raise unless a correction was fitted on vectors of this model."""
    if not isinstance(fit, LanguageCorrection):
        raise UnsupportedModel(
            f"languages takes what fairspan.fit_languages returns, got {type(fit).__name__}: fit it first."
        )
    if model.truncate_dim is not None:
        raise UnsupportedModel(
            f"truncate_dim={model.truncate_dim} would cut the vectors after their languages are corrected: load the "
            "model without it."
        )
    width = model.get_embedding_dimension()
    if width != fit.dimension:
        raise UnsupportedModel(
            f"the model's vectors have {width} dimensions, and the correction of languages was fitted on "
            f"{fit.dimension}: fit it on this model."
        )
    known = fit.fitted_on.get("fingerprint")
    if known is not None and known != fingerprint(model):
        raise UnsupportedModel(
            f"the correction of languages was fitted on another model, {fit.fitted_on.get('model')}: fit it on this."
        )


def encode_languages(
    model: SentenceTransformer,
    texts: Sequence[str] | str,
    languages: Sequence[str | Mapping[str, float]] | str | Mapping[str, float],
    *,
    side: str = "document",
    **options: Any,
) -> Any:
    """Embed texts whose languages are known, by a model with a correction of languages.

    Args:
        model: what `fairspan.calibrate(model, …, languages=…)` made.
        texts: a list of texts, or one text.
        languages: for each text its language, such as "de", or shares, such as {"de": 0.25, "en": 0.75}; or one
            for all.
        side: "document" or "query".
        options: whatever `model.encode_document` or `model.encode_query` takes.

    Returns:
        What `encode_document` or `encode_query` returns. Vectors of languages that were not fitted stay as they are,
        and `untouched` of the model's last module counts them.
    """
    if next(language_modules(model), None) is None:
        raise UnsupportedModel(
            "the model has no correction of languages: use fairspan.calibrate(model, …, languages=…)."
        )
    if side not in ("document", "query"):
        raise FairspanError(f"side must be document or query, got {side!r}.")
    encode = model.encode_query if side == "query" else model.encode_document
    if isinstance(texts, str):
        (language,) = [languages] if isinstance(languages, str | Mapping) else languages
        return encode(LanguageText(texts, language), **options)
    spoken = [languages] * len(texts) if isinstance(languages, str | Mapping) else list(languages)
    if len(spoken) != len(texts):
        raise FairspanError(f"every text has a language: got {len(texts)} texts and {len(spoken)} languages.")
    return encode([LanguageText(text, own) for text, own in zip(texts, spoken, strict=True)], **options)
