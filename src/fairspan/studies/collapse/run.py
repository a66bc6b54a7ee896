"""`collapse`: how much more similar long texts' vectors are than short ones', why, and what a temperature changes."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from sentence_transformers import SentenceTransformer

from fairspan.calibration.treatment import AnyTreatment, Treatment
from fairspan.design.cuts import Cuts
from fairspan.design.lengths import TokenCounter
from fairspan.encoding.encoder import Text
from fairspan.encoding.spectra import spectra as spectra_of
from fairspan.errors import EncodingError, UnsupportedModel
from fairspan.model.loading import Loading
from fairspan.runs.log import RunLog
from fairspan.runs.progress import Progress, as_progress
from fairspan.runs.request import request_of
from fairspan.runs.runner import Run, RunOptions, run_study
from fairspan.runs.subject import AnyModel, open_subject
from fairspan.studies.collapse.classification import classify, training_part
from fairspan.studies.collapse.prepare import Labelled, PreparedCollapse, prepare_collapse
from fairspan.studies.collapse.rows import label_rows, probe_rows, spectrum_rows, text_rows
from fairspan.studies.collapse.spec import DEFAULT_MARGIN, DEFAULT_TEMPERATURES, WORDS, make_collapse
from fairspan.studies.collapse.view import view_of
from fairspan.studies.collapse.words import word_means


def collapse(
    model: AnyModel = None,
    *,
    corpus: str = "sample",
    language: str | None = None,
    lengths: Sequence[int] | None = None,
    natural: bool = False,
    temperatures: Sequence[float] = DEFAULT_TEMPERATURES,
    treatments: Sequence[AnyTreatment] = (),
    documents: int = 100,
    start: str = "random",
    tolerance: float = 0.2,
    spectra: int = 5,
    layers: str = "last",
    probe: bool = True,
    labelled: Path | str | None = None,
    labelled_documents: int = 600,
    fit_corpus: str | None = None,
    margin: float = DEFAULT_MARGIN,
    prompt: str | None = None,
    seed: int = 0,
    name: str | None = None,
    window: int | None = None,
    device: str | None = None,
    dtype: str | None = None,
    trust_remote_code: bool = False,
    out: Path | str | None = None,
    store: Path | str | None = None,
    batch_tokens: int | None = None,
    fresh: bool = False,
    progress: bool | Progress = True,
) -> RunLog:
    """Measure how vectors of texts change with the texts' length, under several softmax temperatures.

    Args:
        model: a SentenceTransformer, its name or folder, or None for all-MiniLM-L6-v2.
        corpus: "sample", a folder, a file or the name of a dataset.
        language: of the corpus; by default English if the corpus has it, otherwise its first language.
        lengths: in tokens; every document is cut to each of them at a sentence border. By default 25, 50, 100, … as
            far as the model reads and half of the documents reach.
        natural: use whole documents by their own length, in bins of 100 tokens, instead of cutting them.
        temperatures: softmax temperatures to compare; 1 is the unmodified model.
        treatments: more treatments to compare, as in `audit`.
        documents: number of documents at most; in each bin if `natural`.
        start: where a cut begins: at a "random" sentence, or at the document's "beginning".
        tolerance: how far a text may be from the length asked for, as a share of it.
        spectra: number of texts of each length whose token signals and attention are analysed; 0 for none.
        layers: the layers whose σ_a is computed: "last", "last_half" or "all".
        probe: whether repeated words are embedded too.
        labelled: a JSONL file of texts and labels to classify, cut to the same lengths.
        labelled_documents: number of labelled texts at most.
        fit_corpus: what whitening is fitted on; by default what `corpus` has in no measured text.
        margin: of mean cosine per doubling of length. A slope that is shown to be less counts as not more alike.
        prompt: put before every text; by default the model's own document prompt.
        seed: of the draw, and of the intervals of labelled texts.
        name, window, device, dtype, trust_remote_code: as in `audit`.
        out, store, batch_tokens, fresh, progress: as in `audit`.

    Returns:
        The log, with `verdicts`, `frame(name)`, `figure(name)` and `save_page(path)`.
    """
    shown = as_progress(progress)
    spec = make_collapse(
        corpus=corpus,
        language=language,
        lengths=lengths,
        natural=natural,
        temperatures=temperatures,
        treatments=treatments,
        documents=documents,
        start=start,
        tolerance=tolerance,
        spectra=spectra,
        layers=layers,
        probe=probe,
        labelled=None if labelled is None else str(labelled),
        labelled_documents=labelled_documents,
        fit_corpus=fit_corpus,
        margin=margin,
        prompt=prompt,
        seed=seed,
    )
    loading = Loading(window, device, dtype, trust_remote_code)
    request = request_of("collapse", spec, model, name=name, **asdict(loading))
    options = RunOptions(out, store, batch_tokens, fresh, shown, request)
    known = options.answer(name or model, view_of)
    if known is not None:
        return known
    subject = open_subject(model, name=name, loading=loading, progress=shown)
    prepared = prepare_collapse(subject, spec, shown)
    return run_study(prepared, lambda run: _Study(prepared, run).measure(), options, view_of)


class _Study:
    """One study while it runs."""

    def __init__(self, prepared: PreparedCollapse, run: Run) -> None:
        self.prepared, self.spec, self.run = prepared, prepared.spec, run
        counter, labelled = prepared.subject.counter, prepared.labelled
        self.texts = _texts([one.text for one in prepared.cuts.texts], counter)
        self.probes = _texts([text for pair in prepared.pairs for text in pair.texts], counter)
        self.tested = _texts([one.text for one in labelled.cuts.texts], counter) if labelled else []
        # The texts whose spectra are computed: of the same documents at every length, if these are paired.
        self.chosen = [
            text for length in prepared.cuts.lengths for text in prepared.cuts.at(length)[: self.spec.spectra]
        ]

    def measure(self) -> None:
        run, cuts = self.run, self.prepared.cuts
        own = sum(text.length for text in self.texts + self.probes + self.tested)
        inside, fit = sum(one.tokens for one in self.chosen), self.prepared.fit
        treatments = self.spec.treatments
        each = [own + (0 if one.baseline else inside) for one in treatments]
        run.progress.start(sum(fit.tokens(treatments, each)))
        for treatment in self.spec.treatments:
            run.add(self._under(treatment))
        run.progress.stage("raw word embeddings")
        try:
            means = word_means(self.prepared.subject.model, [one.text for one in cuts.texts])
        except UnsupportedModel as error:
            run.note(f"the mean of raw word embeddings was not measured: {error}")
        else:
            run.add(text_rows(cuts, _by_length(means, cuts), treatment=WORDS, **run.label))

    def _under(self, treatment: Treatment) -> pl.DataFrame:
        """The rows of one treatment."""
        run, cuts, label = self.run, self.prepared.cuts, {"treatment": treatment.name, **self.run.label}
        run.progress.stage(f"{treatment.name}: vectors")
        encoder = run.under(treatment).documents
        run.fill(encoder, [*self.texts, *self.probes, *self.tested])
        found = run.read([encoder.key(text) for text in (*self.texts, *self.probes, *self.tested)])
        texts, probes = len(self.texts), len(self.probes)
        run.header.setdefault("dimensions", len(found[0]))
        rows = [text_rows(cuts, _by_length(np.stack(found[:texts]), cuts), **label)]
        if probes:
            pairs = np.stack(found[texts : texts + probes]).reshape(probes // 2, 2, -1)
            rows.append(probe_rows(self.prepared.pairs, pairs, **label))
        if self.prepared.labelled is not None:
            rows.append(self._classified(found[texts + probes :], self.prepared.labelled, treatment.name))
        if self.chosen and treatment.baseline is not None:
            run.note(f"{treatment.name}: its attention is that of the model under it, and was not analysed")
        elif self.chosen:
            run.progress.stage(f"{treatment.name}: spectra")
            rows += self._spectra(encoder.model, treatment.name)
        return pl.concat(rows)

    def _classified(self, vectors: Sequence[np.ndarray], labelled: Labelled, treatment: str) -> pl.DataFrame:
        texts, table = labelled.cuts.texts, np.stack(vectors)
        names = [text.document for text in texts]
        labels = np.array([labelled.labels[name] for name in names])
        train = training_part(names, seed=self.spec.seed)
        found = classify(table[train], labels[train].tolist(), table[~train], labels[~train].tolist())
        self.run.header["notes"] += [f"{treatment}: {note}" for note in found.notes]
        tested = [texts[number] for number in np.flatnonzero(~train)]
        return label_rows(tested, found, treatment=treatment, **self.run.label)

    def _spectra(self, model: SentenceTransformer, treatment: str) -> list[pl.DataFrame]:
        found = []
        layers: Any = self.spec.layers
        prompt, texts = self.prepared.subject.prompts["document"], [text.text for text in self.chosen]
        try:
            spectra = spectra_of(model, texts, prompt=prompt, layers=layers)
            for text, one in zip(self.chosen, spectra, strict=True):
                found.append(one)
                self.run.progress.advance(text.tokens)
        except UnsupportedModel as error:
            self.run.note(f"spectra were not measured: {error}")
            return []
        except (RuntimeError, MemoryError) as error:
            if not isinstance(error, MemoryError) and "memory" not in str(error):
                raise
            longest, reason = max(text.tokens for text in self.chosen), " ".join(str(error).split())[:120]
            raise EncodingError(
                f"the spectra of texts of up to {longest} tokens do not fit into memory ({reason}): use "
                "[[spectra=0]], or name shorter lengths. Vectors that were computed are in the store."
            ) from None
        loose = sum(not one.converged for one in found)
        if loose:
            self.run.note(f"{treatment}: σ_a of {loose} texts is less exact than was asked for")
        unknown = next((one.no_value_norms for one in found if one.no_value_norms), None)
        if unknown:
            self.run.note(f"Theorem 2's bound is not known: {unknown}")
        return [spectrum_rows(self.chosen, found, treatment=treatment, **self.run.label)]


def _by_length(vectors: np.ndarray, cuts: Cuts) -> list[np.ndarray]:
    lengths = np.array([text.length for text in cuts.texts])
    return [vectors[lengths == length] for length in cuts.lengths]


def _texts(texts: Sequence[str], counter: TokenCounter) -> list[Text]:
    return [Text(text, length) for text, length in zip(texts, counter.count_whole(texts), strict=True)]
