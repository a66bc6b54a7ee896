"""Whitening and last2avg: by hand, as models, as treatments of an audit and of a search, fitted on no tested text."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
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
from fairspan.errors import (
    CalibrationError,
    CorpusError,
    DesignError,
    FairspanError,
    StatisticsError,
    UnsupportedModel,
)
from fairspan.model.build import copy_sharing_weights
from fairspan.model.last_two import last_two
from fairspan.model.whitening import Whitening, fit_whitening, whiten
from fairspan.runs.bases import embed_through
from fairspan.runs.fit_part import overlaps
from fairspan.runs.log import RunLog
from fairspan.runs.progress import Silent
from fairspan.runs.runner import RunOptions
from fairspan.runs.subject import open_subject
from fairspan.studies.audit.forecast import forecast
from fairspan.studies.audit.prepare import Prepared, prepare
from fairspan.studies.audit.run import audit, run
from fairspan.studies.audit.spec import make_spec
from fairspan.studies.evaluate.prepare import prepare_evaluation
from fairspan.studies.evaluate.run import evaluate
from fairspan.studies.evaluate.run_mteb import evaluate_mteb
from fairspan.studies.evaluate.spec import make_evaluation
from tests.commands import Run, forbid_encoding
from tests.test_audit import cosine, documents_of, stop_after, values_of
from tests.test_mteb import mteb, search
from tests.tiny import ARCHITECTURES, HIDDEN, mostly_slow, tiny_model, words

__all__ = ["mteb", "search"]

Make = Callable[..., SentenceTransformer]

# Texts in padded batches against each text alone: a few float32 roundings (6e-8 each) through four layers, of values
# of order 1.
BY_PADDING = 1e-5
# Whitening divides by the spread of each direction, and multiplies those roundings by as much: below 200 here, which
# the tests of it check.
WHITENED, NARROWEST = 1e-3, 5e-3


# Whitening, as numbers.


def test_two_dimensions_by_hand() -> None:
    """Variances 8/3 and 2/3 over N − 1 = 3 along the axes, around (5, −1)."""
    vectors = np.array([[7.0, -1], [3, -1], [5, 0], [5, -2]])
    found = fit_whitening(vectors)
    assert found.mean == pytest.approx([5, -1])
    assert found.matrix == pytest.approx(np.diag([np.sqrt(3 / 8), np.sqrt(3 / 2)]))
    assert found(vectors) == pytest.approx(np.sqrt(3 / 2) * np.array([[1, 0], [-1, 0], [0, 1], [0, -1]]))
    assert found(np.array([[9.0, 1]])) == pytest.approx(np.array([[4 * np.sqrt(3 / 8), 2 * np.sqrt(3 / 2)]]))
    first = fit_whitening(vectors, dimensions=1)
    assert first.matrix == pytest.approx(found.matrix[:, :1]), "the direction of larger variance is kept"


def test_a_turned_cloud_by_hand() -> None:
    """The same cloud, turned by 30°: the directions turn with it, each with its largest component positive."""
    vectors = np.array([[2.0, 0], [-2, 0], [0, 1], [0, -1]])
    half, root = 0.5, np.sqrt(3) / 2
    found = fit_whitening(vectors @ np.array([[root, half], [-half, root]]))
    wide, narrow = np.array([root, half]), np.array([-half, root])
    assert found.matrix[:, 0] == pytest.approx(wide * np.sqrt(3 / 8))
    assert found.matrix[:, 1] == pytest.approx(narrow * np.sqrt(3 / 2))


def cloud(count: int, width: int, seed: int = 0) -> np.ndarray:
    """Correlated vectors off the origin, with spreads from 1 to 1/100."""
    rng = np.random.default_rng(seed)
    turned = np.linalg.qr(rng.standard_normal((width, width)))[0]
    return rng.standard_normal((count, width)) * np.geomspace(1, 0.01, width) @ turned + rng.standard_normal(width)


@pytest.mark.parametrize("dimensions", [None, 1, 7, 16])
@pytest.mark.parametrize("count", [17, 400])
def test_what_was_fitted_has_the_identity_as_covariance(count: int, dimensions: int | None) -> None:
    vectors = cloud(count, 16)
    assert np.abs(np.cov(vectors.T) - np.eye(16)).max() > 0.1, "the premise"
    whitened = fit_whitening(vectors, dimensions=dimensions)(vectors)
    assert whitened.shape == (count, dimensions or 16)
    assert np.atleast_2d(np.cov(whitened.T)) == pytest.approx(np.eye(dimensions or 16), abs=1e-6)
    assert whitened.mean(axis=0) == pytest.approx(0, abs=1e-6)


def test_fewer_dimensions_are_the_first_of_all() -> None:
    """Those of largest variance: what is kept explains more than any other choice of as many."""
    vectors = cloud(400, 16)
    every, some = fit_whitening(vectors), fit_whitening(vectors, dimensions=5)
    assert some.matrix == pytest.approx(every.matrix[:, :5])
    spread = np.linalg.norm(every.matrix, axis=0)
    assert (np.diff(spread) > 0).all(), "W's columns are as long as 1 over the spread, which falls"


def test_directions_without_variance_are_left_out() -> None:
    """Vectors in three of five dimensions: whitening the other two would divide by nothing."""
    inside = cloud(50, 3)
    turned = np.linalg.qr(np.random.default_rng(1).standard_normal((5, 5)))[0][:3]
    found = fit_whitening(inside @ turned + 1.0)
    assert found.matrix.shape == (5, 3)
    assert np.cov(found(inside @ turned + 1.0).T) == pytest.approx(np.eye(3), abs=1e-6)
    assert fit_whitening(inside @ turned, dimensions=4).matrix.shape == (5, 3)


@pytest.mark.parametrize(
    ("vectors", "options", "said"),
    [
        (cloud(16, 16), {}, "needs at least 17 vectors, got 16: give 1 more, or keep fewer dimensions"),
        (cloud(4, 16), {"dimensions": 4}, "a whitening of 4 dimensions needs at least 5 vectors, got 4"),
        (cloud(40, 16), {"dimensions": 17}, "dimensions must be a whole number from 1 to 16, got 17"),
        (cloud(40, 16), {"dimensions": 0}, "got 0"),
        (cloud(40, 16), {"dimensions": True}, "got True"),
        (np.ones((9, 2)), {}, "all 9 vectors are the same"),
        (np.full((9, 2), np.nan), {}, "finite vectors"),
        (np.arange(9.0), {}, "[N, d], got an array of (9,)"),
    ],
)
def test_what_cannot_be_whitened_is_one_line(vectors: np.ndarray, options: dict[str, Any], said: str) -> None:
    with pytest.raises(StatisticsError) as caught:
        fit_whitening(vectors, **options)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_fingerprint_is_of_the_content() -> None:
    one = fit_whitening(cloud(60, 8))
    assert one.fingerprint == fit_whitening(cloud(60, 8)).fingerprint
    others = [fit_whitening(cloud(60, 8, seed=1)), fit_whitening(cloud(60, 8), dimensions=7)]
    others += [Whitening(one.mean + 1, one.matrix), Whitening(one.mean, one.matrix * 2)]
    assert len({one.fingerprint, *(other.fingerprint for other in others)}) == 5


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


@pytest.mark.parametrize("dimensions", [None, 8])
@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize(("architecture", "pooling"), [("bert", "cls"), ("qwen3", "lasttoken"), ("t5", "mean")])
def test_a_whitened_model(
    make_tiny: Make, architecture: str, pooling: str, normalize: bool, dimensions: int | None
) -> None:
    """Its vectors are the whitened ones of the model, normalised if those are; on the texts it was fitted on they are
    uncorrelated and of equal variance."""
    model = make_tiny(architecture, pooling, normalize=normalize)
    before, modules = vectors_of(model), list(model.children())
    whitening = fitted_on(before, dimensions)
    whitened = whiten(model, whitening)
    # The tiny BERT ends in a LayerNorm without a trained offset: the components of a vector sum to zero.
    kept = dimensions or (HIDDEN - 1 if architecture == "bert" else HIDDEN)
    assert type(whitened) is SentenceTransformer
    assert whitened.get_embedding_dimension() == kept
    found, wanted = vectors_of(whitened), whitening(before)
    assert found == pytest.approx(unit(wanted) if normalize else wanted, abs=WHITENED)
    if not normalize:
        assert np.cov(found.T) == pytest.approx(np.eye(kept), abs=WHITENED)
    assert np.array_equal(vectors_of(model), before), "the model is as it was"
    assert list(model.children()) == modules


def test_the_weights_are_shared(make_tiny: Make) -> None:
    model = make_tiny("bert", "mean")
    for made in (whiten(model, fit_whitening(vectors_of(model))), last_two(model)):
        own = {name: parameter.data_ptr() for name, parameter in made.named_parameters()}
        for name, parameter in model.named_parameters():
            assert own[name] == parameter.data_ptr()
        assert len(own) > len(list(model.named_parameters()))


@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("baseline", ["whitening", "last2avg"])
def test_saved_and_loaded(make_tiny: Make, tmp_path: Path, baseline: str, normalize: bool) -> None:
    """By sentence-transformers alone, to the last bit: nothing of fairspan is in the folder."""
    model = make_tiny("roberta", "cls", normalize=normalize)
    made = whiten(model, fit_whitening(vectors_of(model))) if baseline == "whitening" else last_two(model)
    made.save_pretrained(str(tmp_path / "saved"))
    listed = json.loads((tmp_path / "saved" / "modules.json").read_text(encoding="utf-8"))
    assert all(module["type"].startswith("sentence_transformers.") for module in listed)
    loaded = SentenceTransformer(str(tmp_path / "saved"), device="cpu")
    assert np.array_equal(vectors_of(loaded), vectors_of(made))
    plain, found = vectors_of(model), vectors_of(loaded)
    assert found.shape != plain.shape or np.abs(found - plain).max() > 0.1, "the premise"


@pytest.mark.parametrize("baseline", ["whitening", "last2avg"])
def test_in_half_precision(tmp_path: Path, baseline: str) -> None:
    """As coarse as the model is, and without an error of mixed precisions, also where more modules follow."""
    model = tiny_model(tmp_path, "bert", "mean", normalize=True).to(torch.bfloat16)
    made = whiten(model, fit_whitening(vectors_of(model))) if baseline == "whitening" else last_two(model)
    assert {parameter.dtype for parameter in made.parameters()} == {torch.bfloat16}
    assert np.isfinite(vectors_of(made)).all()


def test_what_whiten_refuses(make_tiny: Make) -> None:
    model = make_tiny("bert", "mean")
    with pytest.raises(UnsupportedModel, match=f"have {HIDDEN} dimensions, and the whitening was fitted on 8"):
        whiten(model, fit_whitening(cloud(20, 8)))
    cut = copy_sharing_weights(model)
    cut.truncate_dim = 8
    with pytest.raises(UnsupportedModel, match="truncate_dim=8 would cut the vectors after they are whitened"):
        whiten(cut, fit_whitening(cloud(20, 8)))


# last2avg.


def last_two_by_hand(model: SentenceTransformer, texts: Sequence[str], **options: Any) -> np.ndarray:
    """Each text alone: transformers' own hidden states, the last two averaged, then all tokens."""
    found = []
    for text in texts:
        inputs = model.tokenizer(text, return_tensors="pt")
        with torch.inference_mode():
            states = (
                model[0]
                .model(
                    input_ids=inputs["input_ids"],
                    attention_mask=inputs["attention_mask"],
                    output_hidden_states=True,
                    **options,
                )
                .hidden_states
            )
        found.append(((states[-1] + states[-2]) / 2)[0].mean(dim=0).numpy())
    return np.stack(found).astype(np.float64)


