"""`fairspan export MODEL OUT`."""

from pathlib import Path
from typing import Annotated

import typer

from fairspan.cli.options import AsJson, calibrating, chosen_calibration, option, print_json, typed
from fairspan.cli.showing import require_folder, running, say_loading
from fairspan.errors import DesignError


@calibrating
def export(
    context: typer.Context,
    model: Annotated[
        str,
        typer.Argument(
            help="A SentenceTransformer, calibrated or not: a folder or a name on the hub."
        ),
    ],
    out: Annotated[Path, typer.Argument(help="The folder to write, new or empty.")],
    side: str = option(
        "Vectors of encode_document or encode_query: document or query.", default="document"
    ),
    int8: bool = option(
        "Weights in 8 bits: a quarter of the size, vectors close but not equal.", default=False
    ),
    as_json: AsJson = False,
) -> None:
    """Write MODEL as a folder that runs without fairspan: an ONNX graph with its tokenizer and configuration.

    The graph includes tiles or baskets, pooling and normalisation, and takes batches of any size and texts up to the
    model's limit. fastembed, transformers.js, sentence-transformers with backend="onnx" and others read the folder.
    Nothing is written if a vector differs from the model's by more than 1e-4.

    Examples:

        fairspan export ibm-granite/granite-embedding-30m-english granite-onnx --preset long --max-seq-length 8192

        fairspan export all-MiniLM-L6-v2 minilm-onnx --preset long --int8 --json
    """
    from fairspan.model.saving import require_exportable
    from fairspan.model.source import Loading, find_model

    given = typed(context)
    calibration = chosen_calibration(given)
    if side not in ("document", "query"):
        raise DesignError(f"side must be document or query, got {side!r}.")
    with running(None, kept=False) as progress:
        require_exportable(out)
        require_folder(out)
        find_model(model)
        say_loading(progress, model)
        from fairspan.exporting.export import export
        from fairspan.model.build import calibrate_if_asked
        from fairspan.model.loading import load_model

        loaded = load_model(model, Loading(device="cpu", dtype="auto"))
        fair = calibrate_if_asked(loaded, calibration, given.get("max_seq_length"))
        facts = export(fair, out, side=side, int8=int8, name=model, stage=progress.stage)  # type: ignore[arg-type]
    if as_json:
        print_json(facts)
        return
    off = f"{facts['verified']['largest_difference']:.1e} off the model's vectors"
    if int8:
        off = f"the lowest cosine to the model's vectors is {facts['int8']['lowest_cosine']:.4f}"
    typer.echo(f"{out}: {facts['model']}, {facts['dimension']} dimensions; {off}.")
    for name, prompt in facts["prompts"].items():
        if prompt:
            typer.echo(
                f"Put this before every {name}, where the program you use does not: {prompt!r}."
            )
    if len(facts["sides"]) == 1:
        typer.echo(f"Its vectors are those of encode_{side}: export the other side as well.")
