"""`collapse`: what length does to a model's vectors, and which treatments undo it."""

from collections.abc import Iterator

import numpy as np
import polars as pl

from fairspan.calibration.treatment import Treatment
from fairspan.encoding.calling import call_of
from fairspan.errors import FairspanError
from fairspan.runs.log import RunLog
from fairspan.runs.run import Run
from fairspan.runs.study import Study
from fairspan.stats.geometry import common_shares, cosines
from fairspan.studies.collapse.entries import SCHEMA
from fairspan.studies.collapse.options import CollapseOptions
from fairspan.studies.collapse.texts import CollapseTexts, collapse_texts
from fairspan.studies.collapse.view import LOG, write_results


def _rows(material: CollapseTexts, run: Run) -> Iterator[pl.DataFrame]:
    """Measure every treatment."""
    for treatment in material.options.all_treatments:
        yield _rows_of(material, run, treatment)


def _rows_of(material: CollapseTexts, run: Run, treatment: Treatment) -> pl.DataFrame:
    """Each text's mean cosine with the others of its length, and its share of the direction."""
    run.progress.stage(f"{treatment.name}: vectors")
    treated = run.under(treatment)
    encoder = treated.documents
    run.fill(encoder, material.texts)
    vectors = run.read(encoder, material.texts)
    texts = material.cuts.texts
    lengths = np.array([text.length for text in texts])
    clouds = [vectors[lengths == length] for length in material.cuts.lengths]
    # The mean over texts is the mean pairwise cosine, with and without any of them.
    values = {"cosine": np.concatenate([cosines(cloud) for cloud in clouds])}
    try:
        values["share"] = common_shares(vectors, treated.common.direction)
    except FairspanError as error:
        run.note(f"{treatment.name}: the share of a common direction was not measured: {error}")
    else:
        if material.options.corpus == "sample":
            run.note(
                "the common direction was found from some of these texts, so their shares of it "
                "are a little too large, those of long ones most: use another corpus to compare "
                "them"
            )
    columns = {
        "treatment": treatment.name,
        "document": [text.document for text in texts],
        "length": lengths,
        "tokens": [text.tokens for text in texts],
    }
    return pl.concat(
        pl.DataFrame({**columns, "measure": name, "value": column}).select(
            pl.col(column).cast(kind) for column, kind in SCHEMA.items()
        )
        for name, column in values.items()
    )


STUDY = Study(collapse_texts, _rows, LOG, write_results)


@call_of(CollapseOptions)
def collapse(options: CollapseOptions) -> RunLog:
    """Measure what length does to the vectors of texts, and which treatments undo it.

    Returns:
        The log, with `verdicts`, `frame(name)`, `figure(name)` and `save_page(path)`. If a
        treatment is suggested, its folder also has `calibration.json`, which
        `fairspan.calibrate` reads.
    """
    return STUDY(options)
