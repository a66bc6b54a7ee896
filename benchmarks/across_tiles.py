"""What tiles lose: a sentence whose subject is named in another tile.

    python -m benchmarks.across_tiles --models granite=FOLDER minilm=FOLDER --data SHARED --out OUT [--limit 8]

An item takes two Wikipedia articles. Of each it has the introduction, which names the subject; a sentence s that
begins with a pronoun (with `--openings all` also with The, This or These) and has no word of the title; and the text
before and after s, also without words of the title. A block is introduction, text, s, text: more than 64 tokens lie
between the introduction and s, and between s and the next block. Documents are both blocks with each sentence in its
own place ("own"), or with the two sentences exchanged ("other"). The query is s with the title in the place of its
pronoun (or "Title: s"); "own" is right.

The text around s is in the tile of s and says what s is about. So in a second layout it is exchanged together with s,
and nothing but the distant introduction tells "own" from "other". In two controls s follows the introduction
directly: with the rest of the text after it, and alone, which shows whether a model binds s to its subject at all.

Forced choice: both documents exist in both orders of the blocks, so that introduction and sentence are at the same
places in "own" and "other" on average. "right" is the choice by the mean cosine over the two orders, "one order" the
choice in each. A document that happens to say more of A and less of B is nearer to one query and further from the
other; in "together" the cosines of both queries are added, and this cancels. Scores within 1e-5 of each other are a
tie and count ½. With segments as tiles, "own" and "other" are the same tiles in another order and must tie, except in
the controls, where introduction and s are one tile.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import fairspan
from benchmarks.blocks import OTHERS, PRONOUNS, Block, Pair, pair_up
from benchmarks.quality import NamedModel, open_model, say, short
from fairspan.calibration.treatment import as_treatment
from fairspan.encoding.tokens import ModelTokens
from fairspan.retrieval.indexes import assemble, plan_index
from fairspan.retrieval.task import Passage
from fairspan.stats.queries import query_change, query_effects

ROOM = 480
TIE = 1e-5
LAYOUTS = {
    "far": "sentences exchanged",
    "around": "sentences exchanged with the text around them",
    "near": "control: sentences follow the introduction",
    "bare": "control: introduction and sentence alone",
}
TREATMENTS = (
    "plain",
    "paper",
    "tiles",
    "tiles+tile_size=128",
    "tiles+tile_layers=3",
    "tiles+tiles=segments",
)


@dataclass(frozen=True, slots=True)
class Item:
    """Two blocks, and the four documents of a layout by pairing and order, each in segments."""

    pair: int
    layout: str
    blocks: tuple[Block, Block]

    def document(self, pairing: str, order: int) -> list[str]:
        given = self.blocks[:: 1 if pairing == "own" else -1]
        halves = [block.parts(other, self.layout) for block, other in zip(self.blocks, given, strict=True)]
        return [part for half in halves[:: 1 if order == 0 else -1] for part in half]


KINDS = [(pairing, order) for pairing in ("own", "other") for order in (0, 1)]


def items_of(pairs: Sequence[Pair], counter: ModelTokens) -> Iterator[Item]:
    for number, (one, two) in enumerate(pairs):
        for blocks in zip(one, two, strict=True):
            made = [Item(number, layout, blocks) for layout in LAYOUTS]
            if max(counter.count_whole([" ".join(item.document("own", 0)) for item in made])) <= ROOM:
                yield from made


def embed(subject: NamedModel, documents: Sequence[Sequence[str]], arm: str) -> np.ndarray:
    """[D, d], unit vectors of documents that are given in segments."""
    if arm.startswith("chunk-mean"):
        return _chunk_mean(subject, [" ".join(own) for own in documents], int(arm.split()[1]))
    treatment = as_treatment(arm)
    model = fairspan.calibrate(subject.model, treatment.calibration)
    options = {"show_progress_bar": False, "normalize_embeddings": True, "batch_size": 64}
    if treatment.by_segments:
        return np.asarray(fairspan.encode_segments(model, documents, **options), np.float64)
    return np.asarray(model.encode_document([" ".join(own) for own in documents], **options), np.float64)


def _chunk_mean(subject: NamedModel, texts: Sequence[str], size: int) -> np.ndarray:
    counter = ModelTokens(subject.model)
    passages = [Passage(str(number), text, "en") for number, text in enumerate(texts)]
    plan = plan_index("chunk-mean", passages, {}, counter, size)
    vectors = list(subject.model.encode_document([one.text for one in plan.flat], show_progress_bar=False))
    found = [[vectors.pop(0) for _ in own] for own in plan.texts.values()]
    return assemble("chunk-mean", found, len(found[0][0]), normalise=True).vectors.astype(np.float64)


def force_choices(subject: NamedModel, items: Sequence[Item], arm: str) -> pl.DataFrame:
    """One row per query: whether "own" is chosen over both orders, by both queries together, and in one order."""
    documents = [item.document(*kind) for item in items for kind in KINDS]
    queries = [block.query for item in items for block in item.blocks]
    options = {"show_progress_bar": False, "normalize_embeddings": True, "batch_size": 64}
    asked = np.asarray(subject.model.encode_query(queries, **options), np.float64).reshape(len(items), 2, -1)
    vectors = embed(subject, documents, arm).reshape(len(items), 2, 2, -1)
    cosines = np.einsum("iqd,ipod->iqpo", asked, vectors)
    margins = cosines[:, :, 0] - cosines[:, :, 1]  # [items, queries, orders]
    both = margins.mean(axis=2)
    together = _right(both.sum(axis=1))
    rows = []
    for number, item in enumerate(items):
        for query, margin in enumerate(both[number].tolist()):
            right = {"right": float(_right(margin)), "together": float(together[number])}
            right["one order"] = float(_right(margins[number, query]).mean())
            where = {"pair": item.pair, "layout": item.layout, "item": number, "query": query}
            rows.append({**where, **right, "margin": margin, "ties": float(abs(margin) <= TIE)})
    named = [pl.lit(subject.name).alias("model"), pl.lit(arm).alias("arm")]
    return pl.DataFrame(rows).select(*named, pl.all())


def _right(margins: Any) -> Any:
    """1 where "own" is nearer, ½ where the two tie."""
    return np.where(np.abs(margins) <= TIE, 0.5, np.asarray(margins) > 0)


def choice_records(rows: pl.DataFrame) -> list[dict[str, Any]]:
    """Accuracies of every arm with intervals over pairs of articles, and their changes from the plain model's."""
    records = []
    for (model, layout), own in rows.group_by("model", "layout", maintain_order=True):
        arms = {arm[0]: one.sort("item", "query") for arm, one in own.group_by("arm", maintain_order=True)}
        for arm, one in arms.items():
            pairs, none = one["pair"].to_numpy(), np.zeros(len(one), np.int64)
            record = {"model": model, "layout": layout, "arm": arm, "queries": len(one), "pairs": len(set(pairs))}
            record |= {name: one[name].mean() for name in ("one order", "ties", "margin")}
            for name in ("right", "together"):
                found = query_effects(one[name], none, pairs, rng=np.random.default_rng(0)).overall
                record |= {name: found.estimate, f"{name} low": found.low, f"{name} high": found.high}
                if arm != "plain" and "plain" in arms:
                    change = query_change(arms["plain"][name], one[name], none, pairs, rng=np.random.default_rng(0))
                    least, most = change.overall.low, change.overall.high
                    record |= {f"{name} change": change.overall.estimate, f"{name} p": change.p_value}
                    record |= {f"{name} change low": least, f"{name} change high": most}
            records.append(record)
    return records


