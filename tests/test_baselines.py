"""Whitening and last2avg: by hand, as models, as treatments, fitted on no tested text."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import (
    Dense,
    Normalize,
    Pooling,
    StaticEmbedding,
    Transformer,
    WeightedLayerPooling,
)

import fairspan
from fairspan.calibration.calibration import PRESETS, Calibration
from fairspan.calibration.treatment import Treatment, as_treatment
from fairspan.corpus.corpus import Corpus
from fairspan.encoding.fill import Tally
from fairspan.encoding.store import Store
from fairspan.errors import CorpusError, FairspanError, UnsupportedModel
from fairspan.model.baselines import Whitening, fit_whitening, last_two, whiten
from fairspan.runs.fit_part import overlaps
from fairspan.runs.progress import Silent
from fairspan.runs.subject import Embedder, open_subject
from fairspan.studies.audit.options import AuditOptions
from fairspan.studies.audit.prepare import PreparedAudit
from fairspan.studies.audit.run import STUDY, audit
from fairspan.studies.evaluate.options import EvaluateOptions
from fairspan.studies.evaluate.prepare import prepare_evaluation
from fairspan.studies.evaluate.run import evaluate
from tests.test_audit import cosine, documents_of, values_of
from tests.tiny import ARCHITECTURES, HIDDEN, mostly_slow, tiny_model, words

Make = Callable[..., SentenceTransformer]

# Texts in padded batches against each text alone: a few float32 roundings (6e-8 each) through four
# layers, of values of order 1.
BY_PADDING = 1e-5
# Whitening divides by the spread of each direction, and multiplies those roundings by as much:
# below 200 here, which the tests of it check.
WHITENED, NARROWEST = 1e-3, 5e-3


# Whitening, as numbers.


def test_two_dimensions_by_hand() -> None:
    """Variances 8/3 and 2/3 over N − 1 = 3 along the axes, around (5, −1)."""
    vectors = np.array([[7.0, -1], [3, -1], [5, 0], [5, -2]])
    found = fit_whitening(vectors)
    assert found.mean == pytest.approx([5, -1])
    assert found.matrix == pytest.approx(np.diag([np.sqrt(3 / 8), np.sqrt(3 / 2)]))
    first = fit_whitening(vectors, dimensions=1)
    assert first.matrix == pytest.approx(found.matrix[:, :1]), "that of larger variance"


def apply(fit: Whitening, vectors: np.ndarray) -> np.ndarray:
    return np.asarray((vectors - fit.mean) @ fit.matrix)


def cloud(count: int, width: int, seed: int = 0) -> np.ndarray:
    """Correlated vectors off the origin, with spreads from 1 to 1/100."""
    rng = np.random.default_rng(seed)
    turned = np.linalg.qr(rng.standard_normal((width, width)))[0]
    spread = rng.standard_normal((count, width)) * np.geomspace(1, 0.01, width)
    return spread @ turned + rng.standard_normal(width)


@pytest.mark.parametrize("dimensions", [None, 1, 7, 16])
@pytest.mark.parametrize("count", [17, 400])
def test_what_was_fitted_has_the_identity_as_covariance(count: int, dimensions: int | None) -> None:
    vectors = cloud(count, 16)
    assert np.abs(np.cov(vectors.T) - np.eye(16)).max() > 0.1, "the premise"
    whitened = apply(fit_whitening(vectors, dimensions=dimensions), vectors)
    assert whitened.shape == (count, dimensions or 16)
    assert np.atleast_2d(np.cov(whitened.T)) == pytest.approx(np.eye(dimensions or 16), abs=1e-6)
    assert whitened.mean(axis=0) == pytest.approx(0, abs=1e-6)


def test_directions_without_variance_are_left_out() -> None:
    """Vectors in three of five dimensions: whitening the other two would divide by nothing."""
    inside = cloud(50, 3)
    turned = np.linalg.qr(np.random.default_rng(1).standard_normal((5, 5)))[0][:3]
    found = fit_whitening(inside @ turned + 1.0)
    assert found.matrix.shape == (5, 3)
    assert np.cov(apply(found, inside @ turned + 1.0).T) == pytest.approx(np.eye(3), abs=1e-6)
    assert fit_whitening(inside @ turned, dimensions=4).matrix.shape == (5, 3)


# Whitening, as a model.

TEXTS = [words(5 + number % 9, seed=number) for number in range(3 * HIDDEN)]


def vectors_of(model: SentenceTransformer, texts: Sequence[str] = TEXTS) -> np.ndarray:
    return np.asarray(model.encode(list(texts)), dtype=np.float64)


def fitted_on(vectors: np.ndarray, dimensions: int | None = None) -> Whitening:
    """A whitening that does not magnify rounding beyond what `WHITENED` allows for."""
    found = fit_whitening(vectors, dimensions=dimensions)
    assert np.linalg.norm(found.matrix, axis=0).max() < 1 / NARROWEST, "the premise"
    return found


def unit(vectors: np.ndarray) -> np.ndarray:
    found: np.ndarray = vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)
    return found


@pytest.mark.parametrize(
    ("architecture", "pooling", "normalize", "dimensions"),
    [("bert", "cls", False, None), ("qwen3", "lasttoken", True, None), ("t5", "mean", True, 8)],
)
def test_a_whitened_model(
    make_tiny: Make, architecture: str, pooling: str, normalize: bool, dimensions: int | None
) -> None:
    """Normalised if the model's vectors are; uncorrelated if it was fitted on their texts."""
    model = make_tiny(architecture, pooling, normalize=normalize)
    before, modules = vectors_of(model), list(model.children())
    whitening = fitted_on(before, dimensions)
    whitened = whiten(model, whitening)
    # The tiny BERT ends in a LayerNorm without a trained offset: components sum to zero.
    kept = dimensions or (HIDDEN - 1 if architecture == "bert" else HIDDEN)
    assert type(whitened) is SentenceTransformer
    assert whitened.get_embedding_dimension() == kept
    found, wanted = vectors_of(whitened), apply(whitening, before)
    assert found == pytest.approx(unit(wanted) if normalize else wanted, abs=WHITENED)
    if not normalize:
        assert np.cov(found.T) == pytest.approx(np.eye(kept), abs=WHITENED)
    assert np.array_equal(vectors_of(model), before), "the model is as it was"
    assert list(model.children()) == modules


