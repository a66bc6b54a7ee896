"""`fit_correction`: a language correction, fitted on a model's vectors of a corpus."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fairspan.calibration.calibration import Calibration, as_calibration
from fairspan.calibration.treatment import Treatment
from fairspan.corpus.corpus import Corpus
from fairspan.encoding.encoder import AnyModel
from fairspan.encoding.fill import Tally
from fairspan.encoding.store import Store
from fairspan.errors import UnsupportedModel
from fairspan.model.correction import LanguageCorrection, corrections_of
from fairspan.model.transformer import calibrated_transformers
from fairspan.runs.bases import embed_through
from fairspan.runs.fit_part import FitPart, choose_parallel
from fairspan.runs.progress import Progress, as_progress
from fairspan.runs.subject import open_subject


def fit_correction(
    model: AnyModel,
    corpus: Corpus | Path | str,
    method: str = "subspace",
    *,
    calibration: Calibration | str | Path | Mapping[str, Any] | None = None,
    languages: Sequence[str] | None = None,
    seed: int = 0,
    progress: bool | Progress = True,
) -> LanguageCorrection:
    """Fit the part of a model's vectors that depends on the language, so that `fairspan.calibrate` can remove it.

    The corpus must not contain texts that are tested later.

    Args:
        model: a SentenceTransformer, its name or folder; plain or calibrated.
        corpus: texts in two languages or more, aligned by id: "sample", a folder, a file, the name of a dataset, or
            a `Corpus`. It needs at least 20 texts in all languages; at most 500 are used.
        method: "subspace", or "lir", which needs the language of every text that is embedded. "subspace-3" and
            "lir-2" set the number of directions to remove.
        calibration: the calibration that the model will have, as in `fairspan.calibrate`, since it changes the
            vectors. By default the model is used unchanged.
        languages: those to fit, by default all of the corpus.
        seed: of the draw.
        progress: True for a bar, False for none, or an object that shows it.

    Raises:
        CorpusError: if the corpus has one language only, or too few texts.
    """
    treatment = Treatment(
        f"correction={method}",
        as_calibration("plain" if calibration is None else calibration),
        correction=method,
    )
    read = corpus if isinstance(corpus, Corpus) else Corpus.read(corpus, languages, partial=True)
    read = read if languages is None else read.select(languages)
    shown = as_progress(progress)
    subject = open_subject(model, progress=shown)
    if next(corrections_of(subject.transformer("a language correction")), None) is not None:
        raise UnsupportedModel(
            "the model already has a language correction: fit on the model without it."
        )
    subject = subject.reading([treatment])
    fit = FitPart(parallel=choose_parallel(method, read.segments, read, subject.counter, seed=seed))
    try:
        with Store(":memory:") as store:
            embed = embed_through(
                store, budget=subject.budget(None), tally=Tally(), progress=shown.advance
            )
            shown.start(fit.tokens(treatment))
            treated = subject.under(treatment, fit=fit, embed=embed)
    finally:
        shown.stop()
    made = treated.correction
    assert made is not None
    acting = next(
        (module.calibration for module in calibrated_transformers(treated.documents.model)), None
    )
    made.fitted_on |= {
        "model": subject.name,
        "fingerprint": subject.fingerprint,
        "calibration": None if acting is None else acting.on("document").to_dict(),
        "corpus": {"name": read.name, "fingerprint": read.fingerprint},
        "texts": len(fit.parallel) // len(read.languages),
        "seed": seed,
    }
    return made
