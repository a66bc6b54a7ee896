"""`fairspan corpus check PATH`, and `fairspan corpus build` beside it."""

from typing import Annotated

import typer

from fairspan.cli.corpus_build import build
from fairspan.cli.options import AsJson, flag, list_option, option, print_json

app = typer.Typer(
    help="Build and check corpora.", no_args_is_help=True, rich_markup_mode="markdown"
)


app.command()(build)


@app.command()
def check(
    path: Annotated[
        str,
        typer.Argument(
            help="sample, a folder of en.jsonl, de.jsonl, … or of texts, one file, or a dataset."
        ),
    ],
    model: str | None = option("Count tokens as this model does: a folder or a name on the hub."),
    languages: str | None = list_option("Languages to check. Default: all."),
    sizes: str | None = list_option("Numbers of segments per document. Default: 3,4,5.", int),
    partial: bool = flag("--partial", "Accept segments that lack a translation."),
    as_json: AsJson = False,
) -> None:
    """Check that a corpus can be read, and print what it contains.

    For each language: the number of segments and their lengths. For each size: how many documents with disjoint
    segments can be built. `fairspan audit --dry-run` prints what fits a model under a treatment.

    Examples:

        fairspan corpus check sample

        fairspan corpus check my-corpus --model MODEL --languages en,de --sizes 3,4,5

        fairspan corpus check articles.jsonl --languages en --json
    """
    from fairspan.corpus.check import check
    from fairspan.corpus.corpus import Corpus

    corpus, count = Corpus.read(path, languages, partial), None
    if model is not None:
        from fairspan.model.tokenizer import load_tokenizer

        typer.echo(f"loading the tokenizer of {model} …", err=True)
        count = load_tokenizer(model).count
    found = check(corpus, sizes or [3, 4, 5], count)  # type: ignore[arg-type]
    if as_json:
        print_json(found)
        return
    typer.echo(f"{found['corpus']}: {found['aligned']} segments in {', '.join(found['languages'])}")
    for language, own in found["languages"].items():
        least, median, most = own["0"], own["50"], own["100"]
        lengths = f"{least:,} to {most:,} {found['unit']}, median {median:,}"
        typer.echo(f"{language}: {own['segments']:,} segments of {lengths}")
    documents = ", ".join(f"{count:,} of {size} segments" for size, count in found["sets"].items())
    typer.echo(f"documents that share no segment: {documents}")
    for note in found["notes"]:
        typer.echo(f"note: {note}")
