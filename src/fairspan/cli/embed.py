"""`fairspan embed MODEL INPUT OUT`."""

from pathlib import Path
from typing import Annotated

import typer

from fairspan.cli.options import (
    AsJson,
    LoadingOptions,
    calibrating,
    chosen_calibration,
    option,
    print_json,
    typed,
)
from fairspan.cli.showing import require_folder, running, say_loading


@calibrating
def embed(
    context: typer.Context,
    model: Annotated[
        str, typer.Argument(help="A SentenceTransformer: a folder or a name on the hub.")
    ],
    input: Annotated[
        str,
        typer.Argument(
            help="A JSONL, Parquet, .txt or .md file, a folder of such files, or a dataset as name:split."
        ),
    ],
    out: Annotated[
        Path, typer.Argument(help="Folder to write. An interrupted run in it is continued.")
    ],
    side: str = option("document or query.", default="document"),
    prompt: str | None = option(
        "Text put before every text. Default: the model's own for the side."
    ),
    text_field: str = option("Field or column of the text.", default="text"),
    id_field: str | None = option(
        "Field or column of the id. Default: id, otherwise file and row."
    ),
    only_longer_than_window: bool = option(
        "Embed only texts longer than the plain model reads; with --preset long, the others keep its vectors.",
        "--only-longer-than-window",
        default=False,
    ),
    vectors: str = option("Stored type: float32 or float16.", default="float32"),
    rows_per_shard: int | None = option(
        "Number of rows per shard; fewer for very long texts. Default: 8192."
    ),
    batch_tokens: int | None = option("Number of tokens in a batch, padding included."),
    strict: bool = option(
        "Stop at the first bad row instead of listing it in rejected.jsonl.",
        "--strict",
        default=False,
    ),
    device: str | None = option(
        "cpu, cuda or mps; several such as cuda:0,cuda:1 get one process each."
    ),
    dtype: str | None = LoadingOptions.dtype,
    trust_remote_code: bool = LoadingOptions.trust_remote_code,
    engine: str = option(
        "local for this machine, or ray for the actors of a Ray cluster.", default="local"
    ),
    address: str | None = option(
        "A running Ray cluster: auto or host:port. Default: start Ray on this machine for this command."
    ),
    actors: int | None = option(
        "Number of Ray actors. Default: one per GPU, or one per four CPUs."
    ),
    as_json: AsJson = False,
) -> None:
    """Embed a corpus of any size into Parquet files with the columns id, vector, tokens and truncated.

    Rows are streamed, so memory stays bounded. The same command continues an interrupted run.

    Examples:

        fairspan embed all-MiniLM-L6-v2 documents.jsonl vectors

        fairspan embed ibm-granite/granite-embedding-30m-english documents/ vectors --preset long --vectors float16

        fairspan embed all-MiniLM-L6-v2 wikimedia/wikipedia:20231101.en:train vectors --device cuda:0,cuda:1

        fairspan embed MODEL /shared/documents /shared/vectors --engine ray --address auto
    """
    from fairspan.embedding.options import EmbedOptions
    from fairspan.embedding.run import Job
    from fairspan.report.text import counted

    given = typed(context, "model", "input", "out", "preset", "calibration", "tile_size")
    with running(None) as progress:
        require_folder(out)
        job = Job(
            EmbedOptions(model, input, out, calibration=chosen_calibration(typed(context)), **given)
        )
        result = job.answer()
        if result is None:
            say_loading(progress, model)
            result = job.run(progress)
        else:
            typer.echo(f"{out} is complete: nothing was left to embed.", err=True)
    if as_json:
        print_json(result.to_dict())
        return
    done = result.summary
    rows, shards = counted(done["rows"], "row"), counted(done["shards"], "shard")
    typer.echo(f"{out}: {rows} in {shards}, {counted(done['tokens'], 'token')}.")
    encoder, others = result.manifest["encoder"], done["skipped"]
    if window := encoder.get("plain_window"):
        typer.echo(
            f"{done['rows']:,} of {done['rows'] + others:,} rows had more than the {window:,} tokens that the plain "
            f"model reads; the other {others:,} can keep the vectors they have."
        )
    if done["truncated"]:
        cut = counted(done["truncated"], "text")
        typer.echo(f"note: {cut} cut to the {encoder['window']:,} tokens read.", err=True)
    if done["rejected"]:
        typer.echo(
            f"note: {counted(done['rejected'], 'row')} rejected: see {out / 'rejected.jsonl'}.",
            err=True,
        )
