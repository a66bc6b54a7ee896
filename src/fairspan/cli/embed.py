"""`fairspan embed MODEL INPUT OUT`."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairspan.cli.command import command, of_fields, taken
from fairspan.cli.options import Calibrating
from fairspan.cli.showing import print_result, say
from fairspan.embedding.options import EmbedOptions
from fairspan.report.text import counted

if TYPE_CHECKING:
    from fairspan.embedding.run import Embedding


@command(Calibrating, EmbedOptions)
def embed(model: str, input: str, out: Path, /, *, as_json: bool = False, **typed: Any) -> None:
    """Embed a corpus of any size into Parquet files.

    Their columns are id, vector, tokens and truncated. Rows are streamed, so the input may be
    larger than memory. The same command continues an interrupted run.

    For example:

        fairspan embed all-MiniLM-L6-v2 documents.jsonl vectors
        fairspan embed MODEL documents/ vectors --vectors 4 --storage float16
        fairspan embed MODEL documents/ vectors --engine ray --actors 2
        fairspan embed MODEL documents/ vectors --engine ray --address auto

    Args:
        model: a SentenceTransformer: a folder or a name on the hub.
        input: a JSONL, Parquet, text, HTML or PDF file, a folder of such files, or a dataset as
            name:split.
        out: folder to write. An interrupted run in it is continued.
        as_json: print the result as JSON.
    """
    from fairspan.cli.progress import running, say_loading
    from fairspan.embedding.run import run

    with running() as progress:
        keywords = of_fields(EmbedOptions, typed)
        keywords["calibration"] = taken(Calibrating, typed).chosen
        options = EmbedOptions(model, input, out, **keywords)
        result = run(options, progress, partial(say_loading, progress, model))
    if not result.shards:
        say(f"{out} is complete: nothing was left to embed.")
    print_result(result.to_dict(), _embedded(result), as_json=as_json)
    done = result.summary
    if as_json:
        return
    for note in result.notes:
        say(f"note: {note}.")
    if done["truncated"]:
        window = result.manifest["encoder"]["window"]
        say(f"note: {counted(done['truncated'], 'text')} truncated at {window:,} tokens.")
    if done["rejected"]:
        say(f"note: {counted(done['rejected'], 'row')} rejected: see {out / 'rejected.jsonl'}.")


def _embedded(result: Embedding) -> Iterator[str]:
    """What was embedded, in words."""
    done = result.summary
    window = result.manifest["encoder"].get("plain_window")
    rows = done["rows"]
    shards = f"{counted(rows, 'row')} in {counted(done['shards'], 'shard')}"
    yield f"{result.folder}: {shards}, {counted(done['tokens'], 'token')}; {result.calibration}."
    if window:
        is_level = any(item["level"] for item in result.manifest["encoder"]["calibrations"])
        level = ", made level with CommonDirection.level" if is_level else ""
        yield (
            f"{rows:,} of {rows + done['skipped']:,} rows had more than {window:,} tokens; the "
            f"other {done['skipped']:,} can keep the plain model's vectors{level}."
        )
