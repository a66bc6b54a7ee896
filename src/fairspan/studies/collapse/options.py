"""`CollapseOptions`: everything that is asked of a study of length."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from fairspan.calibration.calibration import DEFAULT
from fairspan.calibration.treatment import PLAIN, AnyTreatment, Treatment, as_treatments
from fairspan.corpus.corpus import Corpus
from fairspan.errors import DesignError, require_list, require_whole
from fairspan.runs.options import Analysis, StudyOptions, source


@dataclass(frozen=True, kw_only=True)
class CollapseAnalysis(Analysis):
    """How the rows of a study of length are analysed.

    Attributes:
        margin: largest change per doubling of length that counts as negligible, of the mean cosine
            and of the score for every query.
    """

    margin: float = 0.005

    def __post_init__(self) -> None:
        """Raise unless the margin is one."""
        if not 0 < self.margin < 1:
            raise DesignError(f"margin must be between 0 and 1, got {self.margin!r}.")


@dataclass(frozen=True, kw_only=True)
class CollapseOptions(CollapseAnalysis, StudyOptions):
    """What to measure of texts of several lengths.

    Attributes:
        corpus: "sample", a folder of text files or with en.jsonl, de.jsonl, …, a JSONL or
            Parquet file, or the name of a dataset.
        language: language of the corpus. By default English if the corpus has it, otherwise its
            first language.
        lengths: lengths in tokens; every document is cut to each of them at sentence borders, and
            starts at a random sentence. By default 25, 50, 100, … up to the model's window and
            the median length of the documents.
        natural: use whole documents by their own length, in bins of 100 tokens, instead of cutting
            them.
        treatments: treatments to compare, as in an audit; the first is the baseline. tempscale is a
            softmax temperature of 0.8, tempscale+temperature=0.9 another one.
        documents: largest number of documents, or with `natural` of documents in each bin.
        tolerance: how much the length of a text may differ from the requested one, as a share.
        prompt: text put before every document. By default the model's own.
        seed: seed of the draw.
    """

    verb: ClassVar[str] = "collapse"
    analysed: ClassVar[type[Analysis]] = CollapseAnalysis
    corpus: str = source("sample")
    language: str | None = None
    lengths: Sequence[int] | None = None
    natural: bool = False
    treatments: Sequence[AnyTreatment] = (PLAIN, "tempscale", DEFAULT)
    documents: int = 100
    tolerance: float = 0.2
    prompt: str | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        """Raise unless the options can be used together."""
        CollapseAnalysis.__post_init__(self)
        self.name_sources()
        require_list("treatments", self.treatments, "['plain', 'fair']")
        if self.lengths is not None:
            if self.natural:
                raise DesignError("natural lengths are the documents' own: omit lengths.")
            require_list("lengths", self.lengths, "[50, 100]")
            for length in self.lengths:
                require_whole("lengths", length)
            object.__setattr__(self, "lengths", tuple(sorted(set(self.lengths))))
        require_whole("documents", self.documents, least=3)
        require_whole("seed", self.seed, least=0)
        for treatment in self.all_treatments:
            if treatment.by_segments:
                raise DesignError(
                    f"{treatment.name} makes segments tiles, and these texts have none: omit it."
                )
        if self.natural and self.tolerance != type(self).tolerance:
            raise DesignError(
                "natural lengths are not cut, so tolerance would do nothing: omit one of them."
            )

    @cached_property
    def all_treatments(self) -> tuple[Treatment, ...]:
        return as_treatments(self.treatments)

    @cached_property
    def spoken_corpus(self) -> tuple[Corpus, str]:
        """The corpus in one language, and that language."""
        if self.language is not None:
            return Corpus.read(self.corpus, [self.language], partial=True), self.language
        corpus = Corpus.read_first(self.corpus)
        return corpus, corpus.languages[0]

    def check(self) -> None:
        _ = self.spoken_corpus
