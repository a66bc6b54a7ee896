"""`collapse`: how much more similar long texts' vectors are than short ones', why, and what a temperature changes."""

from collections.abc import Sequence

import numpy as np
import polars as pl
from sentence_transformers import SentenceTransformer

from fairspan.calibration.treatment import Treatment
from fairspan.encoding.calling import call_of
from fairspan.encoding.spectra import spectra as spectra_of
from fairspan.errors import FairspanError, UnsupportedModel
from fairspan.runs.log import RunLog
from fairspan.runs.study import Run, Study
from fairspan.studies.collapse.classification import classify
from fairspan.studies.collapse.measures import probe_rows, rows_by_text, text_rows, word_means
from fairspan.studies.collapse.options import WORDS, CollapseOptions
from fairspan.studies.collapse.prepare import Labelled, PreparedCollapse, prepare_collapse
from fairspan.studies.collapse.theory import spectrum_rows
from fairspan.studies.collapse.view import view_of


class _Study:
    """One study while it runs."""

    def __init__(self, prepared: PreparedCollapse, run: Run) -> None:
        self.prepared, self.options, self.run = prepared, prepared.options, run
        self.chosen = prepared.analysed

    def measure(self) -> None:
        run, cuts, treatments = self.run, self.prepared.cuts, self.options.measured
        own = sum(text.length for text in self.prepared.texts)
        inside = sum(one.tokens for one in self.chosen)
        each = (own + (0 if one.baseline else inside) + self.prepared.fit.tokens(one) for one in treatments)
        run.progress.start(sum(each))
        for treatment in treatments:
            run.add(self._under(treatment))
        run.progress.stage("raw word embeddings")
        try:
            means = word_means(self.prepared.subject.model, [one.text for one in cuts.texts])
        except UnsupportedModel as error:
            run.note(f"the mean of raw word embeddings was not measured: {error}")
        else:
            run.add(text_rows(cuts, means, treatment=WORDS, **run.label))

    def _under(self, treatment: Treatment) -> pl.DataFrame:
        """The rows of one treatment."""
        prepared, run, label = self.prepared, self.run, {"treatment": treatment.name, **self.run.label}
        run.progress.stage(f"{treatment.name}: vectors")
        encoder = run.under(treatment).documents
        run.fill(encoder, prepared.texts)
        found = run.read([encoder.key(text) for text in prepared.texts])
        texts, probes = len(prepared.cuts.texts), 2 * len(prepared.pairs)
        rows = [text_rows(prepared.cuts, np.stack(found[:texts]), **label)]
        pairs = np.stack(found[texts : texts + probes]).reshape(probes // 2, 2, -1)
        rows.append(probe_rows(prepared.pairs, pairs, **label))
        if prepared.labelled is not None:
            rows.append(self._classified(found[texts + probes :], prepared.labelled, treatment.name))
        if self.chosen and treatment.baseline is not None:
            run.note(f"{treatment.name}: its attention is that of the model under it, and was not analysed")
        elif self.chosen:
            run.progress.stage(f"{treatment.name}: spectra")
            rows += self._spectra(encoder.model, treatment.name)
        return pl.concat(rows)

    def _classified(self, vectors: Sequence[np.ndarray], labelled: Labelled, treatment: str) -> pl.DataFrame:
        values, notes = classify(np.stack(vectors).astype(np.float64), labelled.labels, labelled.train)
        for note in notes:
            self.run.note(f"{treatment}: {note}")
        tested = [labelled.cuts.texts[number] for number in np.flatnonzero(~labelled.train)]
        return rows_by_text(tested, values, treatment=treatment, **self.run.label)

    def _spectra(self, model: SentenceTransformer, treatment: str) -> list[pl.DataFrame]:
        found = []
        prompt, texts = self.prepared.subject.prompts["document"], [text.text for text in self.chosen]
        try:
            spectra = spectra_of(model, texts, prompt=prompt, layers=self.options.layers)
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
            raise FairspanError(
                f"the spectra of texts of up to {longest} tokens do not fit into memory ({reason}): use "
                "spectra=0, or name shorter lengths. Vectors that were computed are in the store."
            ) from None
        unknown = next((one.no_value_norms for one in found if one.no_value_norms), None)
        if unknown:
            self.run.note(f"Theorem 2's bound is not known: {unknown}")
        return [spectrum_rows(self.chosen, found, treatment=treatment, **self.run.label)]


STUDY = Study(prepare_collapse, lambda prepared, run: _Study(prepared, run).measure(), view_of)


def _collapse(options: CollapseOptions) -> RunLog:
    """Measure how vectors of texts change with the texts' length, under several softmax temperatures.

    Returns:
        The log, with `verdicts`, `frame(name)`, `figure(name)` and `save_page(path)`.
    """
    return STUDY(options)


collapse = call_of(CollapseOptions, _collapse, "collapse", __name__)
