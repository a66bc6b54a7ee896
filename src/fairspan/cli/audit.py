"""`fairspan audit MODEL`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import typer

from fairspan.cli.gate import FailIf, fail_on_runs, read_conditions
from fairspan.cli.options import DATA, CorpusPath, ModelName, Prompt, list_option, option, print_json, studying_any
from fairspan.cli.showing import running, save_picture
from fairspan.cli.studies import asked, outcome, run_study, show_outcome
from fairspan.errors import FairspanError
from fairspan.runs.options import named
from fairspan.studies.audit.config import changed_audits
from fairspan.studies.audit.options import AuditOptions


@studying_any
def audit(
    context: typer.Context,
    model: ModelName = None,
    corpus: CorpusPath = None,
    languages: str | None = list_option(
        "Monolingual plans, such as en,de. Default: en, or none with --mixed.", group=DATA
    ),
    mixed: str | None = list_option("Mixed plans lead:later, such as de:en,en:de, or all.", group=DATA),
    sizes: str | None = list_option("Numbers of segments per document. Default: 4.", int, group=DATA),
    sets: int | None = option("Number of sets of segments for each size. Default: 40.", group=DATA),
    design: str | None = option(
        "How each set is ordered: latin, permutations or williams. Default: latin.", group=DATA
    ),
    opening: int | None = option("Number of tokens to use from the start of every segment.", group=DATA),
    treatments: str | None = list_option(
        "plain, tiles, paper, retrieval, 128-last_half, paper+basket_size=64, whitening, last2avg, chunk-mean, "
        "tiles+correction=subspace, … Default: plain,tiles, or plain,chunk-mean with --endpoint."
    ),
    measures: str | None = list_option("representation, retention, attention. Default: representation."),
    margin: float | None = option("Differences below it count as fair. Default: 0.02."),
    seed: int | None = option("Seed of the sample and the orders. Default: 0."),
    config: str | None = option(
        "A TOML file with keywords of Python's fairspan.audit, or irf or irf-laptop. Options override it."
    ),
    prompt: Prompt = None,
    fail_if: FailIf = None,
) -> None:
    """Measure how well one vector represents each position and language of a document.

    Documents are built from segments of the corpus in balanced orders, embedded under every treatment, and compared
    with each segment embedded alone. Vectors are stored, so the same command continues an interrupted run.

    Examples:

        fairspan audit

        fairspan audit ibm-granite/granite-embedding-30m-english --corpus my_articles/ --sizes 3,4,5

        fairspan audit MODEL --languages en,zh --mixed all --measures representation,attention --dry-run

        fairspan audit --config irf-laptop --picture profiles.png

        fairspan audit ./my-model --treatments plain --fail-if biased

        fairspan audit --endpoint http://localhost:8000/v1 --model MODEL --dry-run
    """
    planned = [asked(context)] if config is None else changed_audits(config, asked(context))
    if len(planned) == 1:
        run_study(AuditOptions, context, planned[0])
    else:
        _run_all(planned, context)


def _run_all(planned: Sequence[Mapping[str, Any]], context: typer.Context) -> None:
    """Run several audits one after another. A failed one is reported in one line, and the others go on."""
    picture, dry_run, as_json = (context.params[name] for name in ("picture", "dry_run", "as_json"))
    conditions = read_conditions("audit", context.params["fail_if"], planned[0].get("treatments"))
    found: list[Any] = []
    with running(picture) as progress:
        for number, one in enumerate(planned, start=1):
            typer.echo(f"audit {number} of {len(planned)}: {named(one.get('model'))}", err=True)
            try:
                found.append(outcome(AuditOptions(**one, progress=progress), progress, dry_run=dry_run))
            except FairspanError as error:
                typer.echo(f"fairspan: {error}", err=True)
                continue
            if not as_json:
                show_outcome(found[-1], picture=None, as_json=False, verbose=context.params["verbose"])
            if picture is not None and not dry_run:
                save_picture(found[-1], picture.with_stem(f"{picture.stem}-{number}"), as_json=as_json)
    if as_json:
        print_json([one.to_dict() for one in found])
    if len(found) < len(planned):
        failed = len(planned) - len(found)
        raise FairspanError(f"{failed} of {len(planned)} audits failed; the others are complete.")
    if not dry_run:
        fail_on_runs(found, conditions)
