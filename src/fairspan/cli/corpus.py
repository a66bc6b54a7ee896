"""`fairspan corpus check PATH`, and `fairspan corpus build` beside it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from fairspan.cli.corpus_build import build
from fairspan.cli.options import AsJson, option, print_json, whole_numbers, words

if TYPE_CHECKING:
    from rich.table import Table

    from fairspan.corpus.check import CorpusCheck
    from fairspan.corpus.corpus import Corpus
    from fairspan.model.tokenizer import ModelTokenizer
    from fairspan.studies.audit.offer import Offer

app = typer.Typer(help="Build and check corpora.", no_args_is_help=True, rich_markup_mode="markdown")


@app.callback()
def root() -> None:
    """Build and check corpora."""


app.command()(build)


@app.command()
def check(
    path: Annotated[
        str,
        typer.Argument(help="sample, a folder of en.jsonl, de.jsonl, …, one JSONL or Parquet file, or a dataset."),
    ],
    model: str | None = option("Count tokens as this model does: a folder or a name on the hub."),
    languages: str | None = option("Languages to check, such as en,de. Default: all."),
    sizes: str = option("Numbers of segments per document.", default="3,4,5"),
    partial: bool = option("Accept segments that lack a translation.", "--partial", default=False),
    id_field: str = option("The field or column that aligns the languages.", default="id"),
    as_json: AsJson = False,
) -> None:
    """Check that a corpus can be read, and print what it contains.

    For each language: the number of segments and their lengths. For each size: how many disjoint sets can be drawn,
    and how many of them fit the model, in one language and in mixed pairs. With a model also: what the corpus offers
    for the audits that come with fairspan (`audit --config irf`).

    Examples:

        fairspan corpus check sample

        fairspan corpus check my-corpus --model BAAI/bge-m3 --languages en,de --sizes 3,4,5

        fairspan corpus check articles.jsonl --languages en --json
    """
    from fairspan.corpus.check import check
    from fairspan.corpus.corpus import Corpus

    wanted = None if languages is None else words(languages)
    corpus = Corpus.read(path, wanted, partial, id_field=id_field)
    tokenizer = None if model is None else _load(model)
    count = _count_characters if tokenizer is None else tokenizer.count
    window = None if tokenizer is None else tokenizer.window
    unit = "characters" if model is None else "tokens"
    found = check(corpus, count, whole_numbers("sizes", sizes), window, unit)
    offers = [] if tokenizer is None else _offers(corpus, tokenizer)
    if as_json:
        configs = {} if tokenizer is None else {"configs": [one.to_dict() for one in offers]}
        print_json({**found.to_dict(), **configs})
    else:
        _show(found, model, [one.words for one in offers])


def _load(model: str) -> ModelTokenizer:
    from fairspan.model.tokenizer import load_tokenizer

    typer.echo(f"loading the tokenizer of {model} …", err=True)
    return load_tokenizer(model)


def _offers(corpus: Corpus, tokenizer: ModelTokenizer) -> list[Offer]:
    """What the corpus offers for the audits that come with the project."""
    from fairspan.studies.audit.config import shipped_configs
    from fairspan.studies.audit.offer import check_offer

    counts = tokenizer.count([segment.text for segment in corpus.segments])
    lengths = {(one.id, one.language): count for one, count in zip(corpus.segments, counts, strict=True)}
    return [check_offer(config, corpus, lengths, tokenizer.window) for config in shipped_configs()]


def _count_characters(texts: Sequence[str]) -> list[int]:
    return [len(text) for text in texts]


def _show(found: CorpusCheck, model: str | None, offers: Sequence[str]) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console()
    console.print(f"{found.corpus}: {found.aligned} segments in {_spoken(found)}", highlight=False, markup=False)
    lengths = Table("language", title=f"Lengths in {found.unit}", title_justify="left")
    for heading in ("segments", "least", "5 %", "25 %", "median", "75 %", "95 %", "most"):
        lengths.add_column(heading, justify="right")
    for one in found.languages:
        lengths.add_row(one.language, str(one.segments), *map(str, one.lengths))
    console.print(lengths)

    sets = Table(title="Disjoint sets", title_justify="left")
    headings = ["size", "sets", "that fit", "segments too long"]
    shown = len(headings) if found.window is not None else 2
    for heading in headings[:shown]:
        sets.add_column(heading, justify="right")
    for one_size in found.sizes:
        cells = (one_size.size, one_size.sets, one_size.fitting, one_size.too_long)
        sets.add_row(*map(str, cells[:shown]))
    console.print(sets)
    if len(found.plans) > 1:
        console.print(_plans(found))
    configs = ["For audit --config, disjoint sets drawn as it draws them:", *(f"  {one}" for one in offers)]
    for line in (*_explain(found, model), *(configs if offers else ()), *found.notes):
        console.print(line, highlight=False, markup=False)


def _plans(found: CorpusCheck) -> Table:
    """What can be audited, and with how many disjoint sets."""
    from rich.table import Table

    fit = "" if found.window is None else " that fit"
    table = Table("audit", title=f"Disjoint sets{fit} by design", title_justify="left")
    for one in found.sizes:
        table.add_column(f"n={one.size}", justify="right")
    for plan in found.plans:
        named = ",".join(plan.languages)
        typed = f"--languages {named}" + (" --mixed all" if len(plan.languages) > 1 else "")
        table.add_row(typed, *(str(plan.sets[one.size]) for one in found.sizes))
    return table


def _spoken(found: CorpusCheck) -> str:
    names = [one.language for one in found.languages]
    return names[0] if len(names) == 1 else f"each of {', '.join(names)}"


def _explain(found: CorpusCheck, model: str | None) -> list[str]:
    if model is None:
        return ["Lengths are in characters, because no --model says how to count tokens."]
    if found.window is None:
        return [f"{model} names no limit to the length of a document."]
    fit = f"A document holds up to {found.window} tokens of text. A segment counts with its longest translation."
    return [fit, "The sets that fit combine short segments with long ones; sets drawn at random are fewer."]
