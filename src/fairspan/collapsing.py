"""`collapse`: how much more alike long texts' vectors are than short ones', why, and what a temperature changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from sentence_transformers import SentenceTransformer

from fairspan.collapse_spec import WORDS, CollapseSpec, make_collapse, temperature_of
from fairspan.corpus.corpus import Corpus
from fairspan.corpus.segment import Segment
from fairspan.design.cuts import Cuts, LengthText, cut_documents, natural_lengths
from fairspan.design.lengths import TokenCounter
from fairspan.encoding.encoder import ModelEncoder, Text
from fairspan.encoding.fill import Tally, fill
from fairspan.encoding.fingerprint import fingerprint
from fairspan.encoding.loading import DEFAULT_MODEL, load_model
from fairspan.encoding.spectra import spectra
from fairspan.encoding.store import Store, default_store
from fairspan.encoding.tokens import counter_of, document_prompt
from fairspan.errors import CorpusError, DesignError, UnsupportedModel
from fairspan.log import AuditLog, LogWriter
from fairspan.measures.classification import classify, length_bins, read_labelled, training_part
from fairspan.measures.length import label_rows, probe_rows, spectrum_rows, text_rows
from fairspan.measures.words import RepeatedPair, repeated_pairs, word_means
from fairspan.progress import Progress, Silent
from fairspan.running import (
    DEFAULT_RUNS,
    batch_budget,
    calibrations_of,
    described,
    finished,
    name_of,
    run_name,
    write_run,
)
from fairspan.schedules import fit_schedule, split
from fairspan.stats.bootstrap import Interval
from fairspan.stats.geometry import replicate, slope_weights
from fairspan.stats.queries import query_change, query_effects
from fairspan.treatment import Treatment

GEOMETRY = ("cosine", "distance", "rank")
_SHORTEST = 25
_LEAST = 3
"""Documents of one length without which nothing can be said of it."""


@dataclass(frozen=True, slots=True)
class Labelled:
    """Texts to classify, cut to the same lengths, and the label of each document."""

    corpus: Corpus
    cuts: Cuts
    labels: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class PreparedCollapse:
    """A study of length that is ready to run."""

    model: SentenceTransformer
    name: str
    spec: CollapseSpec
    corpus: Corpus
    cuts: Cuts
    pairs: tuple[RepeatedPair, ...]
    counter: TokenCounter
    prompt: str
    fingerprint: str
    labelled: Labelled | None

    @property
    def run(self) -> str:
        """The name of the run's folder."""
        model = [self.name, self.fingerprint, calibrations_of(self.model), self.prompt, self.counter.window]
        labelled = None if self.labelled is None else self.labelled.corpus.fingerprint
        return run_name(self.name, self.spec.to_dict(), model, self.corpus.fingerprint, labelled)

    def chosen(self) -> list[LengthText]:
        """The texts whose spectra are computed: of the same documents at every length, where they are."""
        return [text for length in self.cuts.lengths for text in self.cuts.at(length)[: self.spec.spectra]]


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
        The log; `fairspan.report.length` reads it.
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


def prepare_collapse(
    model: SentenceTransformer | str | None,
    spec: CollapseSpec,
    *,
    name: str | None = None,
    progress: Progress | None = None,
) -> PreparedCollapse:
    """Load, read and cut, without embedding anything."""
    progress = progress or Silent()
    if model is None or isinstance(model, str):
        progress.stage(f"loading {model or 'the default model'}")
        name = name or model or DEFAULT_MODEL
        model = load_model(model)
    if not isinstance(model, SentenceTransformer):
        raise UnsupportedModel(f"a study of length looks inside a SentenceTransformer, got {type(model).__name__}.")
    prompt = document_prompt(model) if spec.prompt is None else spec.prompt
    counter = counter_of(model, prompt)
    progress.stage("reading the corpus")
    try:
        corpus = Corpus.read(spec.corpus, None if spec.language is None else [spec.language], partial=True)
    except CorpusError as error:
        hint = str(error).replace("--languages en (in Python, languages=['en'])", "--language en (language='en')")
        raise CorpusError(hint) from None
    language = spec.language or ("en" if "en" in corpus.languages else corpus.languages[0])
    corpus = corpus.select([language])
    progress.stage("cutting documents")
    if spec.natural:
        cuts = natural_lengths(corpus, language, counter, documents=spec.documents, seed=spec.seed)
    else:
        lengths = spec.lengths or _reachable(corpus, language, counter)
        cuts = cut_documents(
            corpus,
            language,
            lengths,
            counter,
            documents=spec.documents,
            seed=spec.seed,
            tolerance=spec.tolerance,
            start="beginning" if spec.start == "beginning" else "random",
        )
    cuts = _large_enough(cuts)
    pairs = repeated_pairs(counter) if spec.probe else ()
    labelled = None if spec.labelled is None else _labelled(spec, language, cuts.lengths, counter)
    progress.stage("hashing the weights")
    identity = fingerprint(model)
    return PreparedCollapse(
        model, name or name_of(model), spec, corpus, cuts, pairs, counter, prompt, identity, labelled
    )


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
        per_treatment = sum(text.length for text in texts + probes + tested) + sum(one.tokens for one in chosen)
        self.progress.start(len(self.spec.treatments) * per_treatment)
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
            if chosen:
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
                self.writer.rows, self.spec.treatments, cuts.lengths, seed=self.spec.seed
            )
        self.progress.stop()

    def _encoder(self, treatment: Treatment) -> ModelEncoder:
        return ModelEncoder(
            self.prepared.model,
            treatment.for_documents,
            prompt=self.prepared.prompt,
            fingerprint=self.prepared.fingerprint,
        )

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