def interval(record: dict[str, Any], name: str, form: str = "+.3f") -> str:
    """An estimate with its limits; empty where there is none."""
    if record.get(name) is None:
        return ""
    low, high = (short(record[f"{name} {end}"], form) for end in ("low", "high"))
    return f"{short(record[name], form)} [{low}, {high}]"


def write_table(rows: pl.DataFrame, out: Path) -> None:
    """Accuracies as Markdown in across.md and as CSV."""
    records = choice_records(rows)
    pl.DataFrame(records, infer_schema_length=None).write_csv(out / "across.csv")
    heads = ["model", "treatment", "right [95 %]", "together [95 %]", "together, against plain [95 %]", "p"]
    heads += ["one order", "ties", "mean margin"]
    lines = [f"| {' | '.join(heads)} |", "|" + "---|" * len(heads)]
    for one in records:
        where = f"{one['model']}, {LAYOUTS[one['layout']]} ({one['pairs']} pairs, {one['queries']} queries)"
        cells = [interval(one, "right", ".3f"), interval(one, "together", ".3f")]
        cells += [interval(one, "together change"), short(one.get("together p")), short(one["one order"])]
        cells += [short(one["ties"], ".2f"), f"{one['margin']:+.4f}".replace("-", "−")]
        lines.append(f"| {where} | `{one['arm']}` | {' | '.join(cells)} |")
    (out / "across.md").write_text("\n".join(lines) + "\n", "utf-8")
    print("\n".join(lines), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", required=True, metavar="NAME=FOLDER")
    parser.add_argument("--data", type=Path, required=True, help="the folder with corpora/")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--treatments", help="in place of the usual ones, separated by commas")
    parser.add_argument("--openings", choices=["pronouns", "all"], default="pronouns", help="how sentences begin")
    parser.add_argument("--device")
    parser.add_argument("--limit", type=int, help="pairs of articles, for a quick check")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    treatments = given.treatments.split(",") if given.treatments else list(TREATMENTS)
    rows: list[pl.DataFrame] = []
    for one in given.models:
        subject = open_model(one, given.device)
        counter = ModelTokens(subject.model)
        openings = [*PRONOUNS, *(OTHERS if given.openings == "all" else ())]
        pairs = pair_up(given.data / "corpora/wikipedia_en.jsonl", counter, openings, given.limit, given.seed)
        items = list(items_of(pairs, counter))
        of = len({item.pair for item in items})
        say(f"{subject.name}: {len(items) // len(LAYOUTS)} items of {of} pairs of articles")
        for arm in [*treatments, "chunk-mean 64", "chunk-mean 128"]:
            try:
                rows.append(force_choices(subject, items, arm))
            except Exception as error:  # the other arms are measured all the same
                say(f"FAILED {subject.name}, {arm}: {error}")
                continue
            pl.concat(rows).write_parquet(given.out / "across_rows.parquet")
            right = [f"{layout} {rows[-1].filter(layout=layout)['right'].mean():.3f}" for layout in LAYOUTS]
            say(f"{subject.name}, {arm}: {', '.join(right)}")
        write_table(pl.concat(rows), given.out)


if __name__ == "__main__":
    main()
