"""LC, Figures 2, 3, 5, 10, 11 and 12, and Lemma 1: what attention does to texts of each length.

LC is "Length-Induced Embedding Collapse" (ACL 2025, arXiv 2410.24200). Data: whole texts of a
corpus (NFCorpus in the paper) by their length in tokens; those beyond the model's window are left
out. The measures in theory.csv are means over the texts of a length:

    filter_rate  log of what a layer keeps of ‖HC‖ (Figures 2 and 10), and theorem_2, its bound
    hc_dc        ‖HC‖/‖DC‖ of the embeddings, layer 0, and after each layer: the ratio of Lemma 1
    sigma_a      of the attention of a layer (Figures 5 and 11), and theorem_3, its "bound"
    words        mean pairwise cosine of the means of raw word embeddings (Figure 3)
    repeated     cosine of "dog dog …" and "cat cat …" by number of repetitions (Figure 12)

Neither theorem is about whole trained layers: Theorem 2 ignores residual connections, feed-forward
layers and normalisation, and so does Lemma 1. Theorem 3 does not hold, whatever the model: its
proof (§B.2) bounds ‖A‖_F, which is at least 1 for every attention matrix, by about 0.2. Scores that
are independent Gaussians, as it assumes, break it as well. These lines print ‖A‖_F = 1.54 and
σ_a = 0.25, which the theorem bounds by 0.22:

    A = np.exp(np.random.default_rng(0).normal(size=(100, 100)))
    A /= A.sum(axis=1, keepdims=True)
    print(np.linalg.norm(A), np.linalg.norm(A - A.mean(0), 2), sigma_a_bound(100, 1))

Time: 10 texts of each 100 tokens, up to 512, took one minute of CPU time with all-MiniLM-L6-v2 at
two temperatures, and 100 texts take ten times as long.
Spectra are kept in OUT/spectra: an interrupted command continues.

    pip install 'fairspan[report]'
    python papers/lc_theory.py BAAI/bge-base-en-v1.5 nfcorpus/corpus.jsonl
    python papers/lc_theory.py all-MiniLM-L6-v2 sample --bin 50 --layers last --texts 20
"""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import polars as pl
import torch
from numpy.typing import ArrayLike
from sentence_transformers import SentenceTransformer

import fairspan
from fairspan.design.cuts import natural_lengths
from fairspan.encoding.spectra import Spectrum, spectra
from fairspan.encoding.tokens import ModelTokens
from fairspan.errors import require_whole
from fairspan.report.drawing import require_drawing
from fairspan.stats.geometry import cosines
from scripting import (
    OWN_PROMPTS,
    Numbers,
    Prompts,
    curves,
    encoded,
    folder_of,
    kept,
    make_app,
    print_table,
    run,
    say,
    temperature_presets,
)

BY_LAYER = ("filter_rate", "theorem_2", "sigma_a", "theorem_3", "hc_dc")
WORDS = ("dog", "cat")
TITLES = {
    "filter_rate": "log filter rate of each layer",
    "hc_dc": "||HC|| / ||DC|| after each layer",
    "sigma_a": "σ_a of the last layer",
    "words": "mean cosine of raw word embeddings",
    "repeated": "cosine of two repeated words",
}

app = make_app(__doc__)