@pytest.mark.parametrize(("baseline", "normalize"), [("whitening", True), ("last2avg", False)])
def test_saved_and_loaded(make_tiny: Make, tmp_path: Path, baseline: str, normalize: bool) -> None:
    """By sentence-transformers alone, to the last bit: nothing of fairspan is in the folder."""
    model = make_tiny("roberta", "cls", normalize=normalize)
    made = last_two(model)
    if baseline == "whitening":
        made = whiten(model, fit_whitening(vectors_of(model)))
    made.save_pretrained(str(tmp_path / "saved"))
    listed = json.loads((tmp_path / "saved" / "modules.json").read_text(encoding="utf-8"))
    assert all(module["type"].startswith("sentence_transformers.") for module in listed)
    loaded = SentenceTransformer(str(tmp_path / "saved"), device="cpu")
    assert np.array_equal(vectors_of(loaded), vectors_of(made))
    plain, found = vectors_of(model), vectors_of(loaded)
    assert found.shape != plain.shape or np.abs(found - plain).max() > 0.1, "the premise"


# last2avg.


def last_two_by_hand(
    model: SentenceTransformer, texts: Sequence[str], **options: Any
) -> np.ndarray:
    """Each text alone: transformers' own hidden states, the last two averaged, then all tokens."""
    found = []
    for text in texts:
        inputs = model.tokenizer(text, return_tensors="pt")
        with torch.inference_mode():
            given = {name: inputs[name] for name in ("input_ids", "attention_mask")}
            states = model[0].model(**given, output_hidden_states=True, **options).hidden_states
        found.append(((states[-1] + states[-2]) / 2)[0].mean(dim=0).numpy())
    return np.stack(found).astype(np.float64)


