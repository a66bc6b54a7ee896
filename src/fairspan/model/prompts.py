"""What a model puts before a text."""

from sentence_transformers import SentenceTransformer

from fairspan.calibration.temperature import Side

# Under which names a model keeps its prompt for each side, as encode_document and encode_query look for them.
_PROMPTS = {"document": ("document", "passage", "corpus"), "query": ("query",)}


def prompt_of(model: SentenceTransformer, side: Side) -> str:
    """What `encode_document` or `encode_query` puts before a text."""
    prompts = model.prompts or {}
    named = [prompts[name] for name in _PROMPTS[side] if name in prompts]
    if not named:
        return str(prompts.get(model.default_prompt_name, "") or "")
    # sentence-transformers gives every model an empty "document", which must not hide a "passage" of its own.
    return next((str(prompt) for prompt in named if prompt), "")