@app.default
def main(
    model: str,
    corpus: str,
    /,
    *,
    temperatures: Numbers = (1.0, 0.8),
    bin: int = 100,
    texts: int = 100,
    layers: Literal["last", "all"] = "all",
    max_seq_length: int | None = None,
    prompts: Prompts = OWN_PROMPTS,
    out: Path = Path("lc-theory"),
) -> None:
    """Measure spectra by length.

    Args:
        model: Name on the Hugging Face hub, or folder.
        corpus: A corpus as fairspan reads it, such as a JSONL file with `text`.
        temperatures: Numbers above 0 and up to 1.
        bin: Width of a bin of lengths, in tokens.
        texts: Largest number of texts in a bin.
        layers: Layers whose σ_a is computed, which is slow. Theorem 2 needs it.
        max_seq_length: Longest text to read, in tokens. By default the model's own limit.
        out: Folder for theory.csv, theory.png and the spectra.
    """
    require_drawing()
    require_whole("bin", bin)
    require_whole("texts", texts)
    calibrations = temperature_presets(temperatures)
    read = fairspan.Corpus.read_first(corpus)
    loaded = prompts.open(model, max_seq_length)
    counter = ModelTokens(loaded, loaded.prompts.get("document") or "")
    cuts = natural_lengths(read, read.languages[0], counter, documents=texts, width=bin)
    for note in cuts.notes:
        say(f"note: {note}")
    by_length = {length: [text.text for text in cuts.at(length)] for length in cuts.lengths}
    folder = folder_of(out / "spectra", loaded, [read.fingerprint, texts, bin, layers])
    rows = word_rows(loaded, by_length)
    for temperature, calibration in calibrations.items():
        treated = fairspan.calibrate(loaded, calibration)
        for length, strings in by_length.items():
            measure = partial(measured, treated, strings, layers, f"{temperature:g}, {length}")
            values = kept(folder / f"{temperature:g}-{length}.npy", measure)
            rows += layer_rows(values, temperature, length)
        rows += repeated_rows(treated, counter, temperature)
    columns = ["measure", "temperature", "length", "layer", "texts", "value"]
    theory = pl.DataFrame(rows, columns, orient="row", infer_schema_length=None)
    theory.write_csv(out / "theory.csv")
    draw(theory, f"{model}, {read.name}", out / "theory.png")
    last = pl.col("layer").is_null() | (pl.col("layer") == pl.col("layer").max())
    shown = theory.filter(last, pl.col("measure") != "repeated").drop("texts")
    print_table(shown.pivot("length", values="value").with_columns(pl.selectors.float().round(3)))


def measured(
    model: SentenceTransformer, texts: Sequence[str], layers: Literal["last", "all"], what: str
) -> np.ndarray:
    """[texts, BY_LAYER, layers + 1], NaN where there is none."""
    say(f"temperature and length {what}: spectra of {len(texts)} texts …")
    prompt = model.prompts.get("document")
    return np.stack([by_layer(one) for one in spectra(model, texts, prompt=prompt, layers=layers)])


def by_layer(spectrum: Spectrum) -> np.ndarray:
    """[BY_LAYER, layers + 1]: what a layer does has the number of its output."""
    of_layers = [spectrum.filter_rate, theorem_2(spectrum), spectrum.sigma_a, theorem_3(spectrum)]
    unknown = np.full((len(of_layers), 1), np.nan)
    return np.vstack([np.hstack([unknown, np.stack(of_layers)]), spectrum.ratio])


def theorem_2(spectrum: Spectrum) -> np.ndarray:
    """LC §E.2: log(σ_a · max_h ‖W_V^h‖₂ · H) bounds the filter rate of the heads, [layers]."""
    heads = spectrum.sigma_a_of_heads.sum(1)
    if spectrum.value_norms is None:
        say(f"note: Theorem 2 is not known: {spectrum.no_value_norms}")
        return np.full(len(heads), np.nan)
    return np.asarray(np.log(heads * spectrum.value_norms.max(1)))


def theorem_3(spectrum: Spectrum) -> np.ndarray:
    """Of each head's σ_a, as their mean, [layers]; see `sigma_a_bound`."""
    return np.asarray(sigma_a_bound(spectrum.tokens, spectrum.sigma_s_of_heads).mean(1))


def sigma_a_bound(length: int, sigma_s: ArrayLike) -> np.ndarray:
    """LC Theorem 3: √(L / (2 √(1 + e^{−2σ_s²}) (L − 1)^{3/2} + 1)).

    The inner root ends before (L − 1), as in the proof (equation 21).
    """
    inner = np.sqrt(1 + np.exp(-2 * np.asarray(sigma_s, np.float64) ** 2))
    return np.asarray(np.sqrt(length / (2 * inner * (length - 1) ** 1.5 + 1)))


