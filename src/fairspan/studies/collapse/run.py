"""`collapse`: how much more similar long texts' vectors are, why, and what temperatures change."""

import numpy as np
import polars as pl
from sentence_transformers import SentenceTransformer

from fairspan.calibration.treatment import Treatment
from fairspan.encoding.calling import call_of
from fairspan.encoding.spectra import Spectrum
from fairspan.encoding.spectra import spectra as spectra_of
from fairspan.errors import FairspanError, UnsupportedModel
from fairspan.runs.log import RunLog
from fairspan.runs.study import Run, Study
from fairspan.stats.geometry import common_shares
from fairspan.studies.collapse.classification import classify
from fairspan.studies.collapse.measures import (
    probe_rows,
    rows_by_text,
    spectrum_rows,
    text_rows,
    word_means,
)
from fairspan.studies.collapse.options import WORDS, CollapseOptions
from fairspan.studies.collapse.prepare import PreparedCollapse, prepare_collapse
from fairspan.studies.collapse.view import view_of, write_results


def _measure(prepared: PreparedCollapse, run: Run) -> None:
    """Measure every treatment, and the word control."""
    for treatment in prepared.options.all_treatments:
        run.add(_rows(prepared, run, treatment))
    run.progress.stage("raw word embeddings")
    cuts = prepared.cuts
    try:
        means = word_means(prepared.subject.model, [text.text for text in cuts.texts])
    except UnsupportedModel as error:
        run.note(f"the mean of raw word embeddings was not measured: {error}")
    else:
        run.add(text_rows(cuts, means, treatment=WORDS, **run.label))


def _rows(prepared: PreparedCollapse, run: Run, treatment: Treatment) -> pl.DataFrame:
    """The rows of one treatment."""
    label = {"treatment": treatment.name, **run.label}
    run.progress.stage(f"{treatment.name}: vectors")
    treated = run.under(treatment)
    encoder = treated.documents
    run.fill(encoder, prepared.texts)
    vectors = np.stack(run.read([encoder.key(text) for text in prepared.texts]))
    texts = len(prepared.cuts.texts)
    pairs = len(prepared.pairs)
    of_cuts, of_pairs, of_labelled = np.split(vectors, [texts, texts + 2 * pairs])
    rows = [
        text_rows(prepared.cuts, of_cuts, **label),
        probe_rows(prepared.pairs, of_pairs.reshape(pairs, 2, -1), **label),
    ]
    try:
        shares = common_shares(of_cuts, treated.common.direction)
    except FairspanError as error:
        run.note(f"{treatment.name}: the share of a common direction was not measured: {error}")
    else:
        rows.append(rows_by_text(prepared.cuts.texts, {"share": shares}, **label))
        if prepared.options.corpus == "sample":
            run.note(
                "the common direction was found from some of these texts, so their shares of it "
                "are a little too large, those of long ones most: use another corpus to compare "
                "them"
            )
    labelled = prepared.labelled
    if labelled is not None:
        values, notes = classify(of_labelled.astype(np.float64), labelled.labels, labelled.train)
        for note in notes:
            run.note(f"{treatment.name}: {note}")
        tested = [labelled.cuts.texts[place] for place in np.flatnonzero(~labelled.train)]
        rows.append(rows_by_text(tested, values, **label))
    if prepared.analysed and treatment.chunks:
        same = "its attention is that of the model under it, and was not analysed"
        run.note(f"{treatment.name}: {same}")
    elif prepared.analysed:
        run.progress.stage(f"{treatment.name}: spectra")
        spectra = _spectra(prepared, run, encoder.model)
        if spectra:
            rows.append(spectrum_rows(prepared.analysed, spectra, **label))
    return pl.concat(rows)


def _spectra(prepared: PreparedCollapse, run: Run, model: SentenceTransformer) -> list[Spectrum]:
    """One for each text that is analysed; none if the model has none."""
    spectra: list[Spectrum] = []
    texts = prepared.analysed
    try:
        computed = spectra_of(
            model,
            [text.text for text in texts],
            prompt=prepared.subject.prompts["document"],
            layers=prepared.options.layers,
        )
        for text, spectrum in zip(texts, computed, strict=True):
            spectra.append(spectrum)
            run.progress.advance(text.tokens)
    except UnsupportedModel as error:
        run.note(f"spectra were not measured: {error}")
        return []
    except (RuntimeError, MemoryError) as error:
        if not isinstance(error, MemoryError) and "memory" not in str(error):
            raise
        longest = max(text.tokens for text in texts)
        reason = " ".join(str(error).split())[:120]
        raise FairspanError(
            f"the spectra of texts of up to {longest} tokens do not fit into memory ({reason}): "
            "use spectra=0, or name shorter lengths. Vectors that were computed are in the store."
        ) from None
    if spectra[0].no_value_norms:
        run.note(f"Theorem 2's bound is not known: {spectra[0].no_value_norms}")
    return spectra


STUDY = Study(prepare_collapse, _measure, view_of, write_results)


@call_of(CollapseOptions)
def collapse(options: CollapseOptions) -> RunLog:
    """Measure how vectors of texts change with their length, under several softmax temperatures.

    Returns:
        The log, with `verdicts`, `frame(name)`, `figure(name)` and `save_page(path)`. If a
        temperature is suggested, its folder also has `calibration.json`, which
        `fairspan.calibrate` reads.
    """
    return STUDY(options)