@pytest.mark.parametrize("architecture", mostly_slow(ARCHITECTURES))
def test_last_two_by_hand(make_tiny: Make, architecture: str) -> None:
    causal = architecture in ("qwen3", "mistral", "gemma3_text")
    kind = ("lasttoken", "left") if causal else ("cls", "right")
    model = make_tiny(architecture, kind[0], padding_side=kind[1])
    before = vectors_of(model)
    found = vectors_of(last_two(model))
    assert found == pytest.approx(last_two_by_hand(model, TEXTS), abs=BY_PADDING)
    last = vectors_of(SentenceTransformer(modules=[model[0], Pooling(HIDDEN, "mean")]))
    assert all(np.abs(found - other).max() > 0.1 for other in (last, before)), "the premise"
    assert not model[0].model.config.output_hidden_states
    assert np.array_equal(vectors_of(model), before), "the model is as it was"


def test_what_follows_the_pooling_is_kept(make_tiny: Make) -> None:
    plain = make_tiny("t5", "mean")
    dense = Dense(HIDDEN, 5, activation_function=torch.nn.Tanh())
    model = SentenceTransformer(modules=[plain[0], plain[1], dense, Normalize()], device="cpu")
    with torch.inference_mode():
        wanted = dense({"sentence_embedding": torch.tensor(last_two_by_hand(plain, TEXTS)).float()})
    made = last_two(model)
    wanted = unit(wanted["sentence_embedding"].double().numpy())
    assert vectors_of(made) == pytest.approx(wanted, abs=BY_PADDING)
    kinds = [type(module) for module in made.children()]
    assert kinds == [Transformer, WeightedLayerPooling, Pooling, Dense, Normalize]


@pytest.mark.parametrize("pooling", ["cls", "mean"])
def test_last_two_of_a_calibrated_model(make_tiny: Make, pooling: str) -> None:
    """Before or after is the same: all rows are calibrated, where CLS pooling would take one."""
    model, calibration = make_tiny("bert", pooling), Calibration(basket_size=4, temperature=0.5)
    after = vectors_of(fairspan.calibrate(last_two(model), calibration))
    assert np.array_equal(after, vectors_of(last_two(fairspan.calibrate(model, calibration))))
    fair = fairspan.calibrate(make_tiny("bert", "mean"), calibration)
    fair[0].model.config.output_hidden_states = True
    with torch.inference_mode():
        states = fair(fair.preprocess(TEXTS[:1]))["all_layer_embeddings"]
    wanted = ((states[-1] + states[-2]) / 2)[0].mean(dim=0).double().numpy()
    assert after[0] == pytest.approx(wanted, abs=BY_PADDING)
    assert np.abs(after - vectors_of(last_two(model))).max() > 0.01, "the premise"


def test_what_last_two_refuses(make_tiny: Make, tmp_path: Path) -> None:
    model = make_tiny("bert", "mean")
    static = StaticEmbedding(model.tokenizer, embedding_dim=8)
    with pytest.raises(UnsupportedModel, match="this model has StaticEmbedding"):
        last_two(SentenceTransformer(modules=[static], device="cpu"))
    shallow = tiny_model(tmp_path, "bert", "mean", num_hidden_layers=1)
    said = r"BertModel does not give the hidden states of two layers \(2 were"
    with pytest.raises(UnsupportedModel, match=said):
        last_two(shallow)
    modules = [model[0], Pooling(HIDDEN, ("cls", "mean"))]
    both = last_two(SentenceTransformer(modules=modules, device="cpu"))
    assert vectors_of(both).shape[1] == HIDDEN


