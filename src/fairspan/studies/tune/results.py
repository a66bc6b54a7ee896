"""What a tuning leaves beside its log: the calibration that was chosen, and the page."""

from pathlib import Path

from fairspan.calibration.calibration import PRESETS, Calibration
from fairspan.calibration.file import CALIBRATION_FILE
from fairspan.calibration.treatment import Treatment
from fairspan.report.files import write_file
from fairspan.runs.log import RunLog
from fairspan.studies.tune.decision import PLAIN, decide

PAGE = "tune.html"


def write_results(log: RunLog) -> tuple[Path, Path]:
    """Write the calibration and the page where they are missing or older than the log."""
    text, file, page = f"{chosen_calibration(log).to_json()}\n", log.folder / CALIBRATION_FILE, log.folder / PAGE
    if not file.is_file() or file.read_bytes() != text.encode():
        write_file(file, text)
    if not page.is_file() or page.stat().st_mtime < (log.folder / "run.json").stat().st_mtime:
        log.save_page(page)
    return file, page


def chosen_calibration(log: RunLog) -> Calibration:
    """That of the chosen candidate; the plain model's if there is none."""
    chosen = decide(log).chosen
    for one in log.spec["treatments"]:
        if one["name"] == chosen:
            return Treatment.from_dict(one).calibration
    return PRESETS[PLAIN]