def layer_rows(values: np.ndarray, temperature: float, length: int) -> list[tuple[Any, ...]]:
    """The means of values[texts, BY_LAYER, layers + 1]."""
    means = values.mean(0)
    return [
        (measure, temperature, length, layer, len(values), float(means[place, layer]))
        for place, measure in enumerate(BY_LAYER)
        for layer in np.flatnonzero(np.isfinite(means[place])).tolist()
    ]


def word_rows(model: SentenceTransformer, by_length: dict[int, list[str]]) -> list[tuple[Any, ...]]:
    """Without positions, layers, special tokens and prompt: what rises, rises by averaging."""
    rows = []
    for length, texts in by_length.items():
        if len(texts) > 1:
            value = float(cosines(word_means(model, texts)).mean())
            rows.append(("words", None, length, None, len(texts), value))
    return rows


def word_means(model: SentenceTransformer, texts: Sequence[str]) -> np.ndarray:
    """[texts, d], the mean of the input embeddings of each text's tokens."""
    table = model.transformers_model.get_input_embeddings()
    device = next(table.parameters()).device
    tokens = model.tokenizer(
        list(texts), add_special_tokens=False, truncation=False, padding=False, verbose=False
    )
    with torch.inference_mode():
        rows = [table(torch.tensor(ids, device=device)) for ids in tokens["input_ids"]]
        return np.stack([embeddings.double().mean(0).cpu().numpy() for embeddings in rows])


def repeated_rows(
    model: SentenceTransformer, counter: ModelTokens, temperature: float
) -> list[tuple[Any, ...]]:
    """1, 2, 4, … repetitions, as many as the model reads, and 512 at most."""
    times = [2**power for power in range(10)]
    pairs = [[" ".join([word] * count) for word in WORDS] for count in times]
    window = counter.window or times[-1]
    pairs = [pair for pair in pairs if max(counter.count_whole(pair)) <= window]
    texts = [text for pair in pairs for text in pair]
    vectors = encoded(model.encode_document, texts, f"temperature {temperature:g}, repeated words")
    products = (vectors[::2].astype(np.float64) * vectors[1::2]).sum(1)
    return [
        ("repeated", temperature, count, None, 2, float(cosine))
        for count, cosine in zip(times, products, strict=False)
    ]


def draw(theory: pl.DataFrame, title: str, file: Path) -> None:
    """A panel for each measure: by layer at the highest temperature, or by length."""
    import altair as alt

    highest = theory.filter(temperature=pl.col("temperature").max())
    last = theory.filter(pl.col("layer").is_null() | (pl.col("layer") == pl.col("layer").max()))
    repeated = last.rename({"length": "repetitions"})
    panels = (
        panel(highest, "filter_rate", "layer", "length", bound="theorem_2"),
        panel(highest, "hc_dc", "layer", "length"),
        panel(last, "sigma_a", "length", "temperature", bound="theorem_3"),
        panel(last, "words", "length", "temperature"),
        panel(repeated, "repeated", "repetitions", "temperature", type="log"),
    )
    own = dict.fromkeys(("color", "shape", "strokeDash"), "independent")
    alt.concat(*panels, columns=3, title=title).resolve_scale(**own).save(file, scale_factor=2)


def panel(
    theory: pl.DataFrame, measure: str, x: str, by: str, *, bound: str = "", **axis: Any
) -> Any:
    """A line for each length or temperature; bounds are dashed."""
    title = f"{TITLES[measure]}; dashed: bound" if bound else TITLES[measure]
    rows = theory.filter(pl.col("measure").is_in([measure, bound]))
    return curves(rows, x, "value", by, dash="measure", **axis).properties(title=title)


if __name__ == "__main__":
    run(app)