@pytest.mark.parametrize("architecture", mostly_slow(ARCHITECTURES))
def test_last_two_by_hand(make_tiny: Make, architecture: str) -> None:
    """Whatever the model pools by itself; in a padded batch, padding on the side where the model has it."""
    pooling, side = ("lasttoken", "left") if architecture in ("qwen3", "mistral", "gemma3_text") else ("cls", "right")
    model = make_tiny(architecture, pooling, padding_side=side)
    before = vectors_of(model)
    found = vectors_of(last_two(model))
    wanted = last_two_by_hand(model, TEXTS)
    assert found == pytest.approx(wanted, abs=BY_PADDING)
    last = vectors_of(SentenceTransformer(modules=[model[0], Pooling(HIDDEN, "mean")]))
    assert all(np.abs(found - other).max() > 0.1 for other in (last, before)), "the premise"
    assert not model[0].model.config.output_hidden_states
    assert np.array_equal(vectors_of(model), before), "the model is as it was"


def test_what_follows_the_pooling_is_kept(make_tiny: Make) -> None:
    """A Dense and a normalisation, on the mean of the last two layers."""
    plain = make_tiny("t5", "mean")
    dense = Dense(HIDDEN, 5, activation_function=torch.nn.Tanh())
    model = SentenceTransformer(modules=[plain[0], plain[1], dense, Normalize()], device="cpu")
    with torch.inference_mode():
        wanted = dense({"sentence_embedding": torch.tensor(last_two_by_hand(plain, TEXTS)).float()})
    made = last_two(model)
    assert vectors_of(made) == pytest.approx(unit(wanted["sentence_embedding"].double().numpy()), abs=BY_PADDING)
    kinds = [type(module) for module in made.children()]
    assert kinds == [Transformer, WeightedLayerPooling, Pooling, Dense, Normalize]


