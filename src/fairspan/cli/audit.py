"""`fairspan audit MODEL`."""

from typing import Any

from fairspan.cli.command import command
from fairspan.cli.options import Failing, Remote, Showing
from fairspan.studies.audit.options import AuditOptions

_IN_PYTHON = (
    "name seed batch_tokens min_tokens max_tokens partial attention_documents attention_basket_size"
)


@command(AuditOptions, Remote, Failing, Showing, omitted=_IN_PYTHON.split())
def audit(model: str | None = None, /, **typed: Any) -> None:
    """Measure how well one vector represents each position and language of a document.

    Documents are built from segments of the corpus in balanced orders, embedded under every
    treatment, and compared with each segment embedded alone. Vectors are stored, so the same
    command continues an interrupted run.

    For example:

        fairspan audit
        fairspan audit MODEL --corpus my_articles/ --sizes 3,4,5
        fairspan audit MODEL --languages en,zh --mixed all
        fairspan audit MODEL --opening 115 --picture profiles.png
        fairspan audit ./my-model --treatments plain --fail-if biased
        fairspan audit --endpoint http://localhost:8000/v1 --model MODEL --dry-run
    """
    from fairspan.cli.run_study import run_study

    run_study(AuditOptions, model=model, **typed)
