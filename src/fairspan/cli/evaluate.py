"""`fairspan evaluate MODEL TASK`."""

from typing import Any

from fairspan.cli.command import command
from fairspan.cli.options import Failing, Remote, Showing
from fairspan.studies.evaluate.options import EvaluateOptions


@command(EvaluateOptions, Remote, Failing, Showing)
def evaluate(**typed: Any) -> None:
    """Measure what search finds, by how deep in a document it is, and whether a treatment helps.

    Every treatment embeds the same documents and queries; search is exact; differences are paired
    by query. Vectors are stored, so the same command continues an interrupted run.

    For example:

        fairspan evaluate
        fairspan evaluate MODEL --corpus my_documents/ --picture by_depth.png
        fairspan evaluate MODEL my_questions/ --indexes whole,chunk-max,late-max
        fairspan evaluate all-MiniLM-L6-v2 beir:datasets/scifact --dry-run
        fairspan evaluate MODEL xquad_positions --languages en,de,zh,hi --picture languages.png
        fairspan evaluate --endpoint http://localhost:8000/v1 --model MODEL --fail-if worse
    """
    from fairspan.cli.studies import run_study

    run_study(EvaluateOptions, typed)