def test_a_prompt_that_the_model_leaves_out_of_pooling_is_left_out(make_tiny: Make) -> None:
    model = copy_sharing_weights(make_tiny("bert", "cls"))
    model.set_pooling_include_prompt(False)
    found = np.asarray(last_two(model).encode(words(7), prompt="w3 w4 "))
    inputs = model.tokenizer(f"w3 w4 {words(7)}", return_tensors="pt")
    with torch.inference_mode():
        states = model[0].model(**{**inputs, "output_hidden_states": True}).hidden_states
    # <s> and the two words of the prompt are not pooled.
    assert found == pytest.approx(((states[-1] + states[-2]) / 2)[0, 3:].mean(dim=0).numpy(), abs=BY_PADDING)


@pytest.mark.parametrize("pooling", ["cls", "mean"])
def test_last_two_of_a_calibrated_model(make_tiny: Make, pooling: str) -> None:
    """Calibrated before or after is the same, and is what the calibrated layers of a model that pools all tokens
    give: with CLS pooling, one row only would be calibrated."""
    model, calibration = make_tiny("bert", pooling), Calibration(basket_size=4, temperature=0.5)
    after = vectors_of(fairspan.calibrate(last_two(model), calibration))
    assert np.array_equal(after, vectors_of(last_two(fairspan.calibrate(model, calibration))))
    fair = fairspan.calibrate(make_tiny("bert", "mean"), calibration)
    fair[0].model.config.output_hidden_states = True
    with torch.inference_mode():
        states = fair(fair.preprocess(TEXTS[:1]))["all_layer_embeddings"]
    assert after[0] == pytest.approx(((states[-1] + states[-2]) / 2)[0].mean(dim=0).double().numpy(), abs=BY_PADDING)
    assert np.abs(after - vectors_of(last_two(model))).max() > 0.01, "the premise"


def test_what_last_two_refuses(make_tiny: Make, tmp_path: Path) -> None:
    model = make_tiny("bert", "mean")
    static = SentenceTransformer(modules=[StaticEmbedding(model.tokenizer, embedding_dim=8)], device="cpu")
    with pytest.raises(UnsupportedModel, match="this model has StaticEmbedding"):
        last_two(static)
    shallow = tiny_model(tmp_path, "bert", "mean", num_hidden_layers=1)
    with pytest.raises(UnsupportedModel, match=r"BertModel does not give the hidden states of two layers \(2 were"):
        last_two(shallow)
    both = Pooling(HIDDEN, ("cls", "mean"))
    wide = SentenceTransformer(modules=[model[0], both, Dense(2 * HIDDEN, 4)], device="cpu")
    with pytest.raises(UnsupportedModel, match=f"has {HIDDEN} dimensions, and what follows .* expects {2 * HIDDEN}"):
        last_two(wide)
    assert vectors_of(last_two(SentenceTransformer(modules=[model[0], both], device="cpu"))).shape[1] == HIDDEN


# Treatments.


@pytest.mark.parametrize(
    ("name", "baseline", "calibration", "dimensions"),
    [
        ("whitening", "whitening", PRESETS["none"], None),
        ("whitening-256", "whitening-256", PRESETS["none"], 256),
        ("last2avg", "last2avg", PRESETS["none"], None),
        ("whitening+temperature=0.8", "whitening", PRESETS["tempscale"], None),
        (" last2avg + strength=1+sides=document", "last2avg", Calibration(sides="document"), None),
        ("whitening+strength=1+baskets=segments", "whitening", Calibration(), None),
    ],
)
def test_names(name: str, baseline: str, calibration: Calibration, dimensions: int | None) -> None:
    found = as_treatment(name)
    assert (found.name, found.baseline, found.calibration) == (name.strip(), baseline, calibration)
    assert (found.whitens, found.dimensions, found.acts) == (baseline != "last2avg", dimensions, True)
    assert found.by_segments == ("segments" in name)
    assert Treatment.from_dict(json.loads(json.dumps(found.to_dict()))) == found


@pytest.mark.parametrize(
    ("table", "baseline", "calibration"),
    [
        ({"name": "whitening"}, "whitening", PRESETS["none"]),
        ({"name": "whitening", "temperature": 0.8}, "whitening", PRESETS["tempscale"]),
        ({"name": "whitening-8", "preset": "tempscale"}, "whitening-8", PRESETS["tempscale"]),
        ({"name": "mine", "baseline": "last2avg"}, "last2avg", PRESETS["none"]),
        ({"name": "mine", "baseline": "whitening", "temperature": 0.8}, "whitening", PRESETS["tempscale"]),
        ({"name": "mine", "baseline": "whitening", "preset": "paper"}, "whitening", PRESETS["paper"]),
    ],
)
def test_tables(table: dict[str, Any], baseline: str, calibration: Calibration) -> None:
    found = as_treatment(table)
    assert (found.name, found.baseline, found.calibration) == (table["name"], baseline, calibration)


