"""`fairspan collapse MODEL`."""

from typing import Any

from fairspan.cli.command import command
from fairspan.cli.options import Showing
from fairspan.studies.collapse.options import CollapseOptions


@command(CollapseOptions, Showing)
def collapse(**typed: Any) -> None:
    """Measure whether a model makes long texts look similar, and what a temperature changes.

    The same documents are cut to several lengths, so that long and short texts are about the same
    topics.

    For example:

        fairspan collapse
        fairspan collapse MODEL --lengths 50,100,200,400 --picture length.png
        fairspan collapse ibm-granite/granite-embedding-30m-english --corpus my_articles/ --dry-run
        fairspan collapse all-MiniLM-L6-v2 --labelled reviews.jsonl --treatments whitening,last2avg
    """
    from fairspan.cli.studies import run_study

    run_study(CollapseOptions, typed)