def geometry(clouds: Mapping[str, Sequence[np.ndarray]], cuts: Cuts, *, seed: int) -> list[dict[str, Any]]:
    """Every measure of every cloud of vectors with its interval, and what is compared with what.

    Where the same documents were cut to every length, differences are paired. Each entry has `against`: None for the
    value itself; a treatment for the change from it; "shortest" for the difference from the shortest texts of the
    same treatment, "short_baseline" for that from the first treatment's shortest texts, and "doubling" for what each
    doubling of length adds.
    """
    lengths = list(cuts.lengths)
    entries: list[dict[str, Any]] = []
    names = list(clouds)
    for measure in GEOMETRY:
        for name in names:
            paired = cuts.paired
            rng = np.random.default_rng(seed)
            own = list(clouds[name])
            if measure == "rank" and len({len(cloud) for cloud in own}) > 1:
                continue
            first = list(clouds[names[0]])
            both = own if name in (names[0], WORDS) else [*own, *first]
            drawn = replicate(both, measure, rng=rng, paired=paired)
            label = {"treatment": name, "measure": measure}
            intervals = drawn.intervals()
            for number, length in enumerate(lengths):
                entries.append({**label, "length": length, "against": None, **_plain(intervals[number])})
                if number:
                    change = drawn.difference(number, 0)
                    entries.append({**label, "length": length, "against": "shortest", **_plain(change)})
                if name != WORDS:
                    start = len(both) - len(first)
                    change = drawn.difference(number, start) if number + start else Interval(0.0, 0.0, 0.0)
                    entries.append({**label, "length": length, "against": "short_baseline", **_plain(change)})
                if len(both) > len(own):
                    change = drawn.difference(number, len(own) + number)
                    if not paired:
                        # The documents of one length are the same under both treatments, whatever those of another.
                        pair = [own[number], first[number]]
                        change = replicate(pair, measure, rng=np.random.default_rng(seed)).difference(0, 1)
                    entries.append({**label, "length": length, "against": names[0], **_plain(change)})
            if len(lengths) > 1:
                weights = np.zeros(len(both))
                weights[: len(own)] = _slope(lengths)
                slope = drawn.contrast(weights)
                entries.append({**label, "length": None, "against": "doubling", **_plain(slope)})
    return entries


def by_bin(rows: pl.DataFrame, treatments: Sequence[str], *, seed: int) -> list[dict[str, Any]]:
    """Accuracy and entropy of the tested texts by length, and their change from the first treatment."""
    entries: list[dict[str, Any]] = []
    for measure in ("correct", "entropy"):
        tables = {
            name: rows.filter((pl.col("measure") == measure) & (pl.col("treatment") == name)) for name in treatments
        }
        first = tables[treatments[0]]
        bins = length_bins([int(part) for part in first["part"]])
        clusters, before = first["document"].to_numpy(), first["value"].to_numpy()
        for name, own in tables.items():
            values = own["value"].to_numpy()
            effects = query_effects(values, bins.groups, clusters, rng=np.random.default_rng(seed))
            label = {"treatment": name, "measure": measure}
            for length, one in zip(bins.begins, effects.groups, strict=True):
                entries.append({**label, "length": length, "against": None, **_plain(one)})
            if name == treatments[0]:
                continue
            change = query_change(before, values, bins.groups, clusters, rng=np.random.default_rng(seed))
            for length, one in zip(bins.begins, change.groups, strict=True):
                entries.append({**label, "length": length, "against": treatments[0], **_plain(one)})
    return entries


