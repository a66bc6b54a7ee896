"""`CollapseOptions`: everything that is asked of a study of length."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import ClassVar, Literal, get_args

from fairspan.calibration.calibration import DEFAULT, check_temperature
from fairspan.calibration.treatment import PLAIN, AnyTreatment, Treatment, as_treatments
from fairspan.corpus.corpus import Corpus
from fairspan.design.cuts import Start
from fairspan.design.plan import in_first_language
from fairspan.errors import DesignError, require_list, require_whole
from fairspan.runs.options import StudyOptions, source

Layers = Literal["last", "last_half", "all"]
WORDS = "words"
"""The name of the control among the treatments: the mean of the raw word embeddings (LC Fig. 3)."""


@dataclass(frozen=True, kw_only=True)
class CollapseOptions(StudyOptions):
    """What to measure of texts of several lengths.

    Attributes:
        corpus: "sample", a folder of text files or with en.jsonl, de.jsonl, …, a JSONL or
            Parquet file, or the name of a dataset.
        language: language of the corpus. By default English if the corpus has it, otherwise its
            first language.
        lengths: lengths in tokens; every document is cut to each of them at a sentence border. By
            default 25, 50, 100, … as far as the model reads and half of the documents reach.
        natural: use whole documents by their own length, in bins of 100 tokens, instead of cutting
            them.
        temperatures: softmax temperatures to compare; 1 is the unmodified model. An empty list
            leaves only `treatments`.
        treatments: more treatments to compare, as in an audit, such as paper or chunk-mean.
            By default fair.
        documents: largest number of documents; in each bin with `natural`.
        start: where a cut begins: random, at any sentence, or beginning, of the document.
        tolerance: how far a text may be from the length asked for, as a share of it.
        spectra: number of texts of each length whose token signals and attention are analysed; 0
            for none.
        layers: layers whose σ_a is computed: last, last_half or all.
        labelled: JSONL file of texts and labels to classify at every length.
        labelled_documents: largest number of labelled texts; in each bin with `natural`.
        margin: slopes of the mean cosine per doubling of length below it count as none. Over four
            doublings, as from 25 to 400 tokens, the default is the margin of an audit.
        prompt: text put before every document. By default the model's own.
        seed: seed of the draw, and of the intervals of labelled texts.
    """

    verb: ClassVar[str] = "collapse"
    corpus: str = source("sample")
    language: str | None = None
    lengths: Sequence[int] | None = None
    natural: bool = False
    temperatures: Sequence[float] = (1.0, 0.9, 0.8)
    treatments: Sequence[AnyTreatment] = (DEFAULT,)
    documents: int = 100
    start: Start = "random"
    tolerance: float = 0.2
    spectra: int = 5
    layers: Layers = "last"
    labelled: str | None = source()
    labelled_documents: int = 600
    margin: float = 0.005
    prompt: str | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        """Raise unless the options can be used together."""
        self.name_sources()
        require_list("temperatures", self.temperatures, "[1.0, 0.8]")
        require_list("treatments", self.treatments, "['paper']")
        if not 0 < self.margin < 1:
            raise DesignError(f"margin must be between 0 and 1, got {self.margin!r}.")
        if self.lengths is not None:
            if self.natural:
                raise DesignError("natural lengths are the documents' own: omit lengths.")
            require_list("lengths", self.lengths, "[50, 100]")
            for length in self.lengths:
                require_whole("lengths", length)
            object.__setattr__(self, "lengths", tuple(sorted(set(self.lengths))))
        for name, choices in (("start", get_args(Start)), ("layers", get_args(Layers))):
            value = getattr(self, name)
            if value not in choices:
                raise DesignError(f"{name} must be one of {', '.join(choices)}, got {value!r}.")
        least_of = {"documents": 3, "labelled_documents": 4, "spectra": 0, "seed": 0}
        for name, least in least_of.items():
            require_whole(name, getattr(self, name), least=least)
        for treatment in self.all_treatments:
            if treatment.name == WORDS:
                raise DesignError(
                    f"{WORDS!r} is the name of the word-embedding control: rename the treatment."
                )
            if treatment.by_segments:
                raise DesignError(
                    f"{treatment.name} makes segments baskets, and these texts have none: omit it."
                )
        self._refuse_idle()

    def _refuse_idle(self) -> None:
        """Raise if an option was changed that would do nothing."""
        idle = {}
        if self.natural:
            idle = dict.fromkeys(("start", "tolerance"), "natural lengths are not cut")
        if self.labelled is None:
            idle["labelled_documents"] = "no texts are labelled"
        if self.spectra == 0:
            idle["layers"] = "spectra is 0"
        for option in fields(self):
            name = option.name
            if name in idle and getattr(self, name) != option.default:
                raise DesignError(f"{idle[name]}, so {name} would do nothing: omit one of them.")

    @cached_property
    def all_treatments(self) -> tuple[Treatment, ...]:
        """The temperatures, of which 1 is the unmodified model, and then the other treatments."""
        return as_treatments([*map(at_temperature, self.temperatures), *self.treatments])

    @cached_property
    def spoken_corpus(self) -> tuple[Corpus, str]:
        """The corpus in one language, and that language."""
        if self.language is not None:
            return Corpus.read(self.corpus, [self.language], partial=True), self.language
        language, corpus = in_first_language(Corpus.read(self.corpus, None, partial=True))
        return corpus, language

    @cached_property
    def labelled_texts(self) -> tuple[Corpus, dict[str, str]] | None:
        """The texts to classify, and their labels by id; None if there are none."""
        from fairspan.studies.collapse.classification import read_labelled

        if self.labelled is None:
            return None
        return read_labelled(self.labelled, self.spoken_corpus[1])

    def check(self) -> None:
        _ = self.labelled_texts, self.spoken_corpus


def at_temperature(value: float) -> str:
    """The treatment that does nothing but set a temperature."""
    temperature = check_temperature(value)
    return PLAIN if temperature == 1 else f"tempscale+temperature={temperature}"


def temperature_of(treatment: Treatment) -> float | None:
    """The temperature of a treatment that sets one for all texts and does nothing else."""
    calibration = treatment.calibration
    if calibration.sides != "both" or treatment.chunks:
        return None
    value = calibration.temperature
    plain = not calibration.but(temperature=1.0).acts
    return float(value) if plain and isinstance(value, int | float) else None
