"""The statistics of any run, whichever verb made it."""

from __future__ import annotations

from fairspan.errors import LogError
from fairspan.runs.log import RunLog
from fairspan.studies.audit.summary import Summary, summarize
from fairspan.studies.collapse.summary import LengthSummary, summarize_length
from fairspan.studies.evaluate.summary import RetrievalSummary, summarize_search

AnySummary = Summary | RetrievalSummary | LengthSummary


def summarize_run(log: RunLog) -> AnySummary:
    """What a log says, in numbers."""
    verb = log.header.get("verb")
    if verb == "audit":
        return summarize(log)
    if verb == "evaluate":
        return summarize_search(log)
    if verb == "collapse":
        return summarize_length(log)
    raise LogError(f"the run {log.run} belongs to {verb}, of which there is no report.")