# Treatments.


@pytest.mark.parametrize(
    ("name", "baseline", "calibration", "number"),
    [
        ("whitening", "whitening", PRESETS["plain"], None),
        ("last2avg", "last2avg", PRESETS["plain"], None),
        ("whitening-8+temperature=0.8", "whitening-8", PRESETS["tempscale"], 8),
        (" last2avg+strength=1+sides=document ", "last2avg", Calibration(sides="document"), None),
        ("whitening+strength=1+baskets=segments", "whitening", Calibration(), None),
    ],
)
def test_names(name: str, baseline: str, calibration: Calibration, number: int | None) -> None:
    found = as_treatment(name)
    assert (found.name, found.baseline, found.calibration) == (name.strip(), baseline, calibration)
    assert (found.whitens, found.number, found.acts) == (baseline != "last2avg", number, True)
    assert found.by_segments == ("segments" in name)
    assert Treatment.from_dict(json.loads(json.dumps(found.to_dict()))) == found


# What is never tested.

LONG = "The quick brown fox jumps over the lazy dog, and the dog does not mind it at all."
OTHER = "Pack my box with five dozen liquor jugs, and bring it down to the harbour by noon."


@pytest.mark.parametrize(
    ("text", "tested", "wanted"),
    [
        (LONG, LONG, True),
        (LONG, f"{OTHER} {LONG} {OTHER}", True),
        (f"{OTHER} {LONG}", LONG, True),
        (LONG, LONG[:60], True),
        (LONG[:60], LONG, True),
        (f"{OTHER} {LONG}", f"{LONG} {LONG[:5]}", True),
        (LONG.replace(" ", "\n  "), f"x {LONG}", True),
        (LONG, OTHER, False),
        (LONG, f"{OTHER} {LONG[:39]}", False),
        ("Harbour", f"{OTHER} Harbour", False),
        (f"The Harbour {OTHER}", "Harbour", False),
        (f"Harbour {OTHER}", "Harbour", True),
        ("Harbour", f"Harbour {OTHER}", True),
        ("大家都知道,这里没有空格", "前面还有一句话。大家都知道,这里没有空格", False),
        ("大家都知道,这里没有空格,而且开头很短", "大家都知道", True),
        ("Harbour", " Harbour ", True),
    ],
)
def test_texts_that_are_tested(text: str, tested: str, wanted: bool) -> None:
    assert overlaps([text, "something else"], ["nothing of the kind", tested]) == [wanted, False]


def share(texts: Sequence[str], others: Sequence[str]) -> list[tuple[str, str]]:
    """The pairs of which one stands in the other."""
    return [(one, other) for one in texts for other in others if one in other or other in one]