@pytest.mark.parametrize("name", ["none", "paper", "128-last_half", "tempscale"])
def test_other_treatments_are_written_as_they_were(name: str) -> None:
    found = as_treatment(name)
    assert (found.baseline, found.whitens, found.acts) == (None, False, name != "none")
    assert set(found.to_dict()) == {"name", "calibration", "baskets"}
    for spec in (make_spec(treatments=[name]), make_evaluation(treatments=[name])):
        assert spec.to_dict()["fit_corpus"] is None
        with pytest.raises(DesignError, match="no treatment is fitted, so fit_corpus would do nothing"):
            replace(spec, fit_corpus="other")
        fitted = replace(spec, treatments=(*spec.treatments, as_treatment("whitening")), fit_corpus="other")
        assert fitted.to_dict()["fit_corpus"] == "other"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            "whitenig",
            "tempscale, tiles, none, whitening, last2avg, chunk-mean or a name",
        ),
        ("whitening-0", "there is no treatment 'whitening-0'"),
        ("last2avg-3", "there is no treatment 'last2avg-3'"),
        ("whitening+dimensions=3", "no field 'dimensions'"),
        ("whitening+baskets=segments", "has neither baskets nor tiles"),
        (
            {"name": "mine", "baseline": "flow"},
            "last2avg, chunk-mean, or as in whitening-256, got 'flow'",
        ),
        ({"name": "mine", "baseline": 3}, "got 3"),
        ({"name": "none", "baseline": "whitening"}, "'none' has no baseline 'whitening': give it another name"),
        ({"name": "whitening", "baseline": "last2avg"}, "'whitening' has no baseline 'last2avg'"),
        ({"name": "paper", "preset": "paper", "baseline": "last2avg"}, "'paper' has no baseline"),
    ],
)
def test_what_is_no_baseline_is_one_line(given: Any, said: str) -> None:
    with pytest.raises(CalibrationError) as caught:
        as_treatment(given)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_documents_only_keeps_the_baseline() -> None:
    spec = make_evaluation(treatments=["whitening", "last2avg+temperature=0.8"])
    wanted = [("whitening", "whitening"), ("last2avg+temperature=0.8", "last2avg")]
    wanted += [("last2avg+temperature=0.8+sides=document", "last2avg")]
    assert [(one.name, one.baseline) for one in spec.measured] == wanted


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


def write_corpus(file: Path, prefix: str, numbers: Sequence[int], shift: int = 0, count: int = 12) -> None:
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


NAMES = ["none", "whitening", "last2avg", "whitening-8+temperature=0.5"]


@pytest.fixture
def prepared(make_tiny: Make, corpus: str) -> Prepared:
    spec = make_spec(corpus=corpus, languages=["en"], sizes=[3], sets=4, treatments=NAMES)
    return prepare(open_subject(make_tiny("bert", "mean")), spec)


def test_the_fit_part_of_an_audit(prepared: Prepared, corpus: str) -> None:
    """Every segment that is in no document, and no other text."""
    tested = list(prepared.documents.segments.values())
    fitted = [text.text for text in prepared.fit.texts]
    assert (len(tested), len(fitted)) == (3 * 4, SEGMENTS - 3 * 4)
    assert sorted([*fitted, *tested]) == sorted(segment.text for segment in Corpus.read(corpus, ["en"]).segments)
    assert not share(fitted, [document.text for document in prepared.documents.documents])
    names = "whitening, whitening-8+temperature=0.5"
    assert prepared.fit.notes == (f"{names}: fitted on 98 texts of spare that are not tested",)
    again = prepare(prepared.subject, prepared.spec)
    assert again.fit == prepared.fit
    plain = prepare(prepared.subject, replace(prepared.spec, treatments=(as_treatment("last2avg"),)))
    assert (plain.fit.texts, plain.fit.notes, plain.fit.decisive) == ((), (), [])


def test_an_opening_takes_its_whole_segment_out(make_tiny: Make, corpus: str) -> None:
    """Documents hold the first ten words; nothing of such a segment is fitted on, its rest included."""
    spec = make_spec(corpus=corpus, languages=["en"], sizes=[3], sets=4, opening=10, treatments=["whitening"])
    found = prepare(open_subject(make_tiny("bert", "mean")), spec)
    texts = Corpus.read(corpus, ["en"])
    whole = [texts.text(*key) for key in found.documents.segments]
    assert all(len(text.split()) == 10 for text in found.documents.segments.values()), "the premise"
    assert len(found.fit.texts) == SEGMENTS - len(whole)
    assert not share([text.text for text in found.fit.texts], whole)


def test_a_translation_of_a_tested_segment_is_out(make_tiny: Make, corpus: str) -> None:
    """In mixed documents the first segment is German and the others English: both languages of all are out."""
    spec = make_spec(corpus=corpus, mixed=["de:en"], sizes=[3], sets=4, treatments=["whitening"])
    found = prepare(open_subject(make_tiny("bert", "mean")), spec)
    texts, used = Corpus.read(corpus), {segment for segment, _ in found.documents.segments}
    assert len(used) == 12
    fitted = {text.text for text in found.fit.texts}
    assert len(fitted) == 2 * (SEGMENTS - 12)
    assert fitted == {segment.text for segment in texts.segments if segment.id not in used}


