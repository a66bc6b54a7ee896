"""A plain and a calibrated model in mteb, by position of the evidence.

    pip install 'fairspan[mteb]'
    python with_mteb.py all-MiniLM-L6-v2 [DOCUMENTS]

mteb keeps results in ~/.cache/mteb, under the name of each model with its calibration.
"""

import sys

import mteb

import fairspan


def compare(
    model: str, calibrations: tuple[str, ...] = ("plain", "fair"), **options: str | int
) -> dict[str, dict]:
    """nDCG@10 of each calibration: over all queries, and by the fifth of the document that has the
    evidence.
    """
    task, found = fairspan.mteb_task(**options), {}
    for calibration in calibrations:
        one = fairspan.mteb_model(model, calibration)
        (scores,) = mteb.evaluate(one, task, co2_tracker=False).task_results[0].scores["test"]
        found[one.name] = {
            name: scores[name]
            for name in scores
            if name.startswith(("ndcg_at_10_pos", "main_score"))
        }
    return found


if __name__ == "__main__":
    for name, scores in compare(
        sys.argv[1], **({"corpus": sys.argv[2]} if sys.argv[2:] else {})
    ).items():
        print(name, {key: round(value, 3) for key, value in scores.items()})
