"""`fairspan serve MODEL`."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from fairspan.cli.command import command, of_fields, taken
from fairspan.cli.options import Calibrating
from fairspan.cli.showing import say
from fairspan.errors import MissingExtra
from fairspan.model.source import Loading, find_model
from fairspan.serving.limits import Limits

_NEEDED = ("starlette", "uvicorn", "orjson", "prometheus_client")
_KEY = "FAIRSPAN_API_KEY"


@command(Calibrating, Loading, Limits)
def serve(
    model: str,
    /,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    name: str | None = None,
    truncate: bool = False,
    force_dimensions: bool = False,
    api_key: str | None = None,
    allowed_hosts: Sequence[str] = (),
    **typed: Any,
) -> None:
    """Serve MODEL over HTTP with OpenAI's embeddings API.

    Requests share batches. SIGTERM or Ctrl-C ends the server after the requests in flight.

    For example:

        fairspan serve ibm-granite/granite-embedding-30m-english
        fairspan serve MODEL --preset plain --port 8080
        fairspan serve ./granite-fair --host 0.0.0.0 --truncate --device cuda

    Args:
        model: a SentenceTransformer: a folder or a name on the hub.
        host: address to listen on.
        port: port to listen on; 0 for any free one.
        name: name of the model for clients. By default the last part of MODEL.
        truncate: truncate longer texts instead of refusing them.
        force_dimensions: accept requests for fewer dimensions even if the model was not trained for
            them.
        api_key: key that clients must send. Others on this machine can see it: prefer the variable
            FAIRSPAN_API_KEY.
        allowed_hosts: host names to accept besides localhost and HOST, such as *.example.com. By
            default any if there is a key, or if other machines can connect.
    """
    missing = [package for package in _NEEDED if find_spec(package) is None]
    if missing:
        raise MissingExtra(f"serving needs {', '.join(missing)}: pip install 'fairspan[serve]'.")
    from fairspan.serving.protocol import require_key
    from fairspan.serving.server import bind, is_local, run, url_of

    limits = taken(Limits, typed)
    calibrating = taken(Calibrating, typed)
    _ = calibrating.chosen
    loading = Loading(**{**of_fields(Loading, typed), "max_seq_length": None})
    typed_key = os.environ.get(_KEY) if api_key is None else api_key
    key = None if typed_key is None else require_key(typed_key)
    loading.require_device()
    with bind(host, port) as bound:
        find_model(model)
        say(f"loading {model} …")
        _prepare_libraries()
        from fairspan.serving.app import make_app
        from fairspan.serving.service import Service

        loaded = calibrating.load(model, loading)
        shown_name = name or Path(model).name
        service = Service(
            loaded,
            name=shown_name,
            aliases=[] if name else [model],
            limits=limits,
            truncate=truncate,
            force_dimensions=force_dimensions,
        )
        bound.listen()  # whoever connects after this line waits until uvicorn answers
        say(f"serving {shown_name} ({_facts(service.info())}) on {url_of(bound)}")
        if key is None and not is_local(bound):
            say(f"warning: anyone who can reach {url_of(bound)} can use it: set {_KEY}.")
        is_open = key is not None or not is_local(bound)
        hosts = ["*"] if is_open and not allowed_hosts else [host, *allowed_hosts]
        app = make_app(service, key=key, allowed_hosts=hosts)
        run(app, bound)
        if app.state.unanswered:
            say("fairspan: ended before all requests were answered.")
        sys.stderr.flush()
        # A normal exit would wait for passes whose clients are gone.
        os._exit(1 if app.state.unanswered else 0)


def _prepare_libraries() -> None:
    """Settings that have to be made before a model is loaded."""
    # oneDNN caches primitives for the last 1,024 shapes, but most batches have a new shape.
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "32")
    import transformers

    transformers.utils.logging.disable_progress_bar()
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s")


def _facts(info: dict[str, Any]) -> str:
    """The calibration, the window and the device of a service, in words."""
    window = info["max_seq_length"]["document"]
    length = f"{window} tokens" if window else "any length"
    return f"{info['calibration_in_words']}, {length}, {info['device']}"