def test_another_corpus_is_fitted_on_without_what_is_tested(make_tiny: Make, corpus: str, tmp_path: Path) -> None:
    """A hundred other segments, among which stand all that are tested, in another company."""
    folder = tmp_path / "both"
    folder.mkdir()
    write_corpus(folder / "en.jsonl", "t", [*range(SEGMENTS), *range(1000, 1100)])
    options = {"corpus": corpus, "languages": ["en"], "sizes": [3], "sets": 36, "treatments": ["whitening-16"]}
    model = make_tiny("bert", "mean")
    found = prepare(open_subject(model), make_spec(fit_corpus=str(folder), **options))
    fitted, tested = [text.text for text in found.fit.texts], list(found.documents.segments.values())
    assert (len(tested), len(fitted)) == (108, 102)
    assert not share(fitted, tested)
    with pytest.raises(CorpusError) as caught:
        prepare(open_subject(model), make_spec(**options))
    assert str(caught.value) == (
        "whitening-16 needs 32 texts of up to 128 tokens to be fitted on, 2 for each of 16 dimensions, and spare has "
        "2 that are not tested: add 30, keep at most 1 dimensions, as in whitening-1, test fewer, or name another "
        "corpus with fit_corpus=."
    )


def test_long_segments_are_cut_and_many_are_drawn_from(make_tiny: Make, corpus: str, tmp_path: Path) -> None:
    """Segments of two sentences of 100 words make two texts each; ten for each dimension are drawn by the seed."""
    folder = tmp_path / "long"
    folder.mkdir()
    write_corpus(folder / "en.jsonl", "t", range(200), 3, count=100)
    model = make_tiny("bert", "mean")
    parts = []
    for seed in (0, 0, 1):
        options = {"languages": ["en"], "sizes": [3], "sets": 4, "treatments": ["whitening"], "seed": seed}
        found = prepare(open_subject(model), make_spec(corpus=corpus, fit_corpus=str(folder), **options)).fit
        assert len(found.texts) == 10 * HIDDEN
        assert all(100 < text.length <= 128 for text in found.texts)
        parts.append(found)
    assert parts[0] == parts[1] != parts[2]
    whole = " ".join(segment.text for segment in Corpus.read(folder).segments)
    assert all(text.text in whole for text in parts[0].texts)


# In an audit.


def whitening_of(model: SentenceTransformer, texts: Sequence[str], dimensions: int | None = None) -> Whitening:
    return fitted_on(np.stack([np.asarray(model.encode_document(text)) for text in texts]), dimensions)


def test_an_audit_by_hand(make_tiny: Make, corpus: str, tmp_path: Path) -> None:
    """cos(e(D), iso(s)) of every row, from whitenings fitted here on the segments that no row names."""
    model = make_tiny("bert", "mean")
    log = audit(
        model,
        corpus=corpus,
        languages=["en"],
        sizes=[3],
        sets=4,
        treatments=NAMES,
        store=tmp_path / "s",
        out=tmp_path,
    )
    texts = Corpus.read(corpus, ["en"])
    rest = [segment.text for segment in texts.segments if segment.id not in set(log.rows["segment"])]
    assert len(rest) == SEGMENTS - 12
    sharp = fairspan.calibrate(model, strength=0, temperature=0.5)
    whitening, eight = whitening_of(model, rest), whitening_of(sharp, rest, 8)
    embed: dict[str, Callable[[str], np.ndarray]] = {
        "none": lambda text: model.encode_document(text),
        "whitening": lambda text: whitening(model.encode_document(text)),
        "last2avg": lambda text: last_two_by_hand(model, [text])[0],
        "whitening-8+temperature=0.5": lambda text: eight(sharp.encode_document(text)),
    }
    values = {name: values_of(log.rows, "representation", name) for name in NAMES}
    for document, parts in documents_of(log.rows, corpus).items():
        for name, embedded in embed.items():
            whole = embedded(" ".join(text for _, _, text in parts))
            for position, _, text in parts:
                wanted = cosine(whole, embedded(text))
                assert values[name][document, position] == pytest.approx(wanted, abs=WHITENED)
    for one, other in pairwise(NAMES):
        assert max(abs(values[one][key] - values[other][key]) for key in values[one]) > 0.05, "the premise"
    assert any("fitted on 98 texts of spare" in note for note in log.header["notes"])


def test_keys_name_the_baseline_and_its_content(prepared: Prepared, other_corpus: str) -> None:
    """The same text has another key under every baseline, and under a whitening that was fitted on other texts."""
    spec = replace(prepared.spec, fit_corpus=other_corpus)
    (segment, *_), _ = prepared.texts()
    keys: list[list[bytes]] = []
    with Store(":memory:") as store:
        embed = embed_through(store, budget=4096, tally=Tally(), progress=lambda tokens: None)
        for one in (prepared, prepare(prepared.subject, spec)):
            made = [one.subject.under(treatment, fit=one.fit, embed=embed) for treatment in one.spec.treatments]
            keys += [[treated.segments.key(segment), treated.documents.key(segment)] for treated in made]
    own, others = keys[: len(NAMES)], keys[len(NAMES) :]
    assert all(for_segments == for_documents for for_segments, for_documents in keys), "both sides are treated alike"
    assert len(set(chain(*own))) == len(NAMES)
    same = [one == other for one, other in zip(own, others, strict=True)]
    assert same == [True, False, True, False], "only what is fitted depends on what it is fitted on"


def stored_twice(log: RunLog, again: RunLog) -> None:
    assert again.header["timings"]["texts_computed"] == 0
    assert again.rows.equals(log.rows)


