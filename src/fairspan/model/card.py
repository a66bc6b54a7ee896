"""The model card of a calibrated model: its README.md, for people and for the Hugging Face hub."""

import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from huggingface_hub import ModelCard, ModelCardData
from sentence_transformers import SentenceTransformer

from fairspan.calibration.calibration import Calibration
from fairspan.calibration.words import in_words
from fairspan.model.source import DEFAULT_MODEL, PACKAGE
from fairspan.model.window import window_of

_CARD = """---
{front}
---

# {name} with fairspan

This is {base}, {how}. It reads {length}. The weights are those of the base model. {licence}

```python
import fairspan  # pip install fairspan

model = fairspan.load("this folder, or its name on the hub")
documents = model.encode_document(["A long text.", "Another text."])
queries = model.encode_query(["A question?"])
```

`SentenceTransformer("…", trust_remote_code=True)` loads it too if fairspan is installed. Tools that
do not read modules.json, such as transformers' AutoModel, find no checkpoint at the root; \
that in the subfolder is the plain one.

The calibration:

```json
{calibration}
```
"""


def write_card(model: SentenceTransformer, calibration: Calibration) -> None:
    """Replace the card of the base model by one of the calibrated model."""
    model._model_card_text = model_card(model, calibration, _CARD)
    if calibration.acts and "/" in (name := name_of(model)):
        # mteb would store results under the plain model's name.
        model.model_card_data.model_name = f"{name} ({in_words(calibration)})"


def model_card(model: SentenceTransformer, calibration: Calibration, template: str) -> str:
    """A card with what is known of the base model and the calibration."""
    facts: dict[str, Any] = {}
    text = model._model_card_text or ""
    with suppress(Exception):  # a card that cannot be read is ignored
        if text.startswith("---"):
            facts = ModelCard(text).data.to_dict()
    base = facts.get("base_model") if "fairspan" in facts.get("tags", ()) else None
    name = base or name_of(model)
    fields = ("language", "license", "license_name", "license_link")
    front = ModelCardData(
        library_name="sentence-transformers",
        base_model=name if "/" in name else None,
        pipeline_tag="sentence-similarity",
        tags=["sentence-transformers", "sentence-similarity", "feature-extraction", "fairspan"],
        **{field: facts.get(field) for field in fields},
    )
    licence = facts.get("license_name") or facts.get("license")
    how = "not calibrated"
    if calibration.acts:
        how = f"calibrated by fairspan: {in_words(calibration)}"
    window = window_of(model)
    return template.format(
        front=front.to_yaml(),
        name=name.rpartition("/")[2],
        base=f"[{name}](https://huggingface.co/{name})" if "/" in name else name,
        how=how,
        length=f"{window:,} tokens of a text" if window else "texts of any length",
        licence=f"So is the licence: {licence}." if licence else "Its card names no licence.",
        calibration=calibration.to_json(),
    )


def name_of(model: SentenceTransformer) -> str:
    """The model's name on the hub with its owner, or else the last part of its folder's name."""
    place = next(places_of(model), "a model without a name")
    if PACKAGE in Path(place).parts:
        return f"sentence-transformers/{DEFAULT_MODEL}"
    if cached := re.search(r"models--([^/\\]+?)--([^/\\]+)[/\\]snapshots", place):
        return "/".join(cached.groups())
    on_hub = re.fullmatch(r"[\w.-]+/[\w.-]+", place) and not Path(place).exists()
    return place if on_hub else Path(place).name


def places_of(model: SentenceTransformer) -> Iterator[str]:
    """The folders and names on the hub that a model says it was loaded from."""
    loaded = (getattr(module, "model", None) for module in model.modules())
    names = (getattr(transformer, "name_or_path", None) for transformer in loaded)
    return (str(name) for name in (model.model_card_data.model_id, *names) if name)
