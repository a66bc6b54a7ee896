"""`fairspan corpus check PATH`, and `fairspan corpus build` beside it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cyclopts import App

from fairspan.cli.command import command
from fairspan.cli.corpus_build import build


@command()
def check(
    path: str,
    *,
    model: str | None = None,
    languages: Sequence[str] | None = None,
    sizes: Sequence[int] = (3, 4, 5),
    partial: bool = False,
    as_json: bool = False,
) -> None:
    """Check that a corpus can be read, and print what it contains.

    For each language: the number of segments and their lengths. For each size: how many documents
    with disjoint segments can be built. `fairspan audit --dry-run` prints what fits a model under a
    treatment.

    For example:

        fairspan corpus check sample
        fairspan corpus check my-corpus --model MODEL --languages en,de --sizes 3,4,5
        fairspan corpus check articles.jsonl --languages en --json

    Args:
        path: "sample", a folder of en.jsonl, de.jsonl, … or of texts, one file, or a dataset.
        model: count tokens as this model does: a folder or a name on the hub.
        languages: languages to check. By default all.
        sizes: numbers of segments per document.
        partial: accept segments that lack a translation.
        as_json: print the result as JSON.
    """
    from fairspan.cli.showing import print_json, say
    from fairspan.corpus.check import check
    from fairspan.corpus.corpus import Corpus

    count = None
    segments = Corpus.read(path, languages, partial)
    if model is not None:
        from fairspan.model.tokenizer import load_tokenizer

        say(f"loading the tokenizer of {model} …")
        count = load_tokenizer(model).count
    facts = check(segments, sizes, count)
    if as_json:
        print_json(facts)
    else:
        _print_facts(facts)


def _print_facts(facts: dict[str, Any]) -> None:
    """What a corpus contains, in words."""
    print(f"{facts['corpus']}: {facts['aligned']} segments in {', '.join(facts['languages'])}")
    for language, lengths in facts["languages"].items():
        print(
            f"{language}: {lengths['segments']:,} segments of {lengths['0']:,} to "
            f"{lengths['100']:,} {facts['unit']}, median {lengths['50']:,}"
        )
    documents = [f"{count:,} of {size} segments" for size, count in facts["sets"].items()]
    print(f"documents that share no segment: {', '.join(documents)}")
    for note in facts["notes"]:
        print(f"note: {note}")


corpus = App(name="corpus", help="Build and check corpora.")
corpus.command(build)
corpus.command(check)