def test_the_store_holds_everything(prepared: Prepared, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fresh run embeds nothing, the texts it fits on included, and gives the same to the last bit."""
    log = run(prepared, RunOptions(out=tmp_path / "one", store=tmp_path / "s.sqlite"))
    forbid_encoding(monkeypatch)
    stored_twice(log, run(prepared, RunOptions(out=tmp_path / "two", store=tmp_path / "s.sqlite")))


@pytest.mark.parametrize("calls", [3, 9])
@pytest.mark.slow
def test_an_interrupted_audit_goes_on(
    prepared: Prepared, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, calls: int
) -> None:
    """Stopped while it embeds texts to fit on, or others: what comes out is what an unbroken run gives."""
    settings: dict[str, Any] = {"batch_tokens": 600}
    whole = run(prepared, RunOptions(out=tmp_path / "whole", store=tmp_path / "whole.sqlite", **settings))
    with monkeypatch.context() as patch:
        stop_after(patch, calls, KeyboardInterrupt())
        with pytest.raises(KeyboardInterrupt):
            run(prepared, RunOptions(out=tmp_path / "broken", store=tmp_path / "s.sqlite", **settings))
    resumed = run(prepared, RunOptions(out=tmp_path / "broken", store=tmp_path / "s.sqlite", **settings))
    assert resumed.rows.equals(whole.rows)
    assert resumed.header["timings"]["texts_computed"] < whole.header["timings"]["texts_computed"]


def test_a_run_is_named_after_what_it_is_fitted_on(prepared: Prepared, other_corpus: str) -> None:
    spec = replace(prepared.spec, fit_corpus=other_corpus)
    one = prepare(prepared.subject, spec)
    assert one.run == prepare(prepared.subject, spec).run != prepared.run
    write_corpus(Path(other_corpus) / "en.jsonl", "t", range(1001, 1101))
    assert prepare(prepared.subject, spec).run != one.run


def test_other_measures(make_tiny: Make, corpus: str, tmp_path: Path) -> None:
    """Retention of last2avg compares averaged tokens with the averaged whole; attention is the mean row's, which no
    baseline changes; retention of whitened vectors is refused."""
    model = make_tiny("bert", "mean")
    options: dict[str, Any] = {
        "corpus": corpus,
        "languages": ["en"],
        "sizes": [2],
        "sets": 2,
        "store": tmp_path / "s",
    }
    names = ["none", "last2avg"]
    log = audit(model, **options, treatments=names, measures=["retention", "attention"], out=tmp_path / "one")
    made = last_two(model)
    found = values_of(log.rows, "retention", "last2avg")
    for document, parts in documents_of(log.rows.filter(log.rows["measure"] == "retention"), corpus).items():
        tokens = made.encode(" ".join(text for _, _, text in parts), output_value="token_embeddings").double().numpy()
        begin = 1
        for position, _, text in parts:
            end = begin + len(text.split())
            wanted = cosine(tokens[begin:end].mean(axis=0), made.encode(text))
            assert found[document, position] == pytest.approx(wanted, abs=BY_PADDING)
            begin = end
    attention = log.rows.filter(log.rows["measure"].str.starts_with("attention"))
    shares = [attention.filter(attention["treatment"] == name)["value"].to_numpy() for name in names]
    assert len(shares[0]) > 0
    assert shares[0] == pytest.approx(shares[1], abs=BY_PADDING)
    whitened = audit(model, **options, treatments=["whitening"], measures=["attention"], out=tmp_path / "two")
    assert whitened.rows["value"].to_numpy() == pytest.approx(shares[0], abs=BY_PADDING)
    with pytest.raises(UnsupportedModel, match=r"vectors of whitening are not comparable with token vectors"):
        audit(model, **options, treatments=["none", "whitening"], measures=["retention"], out=tmp_path / "three")
    assert not (tmp_path / "three").exists()


class Counted(Silent):
    total = done = 0

    def start(self, total: int) -> None:
        self.total = total

    def advance(self, amount: int) -> None:
        self.done += amount


@pytest.mark.slow
def test_progress_ends_at_what_it_announced(prepared: Prepared, corpus: str, tmp_path: Path) -> None:
    """What is fitted on is counted, whether it is computed or found in the store, and once for each whitening."""
    own = sum(text.length for text in chain(*prepared.texts()))
    for folder in ("computed", "found"):
        counted = Counted()
        run(prepared, RunOptions(out=tmp_path / folder, store=tmp_path / "s.sqlite", progress=counted))
        announced = sum(prepared.fit.tokens(prepared.spec.treatments, [own] * 4))
        assert counted.done == counted.total == announced > 4 * own
    counted = Counted()
    options: dict[str, Any] = {"corpus": corpus, "size": 2, "sets": 6, "editions": 1, "treatments": SEARCHED}
    evaluate(
        prepared.subject.model, "pages", **options, out=tmp_path / "s", store=tmp_path / "s.sqlite", progress=counted
    )
    assert counted.done == counted.total > 0


def test_a_forecast_counts_what_is_fitted_on(prepared: Prepared, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fairspan.runs.speed._TRIAL_SECONDS", 0.01)
    own = sum(text.length for text in chain(*prepared.texts()))
    found = forecast(prepared)
    assert found.tokens == 4 * own + 2 * sum(text.length for text in prepared.fit.texts)
    assert found.seconds > 0
    assert set(prepared.fit.notes) <= set(found.notes)


class Plain:
    def encode(self, texts: list[str]) -> np.ndarray:
        return np.ones((len(texts), 3))


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        ({"corpus": "sample"}, CorpusError, "and sample has 0 that are not tested: add 64, test fewer, or name"),
        ({"treatments": ["whitening-33"]}, CorpusError, "keeps 33 dimensions, and the model's vectors have 32"),
        ({"fit_corpus": "nowhere.jsonl"}, CorpusError, "there is no file or folder 'nowhere.jsonl'"),
        ({"fit_corpus": 3}, FairspanError, "fit_corpus must be a name or a path, got 3"),
    ],
)
def test_mistakes_in_an_audit(
    make_tiny: Make, corpus: str, options: dict[str, Any], error: type[FairspanError], said: str
) -> None:
    """In one line, before anything is embedded. All 48 texts of the sample are in 16 sets of three."""
    given = {"corpus": corpus, "languages": ["en"], "sizes": [3], "sets": 16, "treatments": ["none", "whitening"]}
    with pytest.raises(error) as caught:
        prepare(open_subject(make_tiny("bert", "mean")), make_spec(**{**given, **options, "opening": 20}))
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["whitening", "last2avg"])
def test_an_object_has_no_baselines(corpus: str, name: str) -> None:
    with pytest.raises(UnsupportedModel, match=f"omit {name}"):
        audit(Plain(), corpus=corpus, treatments=["none", name])
    with pytest.raises(UnsupportedModel, match=f"omit {name}"):
        evaluate(Plain(), "pages", corpus=corpus, treatments=["none", name])


def test_a_model_without_layers_is_refused_before_anything_is_embedded(
    make_tiny: Make, corpus: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = make_tiny("bert", "mean")
    static = SentenceTransformer(modules=[StaticEmbedding(model.tokenizer, embedding_dim=8)], device="cpu")
    forbid_encoding(monkeypatch)
    with pytest.raises(UnsupportedModel, match="last2avg reads the layers"):
        audit(static, corpus=corpus, languages=["en"], treatments=["none", "last2avg"])


# In a search.


def ranks(
    rows: RunLog, treatment: str, queries: Mapping[str, np.ndarray], documents: Mapping[str, np.ndarray]
) -> None:
    """Checks the reciprocal rank of every query under a treatment."""
    found = rows.rows.filter((rows.rows["treatment"] == treatment) & (rows.rows["measure"] == "mrr"))
    assert len(found)
    for query, document, value in found.select("segment", "document", "value").rows():
        scores = {name: cosine(queries[query], vector) for name, vector in documents.items()}
        gaps = np.diff(sorted(scores.values()))
        assert gaps.min() > 1e-7, "the premise"
        rank = 1 + sum(score > scores[document] for score in scores.values())
        assert value == pytest.approx(1 / rank), query


SEARCHED = ["none", "whitening", "last2avg", "whitening+temperature=0.5"]


@pytest.mark.slow
def test_a_search_of_pages_by_hand(make_tiny: Make, corpus: str, tmp_path: Path) -> None:
    """Every reciprocal rank, from whitenings fitted here on the segments that stand on no page."""
    model = make_tiny("bert", "mean")
    options: dict[str, Any] = {"corpus": corpus, "size": 2, "sets": 8, "editions": 1, "metrics": ["mrr"]}
    prepared = prepare_evaluation(open_subject(model), make_evaluation("pages", treatments=SEARCHED, **options))
    (measured,) = prepared.tasks
    texts = Corpus.read(corpus, ["en"])
    on_page = {query.id.split("/")[0] for query in measured.task.queries}
    rest = [segment.text for segment in texts.segments if segment.id not in on_page]
    assert len(on_page) == 16
    assert {text.text for text in prepared.fit.texts} == set(rest)
    tested = [document.text for document in measured.task.documents] + [query.text for query in measured.task.queries]
    assert not share(rest, tested)
    log = evaluate(model, "pages", treatments=SEARCHED, **options, out=tmp_path / "run", store=tmp_path / "s.sqlite")
    sharp = fairspan.calibrate(model, strength=0, temperature=0.5)
    plain_map, sharp_map = whitening_of(model, rest), whitening_of(sharp, rest)
    made = last_two(model)
    embed: dict[str, tuple[Callable[[str], np.ndarray], Callable[[str], np.ndarray]]] = {
        "none": (model.encode_query, model.encode_document),
        "whitening": (
            lambda text: plain_map(model.encode_query(text)),
            lambda text: plain_map(model.encode_document(text)),
        ),
        "last2avg": (made.encode_query, made.encode_document),
        "whitening+temperature=0.5": (
            lambda text: sharp_map(sharp.encode_query(text)),
            lambda text: sharp_map(sharp.encode_document(text)),
        ),
        "whitening+temperature=0.5+sides=document": (
            lambda text: sharp_map(model.encode_query(text)),
            lambda text: sharp_map(sharp.encode_document(text)),
        ),
    }
    assert set(log.rows["treatment"]) == set(embed)
    names = {query.id: query.id.split("/")[0] for query in measured.task.queries}
    for name, (ask, hold) in embed.items():
        asked = {query.id: ask(query.text) for query in measured.task.queries}
        held = {document.id: hold(document.text) for document in measured.task.documents}
        by_segment = {**asked, **{names[query]: vector for query, vector in asked.items()}}
        ranks(log, name, by_segment, held)
    assert any("fitted on 94 texts of spare" in note for note in log.header["notes"])


def test_a_short_opening_on_a_page_takes_its_whole_segment_out(make_tiny: Make, corpus: str) -> None:
    """Six words stand on the page, and the next six ask for them; nothing of such a segment is fitted on."""
    options: dict[str, Any] = {"size": 2, "sets": 8, "editions": 1, "opening": 6, "query_tokens": 8}
    spec = make_evaluation("pages", treatments=["whitening"], corpus=corpus, distractors=3, **options)
    prepared = prepare_evaluation(open_subject(make_tiny("bert", "mean")), spec)
    task = prepared.tasks[0].task
    parts = [document.text[slice(*span)] for document in task.documents for span in document.spans]
    assert len(parts) == 2 * (8 + 3)
    assert all(len(part) < 40 for part in parts), "the premise"
    assert len(prepared.fit.texts) == SEGMENTS - len(parts)
    assert not share([text.text for text in prepared.fit.texts], [*parts, *(query.text for query in task.queries)])


@pytest.mark.slow
def test_a_search_is_found_again(
    make_tiny: Make, corpus: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options: dict[str, Any] = {"corpus": corpus, "size": 2, "sets": 6, "editions": 1, "treatments": SEARCHED}
    model = make_tiny("bert", "mean")
    log = evaluate(model, "pages", **options, out=tmp_path / "one", store=tmp_path / "s.sqlite")
    forbid_encoding(monkeypatch)
    monkeypatch.setattr(SentenceTransformer, "encode_query", None)
    stored_twice(log, evaluate(model, "pages", **options, out=tmp_path / "two", store=tmp_path / "s.sqlite"))


@pytest.fixture
def collection(tmp_path: Path) -> str:
    """Twelve documents, of which two are segments of the corpus and one holds a third; a question each, of which one
    is the beginning of a fourth."""
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
    (folder / "corpus.jsonl").write_text("\n".join(json.dumps({"_id": i, "text": t}) for i, t in texts.items()))
    (folder / "queries.jsonl").write_text("\n".join(json.dumps({"_id": i, "text": t}) for i, t in asked.items()))
    judged = [f"q{number:02}\td{number:02}\t1" for number in range(12)]
    (folder / "qrels" / "test.tsv").write_text("\n".join(["query-id\tcorpus-id\tscore", *judged]))
    return f"beir:{folder}"


def test_a_collection_is_fitted_on_another_corpus(
    make_tiny: Make, corpus: str, collection: str, tmp_path: Path
) -> None:
    """Without the segments that the collection holds as documents, inside of one, or as a question."""
    model = make_tiny("bert", "mean")
    names = ["none", "whitening", "last2avg"]
    with pytest.raises(CorpusError) as caught:
        evaluate(model, collection, treatments=names)
    assert str(caught.value) == (
        "whitening is fitted on texts that are never tested, and this task has none to spare: name a corpus of other "
        "texts with fit_corpus=."
    )
    asked: dict[str, Any] = {"treatments": names, "fit_corpus": corpus, "languages": ["en"]}
    spec = make_evaluation(collection, **asked)
    prepared = prepare_evaluation(open_subject(model), spec)
    fitted = {text.text for text in prepared.fit.texts}
    texts = Corpus.read(corpus, ["en"])
    assert fitted == {segment.text for segment in texts.segments} - {texts.text(f"s000{n}", "en") for n in range(4)}
    task = prepared.tasks[0].task
    assert not share(sorted(fitted), [one.text for one in (*task.documents, *task.queries)])
    log = evaluate(model, collection, **asked, out=tmp_path / "run", store=tmp_path / "s.sqlite")
    assert log.treatments == names
    assert evaluate(model, collection, treatments=["last2avg"], out=tmp_path / "alone", store=tmp_path / "s.sqlite")
    both = prepare_evaluation(open_subject(model), replace(spec, languages=None))
    assert len(both.fit.texts) == 2 * len(fitted), "all languages where none is named"
    one = prepare_evaluation(open_subject(model), replace(spec, languages=None, language="de"))
    assert len(one.fit.texts) == SEGMENTS, "the collection's own language where it is named"


def test_late_chunks_are_not_whitened(make_tiny: Make, corpus: str) -> None:
    """Chunks are pooled from tokens, which no whitening moves. Under another treatment than the whitened one, and
    under last2avg, whose tokens are averaged as well, they can be searched."""
    model = make_tiny("bert", "mean")
    options: dict[str, Any] = {"corpus": corpus, "size": 2, "sets": 4, "indexes": ["whole", "late-max"]}
    with pytest.raises(UnsupportedModel, match="omit retention and late chunks"):
        prepare_evaluation(open_subject(model), make_evaluation(treatments=["whitening", "none"], **options))
    with pytest.raises(UnsupportedModel, match="omit retention and late chunks"):
        prepare_evaluation(
            open_subject(model), make_evaluation(treatments=["none", "whitening"], cross=True, **options)
        )
    prepare_evaluation(open_subject(model), make_evaluation(treatments=["none", "whitening"], **options))
    prepare_evaluation(open_subject(model), make_evaluation(treatments=["last2avg", "whitening"], **options))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The fill_missing parameter is deprecated:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:The `get_sentence_embedding_dimension` method:FutureWarning")
def test_in_mteb(make_tiny: Make, search: Callable[..., Any], other_corpus: str, tmp_path: Path) -> None:
    """mteb runs the whitened and the averaged model; its texts cannot be compared, and a note says so."""
    model = make_tiny("bert", "mean")
    names = ["none", "whitening", "last2avg", "whitening+temperature=0.5"]
    fields: dict[str, Any] = {"treatments": names, "metrics": ["ndcg@10"], "documents_only": False}
    with pytest.raises(CorpusError, match="this task has none to spare"):
        evaluate_mteb(
            open_subject(model),
            make_evaluation("mteb:TinySearch", **fields),
            RunOptions(out=tmp_path / "run"),
            task=search(),
        )
    spec = make_evaluation("mteb:TinySearch", fit_corpus=other_corpus, **fields)
    log = evaluate_mteb(open_subject(model), spec, RunOptions(out=tmp_path / "run"), task=search())
    means = {name: log.rows.filter(log.rows["treatment"] == name)["value"].to_list() for name in names}
    assert len({tuple(values) for values in means.values()}) == len(names)
    texts = [segment.text for segment in Corpus.read(other_corpus).segments]
    made = {"whitening": whiten(model, whitening_of(model, texts)), "last2avg": last_two(model)}
    sharp = fairspan.calibrate(model, strength=0, temperature=0.5)
    made["whitening+temperature=0.5"] = whiten(sharp, whitening_of(sharp, texts))
    for name, treated in made.items():
        spec_alone = make_evaluation("mteb:TinySearch", **{**fields, "treatments": ["none"]})
        alone = evaluate_mteb(open_subject(treated), spec_alone, RunOptions(out=tmp_path / name), task=search())
        assert alone.rows["value"].to_list() == pytest.approx(means[name])
    assert log.header["notes"][-1] == "the texts of the task were not compared with those that were fitted on"


# On the command line.


@pytest.mark.slow
def test_commands(run: Run, make_tiny: Make, corpus: str, other_corpus: str, tmp_path: Path) -> None:
    model = str(tmp_path / "model")
    make_tiny("bert", "mean").save_pretrained(model)
    asked = ["--corpus", corpus, "--languages", "en", "--sets", "4", "--treatments", "none,whitening,last2avg"]
    said = run("audit", model, *asked, "--sizes", "3", "--json")
    assert said.code == 0, said.err
    listed = json.loads(said.out)
    assert {row["treatment"] for row in listed["families"]} == {"none", "whitening", "last2avg"}
    assert run("audit", model, *asked, "--sizes", "3", "--fit-corpus", other_corpus, "--dry-run").code == 0
    said = run("evaluate", model, "pages", *asked, "--size", "2", "--fit-corpus", other_corpus)
    assert said.code == 0, said.err
    for name in ("whitening", "last2avg"):
        assert name in said.out
    said = run("audit", model, "--treatments", "whitening")
    assert said.code == 2
    assert said.last.startswith("fairspan: whitening needs 64 texts")
    assert "--fit-corpus" in said.last
