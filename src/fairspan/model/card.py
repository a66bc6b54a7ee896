"""The model card of a calibrated model: its README.md, for people and for the Hugging Face hub."""

import re
from contextlib import suppress
from pathlib import Path
from typing import Any

from huggingface_hub import ModelCard, ModelCardData
from sentence_transformers import SentenceTransformer

from fairspan.calibration.calibration import Calibration
from fairspan.calibration.words import in_words
from fairspan.model.correction import corrections_of
from fairspan.model.source import DEFAULT_MODEL, PACKAGE

_TAGS = ["sentence-transformers", "sentence-similarity", "feature-extraction", "fairspan"]
# What a card says of the weights, which calibration leaves as they are.
_KEPT = ("language", "license", "license_name", "license_link")
_CARD = """---
{front}
---

# {name} with fairspan

This is {base}, {how}. The weights are those of the base model. {licence}

## Use

```python
import fairspan  # pip install fairspan

model = fairspan.load("this folder, or its name on the hub")
documents = model.encode_document(["A long text.", "Another text."])
queries = model.encode_query(["A question?"])
```

`SentenceTransformer("…", trust_remote_code=True)` loads it too where fairspan is installed. What does not read
modules.json, such as transformers' AutoModel, finds no checkpoint at the root. In the subfolder is the plain model's.

## Calibration

```json
{calibration}
```
"""


def card_of(model: SentenceTransformer, calibration: Calibration) -> str:
    """The card of a model that was just calibrated; its own card is still that of the model it was made from."""
    known = _front_matter(model._model_card_text or "")
    base = known.get("base_model") if "fairspan" in (known.get("tags") or ()) else None
    name = base if isinstance(base, str) else _name_of(model)
    link = f"[{name}](https://huggingface.co/{name})" if "/" in name else name
    data = ModelCardData(
        **{field: known[field] for field in _KEPT if known.get(field)},
        base_model=name if "/" in name else None,
        library_name="sentence-transformers",
        pipeline_tag="sentence-similarity",
        tags=_TAGS,
    )
    licence = known.get("license_name") or known.get("license")
    said = [f"calibrated by fairspan: {in_words(calibration)}" if calibration.acts else "not calibrated"]
    said += [f"vectors corrected for languages ({one.method})" for one in corrections_of(model)]
    return _CARD.format(
        front=data.to_yaml(),
        name=name.rpartition("/")[2],
        base=link,
        how="; ".join(said),
        licence=f"So is the licence: {licence}." if licence else "Its card names no licence.",
        calibration=calibration.to_json(),
    )


def _front_matter(text: str) -> dict[str, Any]:
    """What a card tells the hub; nothing if that cannot be read."""
    with suppress(Exception):  # YAML errors, and wrong fields
        if text.startswith("---"):
            found: dict[str, Any] = ModelCard(text, ignore_metadata_errors=True).data.to_dict()
            return found
    return {}


def _name_of(model: SentenceTransformer) -> str:
    """What the weights were loaded by: a name on the hub with its owner, or else the last part of a folder's."""
    loaded = (getattr(getattr(module, "model", None), "name_or_path", None) for module in model.modules())
    place = next((str(one) for one in (model.model_card_data.model_id, *loaded) if one), "a model without a name")
    cached = re.search(r"models--([^/\\]+?)--([^/\\]+)[/\\]snapshots", place)
    if cached:
        return "/".join(cached.groups())
    if PACKAGE in Path(place).parts:
        return f"sentence-transformers/{DEFAULT_MODEL}"
    is_hub = re.fullmatch(r"[\w.-]+/[\w.-]+", place) is not None and not Path(place).exists()
    return place if is_hub else Path(place).name
