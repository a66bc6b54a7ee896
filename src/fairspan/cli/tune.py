"""`fairspan tune MODEL TASK…`."""

from typing import Any

from fairspan.cli.command import command
from fairspan.cli.options import Showing
from fairspan.studies.tune.options import TuneOptions


@command(TuneOptions, Showing)
def tune(**typed: Any) -> None:
    """Find out which treatment to use for your documents, if any.

    Passages are cut out of your documents and used as queries for the rest. Each half of the
    documents picks a candidate, and the other half tests it. The answer is: use it, it is probably
    better, or keep the plain model.

    The folder gets calibration.json, for fairspan calibrate, and the page tune.html. Vectors are
    stored, so the same command continues an interrupted run.

    For example:

        fairspan tune ibm-granite/granite-embedding-30m-english --corpus my_documents/ --out tuned
        fairspan calibrate ibm-granite/granite-embedding-30m-english better --calibration tuned
        fairspan tune MODEL my_questions/ --guard beir:datasets/scifact
    """
    from fairspan.calibration.calibration import CALIBRATION_FILE
    from fairspan.cli.studies import run_study

    log = run_study(TuneOptions, typed)
    if log is not None and not typed.get("as_json"):
        print(f"calibration: {log.folder / CALIBRATION_FILE}\npage: {log.folder / 'tune.html'}")
