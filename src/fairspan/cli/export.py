"""`fairspan export MODEL OUT`."""

from pathlib import Path
from typing import Annotated

import typer

from fairspan.cli.options import AsJson, calibrating, chosen_calibration, option, print_json, typed
from fairspan.cli.showing import require_file, running, say_loading
from fairspan.errors import DesignError


@calibrating
def export(
    context: typer.Context,
    model: Annotated[
        str, typer.Argument(help="A SentenceTransformer, calibrated or not: a folder or a name on the hub.")
    ],
    out: Annotated[Path, typer.Argument(help="The graph to write, such as model.onnx.")],
    side: str = option("Vectors of encode_document or encode_query: document or query.", default="document"),
    as_json: AsJson = False,
) -> None:
    """Write MODEL as one ONNX graph for onnxruntime.

    The graph includes tiles or baskets, pooling and normalisation, and takes batches of any size and texts up to the
    model's limit. OUT.tokenizer/ and OUT.json, with the prompt to put before every text, are written beside it.
    Nothing is written if a vector differs from the model's by more than 1e-4.

    Examples:

        fairspan export ibm-granite/granite-embedding-30m-english granite.onnx --preset long --max-seq-length 8192

        fairspan export all-MiniLM-L6-v2 queries.onnx --side query --json
    """
    from fairspan.model.saving import require_exportable
    from fairspan.model.source import Loading, find_model

    given = typed(context)
    calibration = chosen_calibration(given)
    if side not in ("document", "query"):
        raise DesignError(f"side must be document or query, got {side!r}.")
    with running(None, kept=False) as progress:
        require_exportable(out)
        require_file(out)
        find_model(model)
        say_loading(progress, model)
        from fairspan.model.build import calibrate_if_asked
        from fairspan.model.export import export
        from fairspan.model.loading import load_model

        loaded = load_model(model, Loading(device="cpu", dtype="auto"))
        fair = calibrate_if_asked(loaded, calibration, given.get("max_seq_length"))
        facts = export(fair, out, side=side, name=model, stage=progress.stage)  # type: ignore[arg-type]
    if as_json:
        print_json(facts)
        return
    off, prompt = facts["verified"]["largest_difference"], facts["prompt"]
    typer.echo(
        f"{out}: {facts['model']} as an ONNX graph, {facts['dimension']} dimensions, {off:.1e} off the model's."
    )
    if prompt:
        typer.echo(f"Put the prompt before every text: {prompt!r}.")