SEGMENTS = 110


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Segments of two sentences of 12 to 17 words in two "languages"."""
    folder = tmp_path_factory.mktemp("corpus") / "spare"
    folder.mkdir()
    for shift, language in enumerate(("en", "de")):
        write_corpus(folder / f"{language}.jsonl", "s", range(SEGMENTS), shift)
    return str(folder)


def write_corpus(
    file: Path, prefix: str, numbers: Sequence[int], shift: int = 0, count: int = 12
) -> None:
    lines = []
    for number in numbers:
        seed = 10_000 * (shift + 1) + number
        text = f"{words(count + number % 6, seed)} . {words(count + number % 5, seed + 5_000)} ."
        lines.append(json.dumps({"id": f"{prefix}{number:04}", "text": text}))
    file.write_text("\n".join(lines), encoding="utf-8")


@pytest.fixture
def other_corpus(tmp_path: Path) -> str:
    """A hundred other segments."""
    folder = tmp_path / "other"
    folder.mkdir()
    write_corpus(folder / "en.jsonl", "t", range(1000, 1100))
    return str(folder)


NAMES = ["plain", "whitening", "last2avg", "whitening-8+temperature=0.5"]


@pytest.fixture
def prepared(make_tiny: Make, corpus: str) -> PreparedAudit:
    return ready(make_tiny, corpus=corpus, treatments=NAMES)


def ready(make_tiny: Make, **changes: Any) -> PreparedAudit:
    """An audit of four sets of three, as far as before anything is embedded."""
    asked = {"languages": ["en"], "sizes": [3], "sets": 4, **changes}
    return STUDY.ready(AuditOptions(make_tiny("bert", "mean"), **asked), Silent())


def test_the_fit_part_of_an_audit(prepared: PreparedAudit, corpus: str) -> None:
    tested = list(prepared.documents.segments.values())
    fitted = [text.text for text in prepared.fit.texts]
    assert (len(tested), len(fitted)) == (3 * 4, SEGMENTS - 3 * 4)
    every = [segment.text for segment in Corpus.read(corpus, ["en"]).segments]
    assert sorted([*fitted, *tested]) == sorted(every)
    assert not share(fitted, [document.text for document in prepared.documents.documents])
    names = "whitening, whitening-8+temperature=0.5"
    assert prepared.fit.notes == (f"{names}: fitted on 98 texts of spare that are not tested",)
    again = STUDY.ready(prepared.options, Silent())
    assert again.fit == prepared.fit
    plain = STUDY.ready(replace(prepared.options, treatments=["last2avg"]), Silent())
    assert (plain.fit.texts, plain.fit.notes, plain.fit.text_hashes) == ((), (), [])


def test_a_translation_of_a_tested_segment_is_out(make_tiny: Make, corpus: str) -> None:
    """The first segment is German and the others English: both languages of all are out."""
    how = {"corpus": corpus, "languages": None, "mixed": ["de:en"]}
    found = ready(make_tiny, **how, treatments=["whitening"])
    texts, used = Corpus.read(corpus), {segment for segment, _ in found.documents.segments}
    assert len(used) == 12
    fitted = {text.text for text in found.fit.texts}
    assert len(fitted) == 2 * (SEGMENTS - 12)
    assert fitted == {segment.text for segment in texts.segments if segment.id not in used}


def test_another_corpus_is_fitted_on_without_what_is_tested(
    make_tiny: Make, corpus: str, tmp_path: Path
) -> None:
    """A hundred other segments, among which stand all that are tested, in another company."""
    folder = tmp_path / "both"
    folder.mkdir()
    write_corpus(folder / "en.jsonl", "t", [*range(SEGMENTS), *range(1000, 1100)])
    how = {"corpus": corpus, "sets": 36, "treatments": ["whitening-16"]}
    found = ready(make_tiny, **how, fit_corpus=str(folder))
    fitted = [text.text for text in found.fit.texts]
    tested = list(found.documents.segments.values())
    assert (len(tested), len(fitted)) == (108, 102)
    assert not share(fitted, tested)
    with pytest.raises(CorpusError) as caught:
        ready(make_tiny, **how)
    assert str(caught.value) == (
        "whitening-16 needs 32 texts of up to 128 tokens to be fitted on, 2 for each of 16 "
        "dimensions, and spare has 2 that are not tested: keep at most 1 dimensions, test fewer, "
        "or name another corpus with fit_corpus."
    )


# In an audit.


def whitening_of(
    model: SentenceTransformer, texts: Sequence[str], dimensions: int | None = None
) -> Whitening:
    vectors = [np.asarray(model.encode_document(text)) for text in texts]
    return fitted_on(np.stack(vectors), dimensions)


@pytest.mark.slow
def test_an_audit_by_hand(make_tiny: Make, corpus: str, tmp_path: Path) -> None:
    """cos(e(D), iso(s)) of every row, from whitenings fitted here on the other segments."""
    model = make_tiny("bert", "mean")
    asked = {"languages": ["en"], "sizes": [3], "sets": 4, "treatments": NAMES}
    log = audit(model, corpus=corpus, **asked, store=tmp_path / "s", out=tmp_path)
    texts = Corpus.read(corpus, ["en"])
    used = set(log.rows["segment"])
    rest = [segment.text for segment in texts.segments if segment.id not in used]
    assert len(rest) == SEGMENTS - 12
    sharp = fairspan.calibrate(model, strength=0, temperature=0.5)
    whitening, eight = whitening_of(model, rest), whitening_of(sharp, rest, 8)
    embed: dict[str, Callable[[str], np.ndarray]] = {
        "plain": lambda text: model.encode_document(text),
        "whitening": lambda text: apply(whitening, model.encode_document(text)),
        "last2avg": lambda text: last_two_by_hand(model, [text])[0],
        "whitening-8+temperature=0.5": lambda text: apply(eight, sharp.encode_document(text)),
    }
    values = {name: values_of(log.rows, "representation", name) for name in NAMES}
    for document, parts in documents_of(log.rows, corpus).items():
        for name, embedded in embed.items():
            whole = embedded(" ".join(text for _, _, text in parts))
            for position, _, text in parts:
                wanted = cosine(whole, embedded(text))
                assert values[name][document, position] == pytest.approx(wanted, abs=WHITENED)
    for one, other in pairwise(NAMES):
        gaps = [abs(values[one][key] - values[other][key]) for key in values[one]]
        assert max(gaps) > 0.05, "the premise"
    assert any("fitted on 98 texts of spare" in note for note in log.header.notes)


def test_keys_name_the_baseline_and_its_content(prepared: PreparedAudit, other_corpus: str) -> None:
    fitted_elsewhere = STUDY.ready(replace(prepared.options, fit_corpus=other_corpus), Silent())
    segment = prepared.segments[0]
    keys: list[list[bytes]] = []
    with Store(":memory:") as store:
        embed = Embedder(store, 4096, Tally(), Silent()).embed
        for one in (prepared, fitted_elsewhere):
            for treatment in one.options.all_treatments:
                treated = one.subject.under(treatment, fit=one.fit, embed=embed)
                keys.append([treated.segments.key(segment), treated.documents.key(segment)])
    own, others = keys[: len(NAMES)], keys[len(NAMES) :]
    assert all(both[0] == both[1] for both in keys), "both sides are treated alike"
    assert len(set(chain(*own))) == len(NAMES)
    same = [one == other for one, other in zip(own, others, strict=True)]
    assert same == [True, False, True, False], "only what is fitted depends on what it is fitted on"


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        (
            {"corpus": "sample"},
            CorpusError,
            "and sample has 0 that are not tested: keep at most 0 dimensions, test",
        ),
        (
            {"treatments": ["whitening-33"]},
            CorpusError,
            "33 dimensions, and the model's vectors have 32",
        ),
        (
            {"fit_corpus": "nowhere.jsonl"},
            CorpusError,
            "there is no file or folder 'nowhere.jsonl'",
        ),
        ({"fit_corpus": 3}, FairspanError, "fit_corpus must be a name or a path, got 3"),
    ],
)
def test_mistakes_in_an_audit(
    make_tiny: Make, corpus: str, options: dict[str, Any], error: type[FairspanError], said: str
) -> None:
    """In one line, before anything is embedded: all 48 texts are in 16 sets of three."""
    how = {"corpus": corpus, "sets": 16, "treatments": ["plain", "whitening"], "opening": 20}
    with pytest.raises(error) as caught:
        ready(make_tiny, **{**how, **options})
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


# In a search.


def test_a_short_opening_on_a_page_takes_its_whole_segment_out(
    make_tiny: Make, corpus: str
) -> None:
    """Six words are on the page, the next six ask for them; nothing of both is fitted on."""
    options: dict[str, Any] = {"size": 2, "sets": 8, "editions": 1, "opening": 6, "query_tokens": 8}
    spec = EvaluateOptions(None, "pages", treatments=["whitening"], corpus=corpus, **options)
    prepared = prepare_evaluation(open_subject(make_tiny("bert", "mean")), spec, Silent())
    task = prepared.tasks[0].task
    parts = [document.text[slice(*span)] for document in task.documents for span in document.spans]
    assert len(parts) == 2 * 8
    assert all(len(part) < 40 for part in parts), "the premise"
    assert len(prepared.fit.texts) == SEGMENTS - len(parts)
    assert not share(
        [text.text for text in prepared.fit.texts],
        [*parts, *(query.text for query in task.queries)],
    )


@pytest.fixture
def collection(tmp_path: Path) -> str:
    """Twelve documents, of which two are segments of the corpus and one holds a third; a question
    each, of which one is the beginning of a fourth."""
    folder = tmp_path / "collection"
    (folder / "qrels").mkdir(parents=True)
    texts = {f"d{number:02}": words(20 + number, 70_000 + number) for number in range(12)}
    corpus = tmp_path / "segments.jsonl"
    write_corpus(corpus, "s", range(4))
    known = [json.loads(line)["text"] for line in corpus.read_text(encoding="utf-8").splitlines()]
    texts |= {"d00": known[0], "d01": known[1], "d02": f"{words(15, 3)} {known[2]} {words(15, 4)}"}
    asked = {f"q{number:02}": words(8, 80_000 + number) for number in range(12)}
    asked["q05"] = " ".join(known[3].split()[:12])
    assert len(asked["q05"]) > 40, "the premise"
    for name, own in (("corpus", texts), ("queries", asked)):
        lines = [json.dumps({"_id": id, "text": text}) for id, text in own.items()]
        (folder / f"{name}.jsonl").write_text("\n".join(lines))
    judged = [f"q{number:02}\td{number:02}\t1" for number in range(12)]
    (folder / "qrels" / "test.tsv").write_text("\n".join(["query-id\tcorpus-id\tscore", *judged]))
    return f"beir:{folder}"


def test_a_collection_is_fitted_on_another_corpus(
    make_tiny: Make, corpus: str, collection: str, tmp_path: Path
) -> None:
    """Without the segments that the collection holds as documents, inside one, or as a question."""
    model = make_tiny("bert", "mean")
    names = ["plain", "whitening", "last2avg"]
    with pytest.raises(CorpusError) as caught:
        evaluate(model, collection, treatments=names)
    assert str(caught.value) == (
        "whitening must be fitted on texts that are not tested, and this task has none left: name "
        "another corpus with fit_corpus."
    )
    asked: dict[str, Any] = {"treatments": names, "fit_corpus": corpus, "languages": ["en"]}
    spec = EvaluateOptions(None, collection, **asked)
    prepared = prepare_evaluation(open_subject(model), spec, Silent())
    fitted = {text.text for text in prepared.fit.texts}
    texts = Corpus.read(corpus, ["en"])
    known = {texts.text(f"s000{n}", "en") for n in range(4)}
    assert fitted == {segment.text for segment in texts.segments} - known
    task = prepared.tasks[0].task
    assert not share(sorted(fitted), [one.text for one in (*task.documents, *task.queries)])
    store = tmp_path / "s.sqlite"
    log = evaluate(model, collection, **asked, out=tmp_path / "run", store=store)
    assert log.treatments == names
    alone = {"treatments": ["last2avg"], "out": tmp_path / "alone"}
    assert evaluate(model, collection, **alone, store=store)
    both = prepare_evaluation(open_subject(model), replace(spec, languages=None), Silent())
    assert len(both.fit.texts) == 2 * len(fitted), "all languages where none is named"
    german = replace(spec, languages=None, language="de")
    one = prepare_evaluation(open_subject(model), german, Silent())
    assert len(one.fit.texts) == SEGMENTS, "the collection's own language where it is named"