def fitted(
    rows: pl.DataFrame, treatments: Sequence[Treatment], lengths: Sequence[int], *, seed: int
) -> dict[str, Any] | None:
    """A schedule of temperatures fitted on half of the classified documents, and what it does to the other half.

    None where fewer than two temperatures were tried, 1 among them.
    """
    tried = {one.name: value for one in treatments if (value := temperature_of(one)) is not None}
    if len(tried) < 2 or 1.0 not in tried.values():
        return None
    tables = {name: rows.filter((pl.col("measure") == "correct") & (pl.col("treatment") == name)) for name in tried}
    first = next(iter(tables.values()))
    scores = np.stack([table["value"].to_numpy() for table in tables.values()], axis=1)
    bins = np.array([int(part) for part in first["part"]])
    documents = first["document"].to_list()
    parts = split(documents, seed=seed)
    values = list(tried.values())
    found = fit_schedule(
        scores, bins, values, list(lengths), rng=np.random.default_rng(seed), documents=documents, split=parts
    )
    test = ~parts.in_fit(documents)
    chosen = np.array([values.index(one.temperature) for one in found.bins])
    taken = scores[np.arange(len(bins)), chosen[np.searchsorted(list(lengths), bins)]]
    clusters = np.array(documents)[test]
    change = query_change(
        scores[test, values.index(1.0)],
        taken[test],
        np.searchsorted(list(lengths), bins[test]) + 1,
        clusters,
        rng=np.random.default_rng(seed),
    )
    return {
        "acts": found.acts,
        "steps": [{"length": one.begin, "temperature": one.temperature} for one in found.bins],
        "fitted_documents": len(set(documents)) - len(set(clusters.tolist())),
        "tested_documents": len(set(clusters.tolist())),
        "tested_change": _plain(change.overall),
        "notes": list(found.notes),
    }


def _labelled(spec: CollapseSpec, language: str, lengths: Sequence[int], counter: TokenCounter) -> Labelled:
    if spec.natural:
        raise DesignError("labelled texts are cut to lengths: leave natural away.")
    texts = read_labelled(str(spec.labelled))
    corpus = Corpus.from_segments("labelled", [Segment(one.id, language, one.text) for one in texts])
    cuts = cut_documents(
        corpus,
        language,
        lengths,
        counter,
        documents=spec.labelled_documents,
        seed=spec.seed,
        tolerance=spec.tolerance,
        start="beginning" if spec.start == "beginning" else "random",
    )
    return Labelled(corpus, cuts, {one.id: one.label for one in texts})


def _slope(lengths: Sequence[int]) -> np.ndarray:
    # A bin of natural lengths that begins at 0 has its middle, not its beginning, as its length.
    return slope_weights([length or 50 for length in lengths])


def _plain(interval: Interval) -> dict[str, float | None]:
    values = {name: float(getattr(interval, name)) for name in ("estimate", "low", "high")}
    return {name: value if np.isfinite(value) else None for name, value in values.items()}


def _by_length(vectors: np.ndarray, cuts: Cuts) -> list[np.ndarray]:
    lengths = np.array([text.length for text in cuts.texts])
    return [vectors[lengths == length] for length in cuts.lengths]


def _texts(texts: Sequence[str], counter: TokenCounter) -> list[Text]:
    return [Text(text, length) for text, length in zip(texts, counter.count_whole(texts), strict=True)]


def _reachable(corpus: Corpus, language: str, counter: TokenCounter) -> list[int]:
    """25, 50, 100, … as far as the model reads and half of the documents reach."""
    counts = np.array(counter.count([corpus.text(name, language) for name in corpus.ids([language])]))
    room = np.inf if counter.window is None else counter.window - counter.count_whole([""])[0]
    lengths = []
    length = _SHORTEST
    while length <= room and (counts >= 1.1 * length - 1e-9).mean() >= 0.5:
        lengths.append(length)
        length *= 2
    if len(lengths) < 2 and room < 2 * _SHORTEST:
        raise DesignError(
            f"the model reads {counter.window} {counter.unit}, too few to compare lengths: name lengths."
        )
    if len(lengths) < 2:
        raise DesignError(
            f"half of the {len(counts)} documents have fewer than {round(2.2 * _SHORTEST)} {counter.unit}, too few "
            "to compare lengths: name lengths, or use longer documents."
        )
    return lengths


def _large_enough(cuts: Cuts) -> Cuts:
    """The lengths that have enough documents for an interval; the others are noted."""
    counts = {length: len(cuts.at(length)) for length in cuts.lengths}
    few = [length for length, count in counts.items() if count < _LEAST]
    if len(few) == len(counts):
        raise DesignError(
            f"{max(counts.values(), default=0)} documents can be used, and {_LEAST} are needed: add documents, name "
            "other lengths, or raise the tolerance."
        )
    if not few:
        return cuts
    note = f"lengths with fewer than {_LEAST} documents were left out: {', '.join(map(str, few))}"
    return Cuts(tuple(text for text in cuts.texts if text.length not in few), (*cuts.notes, note))


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
        "seed": prepared.spec.seed,
        "spec": prepared.spec.to_dict(),
        "geometry": [],
        "classification": [],
        "fitted": None,
        "notes": [
            *prepared.corpus.notes,
            *cuts.notes,
            *(f"labelled: {note}" for note in (prepared.labelled.cuts.notes if prepared.labelled else ())),
        ],
    }
