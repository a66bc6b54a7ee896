"""`fairspan embed MODEL INPUT OUT`."""

import time
from pathlib import Path
from typing import Annotated

import typer

from fairspan.cli.checking import require_folder
from fairspan.cli.options import (
    AsJson,
    BatchTokens,
    CalibrationOptions,
    LoadingOptions,
    chosen_calibration,
    option,
    print_json,
    shared,
    typed,
)
from fairspan.cli.showing import TerminalProgress, running, say_loading


@shared(CalibrationOptions)
def embed(
    context: typer.Context,
    model: Annotated[str, typer.Argument(help="A SentenceTransformer: a folder or a name on the hub.")],
    input: Annotated[
        str,
        typer.Argument(
            help="A JSONL or Parquet file, a folder of them or of .txt and .md files, or a dataset as name:split."
        ),
    ],
    out: Annotated[Path, typer.Argument(help="The folder of the vectors. If it was begun before, it is continued.")],
    side: str = option("document or query.", default="document"),
    prompt: str | None = option("Text put before every text. Default: the model's own for the side."),
    text_field: str = option("Field or column of the text.", default="text"),
    id_field: str | None = option("Field or column of the id. Default: id, or else the file and the row."),
    language_field: str | None = option(
        "Field or column of the language, for a model whose correction of languages asks for it. Default: a detector."
    ),
    vectors: str = option("float32 or float16, as vectors are stored.", default="float32"),
    rows_per_shard: int | None = option("Number of rows per shard; fewer for very long texts. Default: 8192."),
    batch_tokens: BatchTokens = None,
    strict: bool = option(
        "Stop at the first row that cannot be embedded, in place of listing it in rejected.jsonl.",
        "--strict",
        default=False,
    ),
    device: str | None = option("cpu, cuda or mps; several such as cuda:0,cuda:1 get one process each."),
    dtype: str | None = LoadingOptions.dtype,
    trust_remote_code: bool = LoadingOptions.trust_remote_code,
    engine: str = option("local for this machine, or ray for the actors of a Ray cluster.", default="local"),
    address: str | None = option(
        "A running Ray cluster, as auto or host:port. Default: Ray starts on this machine, and ends with the command."
    ),
    actors: int | None = option("Number of Ray actors. Default: one per GPU of the cluster, or one per four CPUs."),
    as_json: AsJson = False,
) -> None:
    """Embed a corpus of any size into Parquet files with id, vector, tokens and truncated.

    Rows are streamed, and memory stays bounded. After an interruption the same command continues where it ended.

    Examples:

        fairspan embed all-MiniLM-L6-v2 documents.jsonl vectors

        fairspan embed BAAI/bge-m3 documents/ vectors --preset tiles --max-seq-length 32768 --vectors float16

        fairspan embed BAAI/bge-m3 wikimedia/wikipedia:20231101.en:train vectors --device cuda:0,cuda:1

        fairspan embed BAAI/bge-m3 /shared/documents /shared/vectors --engine ray --address auto
    """
    from fairspan.embedding.run import as_request

    given = typed(context, "model", "input", "out", "preset", "calibration")
    progress = EmbeddingProgress()
    with running(None, progress=progress):
        require_folder(out)
        request = as_request(model, input, out, calibration=chosen_calibration(typed(context)), **given)
        result = request.answer()
        if result is None:
            say_loading(progress, model)
            result = request.run(progress)
        else:
            typer.echo(f"{out} is complete: nothing was left to embed.", err=True)
    if as_json:
        print_json(result.to_dict())
        return
    done = result.summary
    typer.echo(f"{out}: {done['rows']:,} rows in {done['shards']:,} shards, {done['tokens']:,} tokens.")
    if done["truncated"]:
        window = result.manifest["encoder"]["window"]
        typer.echo(f"note: {done['truncated']:,} texts are longer than the {window:,} tokens read of them.", err=True)
    if done["rejected"]:
        typer.echo(f"note: {done['rejected']:,} rows were rejected: see {out / 'rejected.jsonl'}.", err=True)


class EmbeddingProgress(TerminalProgress):
    """The same for rows of an input, whose bytes say how much is left."""

    def __init__(self) -> None:
        super().__init__()
        self._rows, self._tokens, self._began = 0, 0, 0.0

    def start(self, total: int) -> None:
        super().start(total)
        self._began = time.monotonic()
        if not total and self._task is not None:
            self._bar.update(self._task, total=None)

    def count(self, rows: int, tokens: int) -> None:
        self._rows, self._tokens = rows, tokens
        if self._task is not None and self._console.is_terminal:
            self._bar.update(self._task, description=self._counts(time.monotonic()))

    def line(self, now: float) -> str:
        """Such as "embedding: 81,920 rows, 35,000 tokens/s, 31 % done, about 4 min left …"."""
        if self._task is None:
            return super().line(now)
        left = super().line(now).partition(" tokens")[2]
        share = f", {100 * self._done / self._total:.0f} % done" if self._total else ""
        return f"{self._counts(now)}{share}{left if self._total else ' …'}"

    def _counts(self, now: float) -> str:
        speed = self._tokens / max(1e-9, now - self._began)
        return f"embedding: {self._rows:,} rows, {speed:,.0f} tokens/s"
