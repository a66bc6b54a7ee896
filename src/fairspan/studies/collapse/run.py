"""`collapse`: how much more alike long texts' vectors are than short ones', why, and what a temperature changes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from sentence_transformers import SentenceTransformer

from fairspan.calibration.treatment import Treatment
from fairspan.design.cuts import Cuts, LengthText
from fairspan.design.lengths import TokenCounter
from fairspan.encoding.encoder import ModelEncoder, Text
from fairspan.encoding.fill import Tally, fill
from fairspan.encoding.spectra import spectra
from fairspan.encoding.store import Store, default_store
from fairspan.errors import DesignError, UnsupportedModel
from fairspan.runs.bases import base_of, embed_through
from fairspan.runs.log import AuditLog, LogWriter
from fairspan.runs.progress import Progress, Silent
from fairspan.runs.runner import DEFAULT_RUNS, batch_budget, described, finished, write_run
from fairspan.studies.collapse.classification import classify, training_part
from fairspan.studies.collapse.prepare import Labelled, PreparedCollapse, prepare_collapse
from fairspan.studies.collapse.results import by_bin, fitted, geometry
from fairspan.studies.collapse.rows import label_rows, probe_rows, spectrum_rows, text_rows
from fairspan.studies.collapse.spec import WORDS, CollapseSpec, make_collapse
from fairspan.studies.collapse.words import word_means


def collapse(
    model: SentenceTransformer | str | None = None,
    *,
    spec: CollapseSpec | None = None,
    name: str | None = None,
    out: Path | str | None = None,
    store: Path | str | None = None,
    batch_tokens: int | None = None,
    fresh: bool = False,
    progress: Progress | None = None,
    **options: Any,
) -> AuditLog:
    """Measure how vectors of texts change with the texts' length, under several softmax temperatures.

    Args:
        model: a SentenceTransformer, its name or folder, or None for the small default model.
        spec: what to measure; or give its fields as `options`: corpus, lengths, temperatures, treatments …
        name, out, store, batch_tokens, fresh: as in `audit`.

    Returns:
        The log; `fairspan.studies.collapse.summary` reads it.
    """
    progress = progress or Silent()
    if spec is not None and options:
        raise DesignError(f"{next(iter(options))} belongs to the spec: set it there, or leave spec away.")
    prepared = prepare_collapse(model, spec or make_collapse(**options), name=name, progress=progress)
    budget = batch_budget(prepared.model, batch_tokens)
    folder = Path(out) if out is not None else DEFAULT_RUNS / prepared.run
    done = finished(folder, prepared.run, fresh=fresh)
    if done is not None:
        return done

    def work(writer: LogWriter, tally: Tally) -> None:
        with Store(store or default_store()) as vectors:
            _Study(prepared, vectors, writer, budget, tally, progress).run()

    return write_run(folder, _header(prepared), work)


class _Study:
    """One study while it runs."""

    def __init__(
        self,
        prepared: PreparedCollapse,
        store: Store,
        writer: LogWriter,
        budget: int,
        tally: Tally,
        progress: Progress,
    ) -> None:
        self.prepared, self.spec, self.store, self.writer = prepared, prepared.spec, store, writer
        self.budget, self.tally, self.progress = budget, tally, progress
        self.label = {"run": writer.header["run"], "model": prepared.name}

    def run(self) -> None:
        cuts, counter = self.prepared.cuts, self.prepared.counter
        texts = _texts([one.text for one in cuts.texts], counter)
        probes = _texts([text for pair in self.prepared.pairs for text in pair.texts], counter)
        chosen = self.prepared.chosen()
        labelled = self.prepared.labelled
        tested = _texts([one.text for one in labelled.cuts.texts], counter) if labelled else []
        total = 0
        for treatment in self.spec.treatments:
            total += sum(text.length for text in texts + probes + tested)
            total += sum(one.tokens for one in chosen) if treatment.baseline is None else 0
            total += self.prepared.fit.tokens if treatment.whitens else 0
        self.progress.start(total)
        clouds: dict[str, list[np.ndarray]] = {}
        for treatment in self.spec.treatments:
            self.progress.stage(f"{treatment.name}: vectors")
            encoder = self._encoder(treatment)
            fill(
                encoder,
                [*texts, *probes, *tested],
                self.store,
                budget=self.budget,
                tally=self.tally,
                progress=self.progress.advance,
            )
            found = self.store.get(encoder.key(text) for text in texts + probes)
            vectors = np.stack([found[encoder.key(text)] for text in texts])
            clouds[treatment.name] = _by_length(vectors, cuts)
            rows = [text_rows(cuts, clouds[treatment.name], treatment=treatment.name, **self.label)]
            if probes:
                pairs = np.stack([found[encoder.key(text)] for text in probes]).reshape(len(probes) // 2, 2, -1)
                rows.append(probe_rows(self.prepared.pairs, pairs, treatment=treatment.name, **self.label))
            if labelled is not None:
                told = self.store.get(encoder.key(text) for text in tested)
                rows.append(self._classified([told[encoder.key(text)] for text in tested], labelled, treatment.name))
            if chosen and treatment.baseline is not None:
                note = f"{treatment.name}: its attention is that of the model under it, and was not looked into"
                self.writer.header["notes"].append(note)
            elif chosen:
                self.progress.stage(f"{treatment.name}: spectra")
                rows += self._spectra(encoder.model, chosen, treatment.name)
            self.writer.add(pl.concat(rows))
        self.progress.stage("intervals")
        try:
            means = word_means(self.prepared.model, [one.text for one in cuts.texts])
        except UnsupportedModel as error:
            self.writer.header["notes"].append(f"the mean of raw word embeddings was not measured: {error}")
        else:
            clouds[WORDS] = _by_length(means, cuts)
            self.writer.add(text_rows(cuts, clouds[WORDS], treatment=WORDS, **self.label))
        self.writer.header["geometry"] = geometry(clouds, cuts, seed=self.spec.seed)
        if labelled is not None:
            names = [treatment.name for treatment in self.spec.treatments]
            self.writer.header["classification"] = by_bin(self.writer.rows, names, seed=self.spec.seed)
            self.writer.header["fitted"] = fitted(
                self.writer.rows,
                self.spec.treatments,
                cuts.lengths,
                added=self.writer.header["added_tokens"],
                seed=self.spec.seed,
            )
        self.progress.stop()

    def _encoder(self, treatment: Treatment) -> ModelEncoder:
        prepared = self.prepared
        embed = embed_through(self.store, budget=self.budget, tally=self.tally, progress=self.progress.advance)
        base = base_of(
            prepared.model, prepared.fingerprint, treatment, prompt=prepared.prompt, fit=prepared.fit, embed=embed
        )
        return ModelEncoder(base.model, treatment.for_documents, prompt=prepared.prompt, fingerprint=base.fingerprint)

    def _classified(self, vectors: Sequence[np.ndarray], labelled: Labelled, treatment: str) -> pl.DataFrame:
        texts = labelled.cuts.texts
        names = [text.document for text in texts]
        train = training_part(names, seed=self.spec.seed)
        labels = [labelled.labels[name] for name in names]
        parts = [np.flatnonzero(chosen).tolist() for chosen in (train, ~train)]
        documents = [[names[number] for number in part] for part in parts]
        found = classify(
            np.stack([vectors[number] for number in parts[0]]),
            [labels[number] for number in parts[0]],
            np.stack([vectors[number] for number in parts[1]]),
            [labels[number] for number in parts[1]],
            documents=(documents[0], documents[1]),
        )
        self.writer.header["notes"] += [f"{treatment}: {note}" for note in found.notes]
        return label_rows([texts[number] for number in parts[1]], found, treatment=treatment, **self.label)

    def _spectra(
        self, model: SentenceTransformer, chosen: Sequence[LengthText], treatment: str
    ) -> list[pl.DataFrame]:
        try:
            return [self._spectrum_table(model, chosen, treatment)]
        except UnsupportedModel as error:
            note = f"spectra were not measured: {error}"
            if note not in self.writer.header["notes"]:
                self.writer.header["notes"].append(note)
            return []

    def _spectrum_table(
        self, model: SentenceTransformer, chosen: Sequence[LengthText], treatment: str
    ) -> pl.DataFrame:
        found = []
        layers: Any = self.spec.layers
        for text, one in zip(
            chosen,
            spectra(model, [text.text for text in chosen], prompt=self.prepared.prompt, layers=layers),
            strict=True,
        ):
            found.append(one)
            self.progress.advance(text.tokens)
        loose = sum(not one.converged for one in found)
        if loose:
            self.writer.header["notes"].append(f"{treatment}: σ_a of {loose} texts is less exact than was asked for")
        unknown = next((one.no_value_norms for one in found if one.no_value_norms), None)
        if unknown:
            note = f"Theorem 2's bound is not known: {unknown}"
            if note not in self.writer.header["notes"]:
                self.writer.header["notes"].append(note)
        return spectrum_rows(chosen, found, treatment=treatment, **self.label)


def _by_length(vectors: np.ndarray, cuts: Cuts) -> list[np.ndarray]:
    lengths = np.array([text.length for text in cuts.texts])
    return [vectors[lengths == length] for length in cuts.lengths]


def _texts(texts: Sequence[str], counter: TokenCounter) -> list[Text]:
    return [Text(text, length) for text, length in zip(texts, counter.count_whole(texts), strict=True)]


def _header(prepared: PreparedCollapse) -> dict[str, Any]:
    cuts = prepared.cuts
    details = {"window": prepared.counter.window, "prompt": prepared.prompt}
    return {
        "verb": "collapse",
        "run": prepared.run,
        "model": described(prepared.model, prepared.name, prepared.fingerprint, **details),
        "corpus": {
            "name": prepared.corpus.name,
            "fingerprint": prepared.corpus.fingerprint,
            "languages": list(prepared.corpus.languages),
        },
        "lengths": [
            {
                "length": length,
                "texts": len(cuts.at(length)),
                "tokens": float(np.mean([text.tokens for text in cuts.at(length)])),
            }
            for length in cuts.lengths
        ],
        "paired": cuts.paired and not prepared.spec.natural,
        "token_unit": prepared.counter.unit,
        # A text of so many tokens more is what a schedule of temperatures counts.
        "added_tokens": prepared.counter.count_whole([""])[0],
        "seed": prepared.spec.seed,
        "spec": prepared.spec.to_dict(),
        "geometry": [],
        "classification": [],
        "fitted": None,
        "notes": [
            *prepared.corpus.notes,
            *cuts.notes,
            *(f"labelled: {note}" for note in (prepared.labelled.cuts.notes if prepared.labelled else ())),
            *prepared.fit.notes,
        ],
    }
