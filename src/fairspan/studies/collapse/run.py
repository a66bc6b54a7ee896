"""`collapse`: how much more similar long texts' vectors are than short ones', why, and what a temperature changes."""

import numpy as np
import polars as pl
from sentence_transformers import SentenceTransformer

from fairspan.calibration.treatment import Treatment
from fairspan.encoding.calling import call_of
from fairspan.encoding.spectra import Spectrum
from fairspan.encoding.spectra import spectra as spectra_of
from fairspan.errors import FairspanError, UnsupportedModel
from fairspan.runs.log import RunLog
from fairspan.runs.running import Run
from fairspan.runs.study import Study
from fairspan.studies.collapse.classification import classify
from fairspan.studies.collapse.measures import probe_rows, rows_by_text, text_rows, word_means
from fairspan.studies.collapse.options import WORDS, CollapseOptions
from fairspan.studies.collapse.prepare import PreparedCollapse, prepare_collapse
from fairspan.studies.collapse.theory import spectrum_rows
from fairspan.studies.collapse.view import view_of


def _measure(prepared: PreparedCollapse, run: Run) -> None:
    cuts, treatments, fit = prepared.cuts, prepared.options.all_treatments, prepared.fit
    own = sum(text.length for text in prepared.texts)
    inside = sum(one.tokens for one in prepared.analysed)
    run.progress.start(
        sum(own + (0 if one.baseline else inside) + fit.tokens(one) for one in treatments)
    )
    for treatment in treatments:
        run.add(_rows(prepared, run, treatment))
    run.progress.stage("raw word embeddings")
    try:
        means = word_means(prepared.subject.model, [one.text for one in cuts.texts])
    except UnsupportedModel as error:
        run.note(f"the mean of raw word embeddings was not measured: {error}")
    else:
        run.add(text_rows(cuts, means, treatment=WORDS, **run.label))


def _rows(prepared: PreparedCollapse, run: Run, treatment: Treatment) -> pl.DataFrame:
    """The rows of one treatment."""
    label, labelled = {"treatment": treatment.name, **run.label}, prepared.labelled
    run.progress.stage(f"{treatment.name}: vectors")
    encoder = run.under(treatment).documents
    run.fill(encoder, prepared.texts)
    found = run.read([encoder.key(text) for text in prepared.texts])
    texts, probes = len(prepared.cuts.texts), 2 * len(prepared.pairs)
    rows = [text_rows(prepared.cuts, np.stack(found[:texts]), **label)]
    pairs = np.stack(found[texts : texts + probes]).reshape(probes // 2, 2, -1)
    rows.append(probe_rows(prepared.pairs, pairs, **label))
    if labelled is not None:
        vectors = np.stack(found[texts + probes :]).astype(np.float64)
        values, notes = classify(vectors, labelled.labels, labelled.train)
        for note in notes:
            run.note(f"{treatment.name}: {note}")
        tested = [labelled.cuts.texts[number] for number in np.flatnonzero(~labelled.train)]
        rows.append(rows_by_text(tested, values, **label))
    if prepared.analysed and treatment.baseline is not None:
        run.note(
            f"{treatment.name}: its attention is that of the model under it, and was not analysed"
        )
    elif prepared.analysed:
        run.progress.stage(f"{treatment.name}: spectra")
        spectra = _spectra(prepared, run, encoder.model)
        rows += [spectrum_rows(prepared.analysed, spectra, **label)] if spectra else []
    return pl.concat(rows)


def _spectra(prepared: PreparedCollapse, run: Run, model: SentenceTransformer) -> list[Spectrum]:
    """One for each text that is analysed; none where the model has none."""
    found: list[Spectrum] = []
    prompt, texts = prepared.subject.prompts["document"], [text.text for text in prepared.analysed]
    try:
        spectra = spectra_of(model, texts, prompt=prompt, layers=prepared.options.layers)
        for text, one in zip(prepared.analysed, spectra, strict=True):
            found.append(one)
            run.progress.advance(text.tokens)
    except UnsupportedModel as error:
        run.note(f"spectra were not measured: {error}")
        return []
    except (RuntimeError, MemoryError) as error:
        if not isinstance(error, MemoryError) and "memory" not in str(error):
            raise
        longest, reason = (
            max(text.tokens for text in prepared.analysed),
            " ".join(str(error).split())[:120],
        )
        raise FairspanError(
            f"the spectra of texts of up to {longest} tokens do not fit into memory ({reason}): use "
            "spectra=0, or name shorter lengths. Vectors that were computed are in the store."
        ) from None
    unknown = next((one.no_value_norms for one in found if one.no_value_norms), None)
    if unknown:
        run.note(f"Theorem 2's bound is not known: {unknown}")
    return found


STUDY = Study(prepare_collapse, _measure, view_of)


@call_of(CollapseOptions)
def collapse(options: CollapseOptions) -> RunLog:
    """Measure how vectors of texts change with the texts' length, under several softmax temperatures.

    Returns:
        The log, with `verdicts`, `frame(name)`, `figure(name)` and `save_page(path)`.
    """
    return STUDY(options)
