"""`fairspan serve MODEL`."""

import logging
import os
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer

from fairspan.cli.options import (
    CalibrationOptions,
    LoadingOptions,
    chosen_calibration,
    option,
    words,
)
from fairspan.errors import DesignError, MissingExtra

_NEEDED = ("starlette", "uvicorn", "httptools", "prometheus_client")
KEY = "FAIRSPAN_API_KEY"


def serve(
    model: Annotated[
        str, typer.Argument(help="A SentenceTransformer: a folder or a name on the hub.")
    ],
    preset: str | None = CalibrationOptions.preset,
    calibration: Path | None = CalibrationOptions.calibration,
    tile_size: str | None = CalibrationOptions.tile_size,
    max_seq_length: int | None = CalibrationOptions.max_seq_length,
    truncate: bool = option(
        "Truncate longer texts instead of refusing them.", "--truncate", default=False
    ),
    force_dimensions: bool = option(
        "Accept dimensions even if the model was not trained for it.",
        "--force-dimensions",
        default=False,
    ),
    name: str | None = option("Name of the model for clients. Default: the last part of MODEL."),
    host: str = option("Address to listen on.", default="127.0.0.1"),
    port: int = option("Port to listen on; 0 for any free one.", default=8000),
    api_key: str | None = option(
        f"Key that clients must send. Others on this machine can see it: prefer the variable {KEY}."
    ),
    allowed_hosts: str | None = option(
        "Host names to accept besides localhost and IP addresses, separated by commas; * for any. Default: any with "
        "a key, otherwise HOST."
    ),
    no_page: bool = option("Serve the API without the page.", "--no-page", default=False),
    max_batch_tokens: int | None = option(
        "Tokens per batch with padding. Default: 4096 on a CPU, otherwise 16384."
    ),
    max_inputs: int = option("Most texts in a request.", default=2048),
    max_request_tokens: int = option("Most tokens in a request.", default=300_000),
    max_request_bytes: int | None = option(
        "Most bytes in a request. Default: 16 per token, at least 1 MB."
    ),
    max_queue_tokens: int = option(
        "Most tokens in the queue; further requests get 429.", default=1_000_000
    ),
    device: str | None = LoadingOptions.device,
    dtype: str | None = LoadingOptions.dtype,
    trust_remote_code: bool = LoadingOptions.trust_remote_code,
) -> None:
    """Serve MODEL over HTTP with OpenAI's embeddings API.

    Requests share batches. SIGTERM or Ctrl-C ends the server after the requests in flight.

    Examples:

        fairspan serve ibm-granite/granite-embedding-30m-english

        fairspan serve ibm-granite/granite-embedding-30m-english --preset long --port 8080

        fairspan serve ./granite-fair --host 0.0.0.0 --truncate --device cuda
    """
    from fairspan.model.source import Loading, find_model

    missing = [one for one in _NEEDED if find_spec(one) is None]
    if missing:
        raise MissingExtra(f"serving needs {', '.join(missing)}: pip install 'fairspan[serve]'.")
    from fairspan.serving.batcher import Limits
    from fairspan.serving.server import bind, end_at_once, is_local, run, url_of

    limits = Limits(
        max_batch_tokens, max_inputs, max_request_tokens, max_request_bytes, max_queue_tokens
    )
    loading = Loading(device=device, dtype=dtype, trust_remote_code=trust_remote_code)
    given = {
        "preset": preset,
        "calibration": calibration,
        "tile_size": tile_size,
        "max_seq_length": max_seq_length,
    }
    wanted = chosen_calibration(given)
    key = _key(api_key)
    loading.require_device()
    with bind(host, port) as bound:
        find_model(model)
        typer.echo(f"loading {model} …", err=True)
        # oneDNN keeps what it made for each of the last 1,024 shapes; with ever new batches, memory would grow.
        os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "32")
        import transformers

        transformers.utils.logging.disable_progress_bar()
        from fairspan.model.build import calibrate_if_asked
        from fairspan.model.loading import load_model
        from fairspan.serving.app import make_app
        from fairspan.serving.desk import open_desk
        from fairspan.serving.page import page_routes
        from fairspan.serving.service import Service

        logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s")
        loaded = calibrate_if_asked(load_model(model, loading), wanted, max_seq_length)
        called = name or Path(model).name
        how: Any = {"limits": limits, "truncate": truncate, "force_dimensions": force_dimensions}
        service = Service(loaded, name=called, aliases=[] if name else [model], **how)
        info = service.info()
        length = info["max_seq_length"]["document"] or "any number of"
        facts = f"{info['calibration_in_words']}, {length} tokens, {info['device']}"
        typer.echo(f"serving {called} ({facts}) on {url_of(bound)}", err=True)
        if key is None and not is_local(bound):
            typer.echo(
                f"warning: anyone who can reach {url_of(bound)} can use it: set {KEY}.", err=True
            )
        routes = [] if no_page else page_routes(open_desk(loaded, called), service.batcher)
        hosts = None if key and allowed_hosts is None else [host, *words(allowed_hosts or "")]
        answered = run(make_app(service, key=key, routes=routes, allowed_hosts=hosts), bound)
        if not answered:
            typer.echo("fairspan: ended before all requests were answered.", err=True)
        end_at_once(0 if answered else 1)


def _key(typed: str | None) -> str | None:
    key = os.environ.get(KEY) if typed is None else typed
    if key is not None and not (key.strip() and key.isascii() and key.isprintable()):
        raise DesignError(f"the API key (api_key or {KEY}) must be of printable ASCII characters.")
    return key
