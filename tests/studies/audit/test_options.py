"""`AuditOptions`: what can be asked of an audit."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fairspan.calibration.treatment import as_treatment
from fairspan.studies.audit.options import AuditOptions
from tests.builders.saying import said_by


def test_options_from_plain_values() -> None:
    asked: dict[str, Any] = {
        "languages": ["en", "de"],
        "mixed": ["de:en"],
        "sizes": [3],
        "design": "permutations",
    }
    options = AuditOptions(**asked, treatments=["plain", "paper+layers=last"], seed=3)
    assert (options.design, options.sizes, options.seed) == ("permutations", (3,), 3)
    assert options.all_treatments == (as_treatment("plain"), as_treatment("paper+layers=last"))
    kept = json.loads(json.dumps(options.asked))
    assert {name: kept[name] for name in asked} == asked
    assert [one["name"] for one in kept["treatments"]] == ["plain", "paper+layers=last"]
    assert AuditOptions(mixed=["all"]).mixed == AuditOptions(mixed="all").mixed == "all"


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        (
            {"measures": []},
            "measures must name at least one of representation, retention, attention, fidelity",
        ),
        (
            {"measures": ["representation", "beauty"]},
            "representation, retention, attention, fidelity, got 'beauty'",
        ),
        ({"measures": "representation"}, "measures must be a list"),
        ({"measures": ["fidelity"], "treatments": ["paper"]}, "treatments with paper: name one"),
        ({"inference": "cr1"}, "inference must be among auto, z, got 'cr1'"),
        ({"treatments": []}, "at least one treatment, for example plain"),
        ({"treatments": ["plain", "paper", "plain"]}, "the treatment 'plain' is named twice"),
        ({"margin": 1}, "margin must be between 0 and 1, got 1"),
        ({"margin": "wide"}, "got 'wide'"),
        ({"margin": float("nan")}, "got nan"),
        ({"sizes": 4}, "sizes must be a list, such as [3, 4], got 4"),
        ({"design": "greek"}, "no design 'greek'"),
        ({"languages": "en"}, "languages must be a list, such as ['en'], got 'en'"),
        (
            {"attention_documents": 0},
            "attention_documents must be a whole number of at least 1, got 0",
        ),
        ({"attention_basket_size": 0}, "attention_basket_size must be a whole number of at least"),
        ({"mixed": [5]}, "mixed must be text such as 'en' and 'de:en', got 5"),
        ({"sets": {3: 9}}, "sets has numbers for sizes [3], and the sizes are [4]"),
        ({"corpus": 3}, "corpus must be a name or a path, got 3"),
    ],
)
def test_options_that_cannot_be_are_one_line(fields: dict[str, Any], said: str) -> None:
    assert said in said_by(AuditOptions, **fields)
