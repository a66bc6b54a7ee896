"""`RayActors`: the workers of `embed` as actors of a Ray cluster."""

from __future__ import annotations

import os
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from importlib import import_module
from typing import Any

from fairspan.embedding.engines import AT_ONCE
from fairspan.embedding.options import EmbedOptions
from fairspan.embedding.shards import ShardSummary
from fairspan.embedding.unit import Unit
from fairspan.embedding.worker import Advance, UnitWorker
from fairspan.errors import DesignError, FairspanError, MissingExtra, first_line

# Objects that a local cluster keeps in memory: the units on their way to the actors.
_STORE_BYTES = 1 << 30
_PATIENCE = 5.0
TRIES = 3
"""How often a unit is embedded whose actor dies."""
_QUIET = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_BACKEND_LOG_LEVEL": "fatal"}


def ray_library() -> Any:
    """The module `ray`."""
    if "ray" not in sys.modules:
        os.environ.update({name: os.environ.get(name, value) for name, value in _QUIET.items()})
    try:
        return import_module("ray")
    except ModuleNotFoundError as error:
        raise MissingExtra(f"engine=ray needs {error.name}: pip install 'fairspan[ray]'.") from None


def refuse_unreachable(address: str | None) -> None:
    """Raise unless Ray is installed and something answers there: Ray would try for a minute."""
    ray_library()
    if address is None or address in ("auto", "local"):
        return
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_PATIENCE).close()
    except (OSError, OverflowError, ValueError) as error:
        raise _not_there(address, str(error)) from None


def _not_there(address: str, reason: str) -> DesignError:
    return DesignError(
        f"there is no Ray cluster at {address} ({reason}): start one with 'ray start' and set "
        "address=auto, or host:port such as 10.0.0.1:6379; or omit address to use this machine."
    )


class RayActors:
    """Actors that load the same model. Ray starts one again that died."""

    def __init__(self, options: EmbedOptions, advance: Advance) -> None:
        """Connect to Ray, start the actors, and load the model in all of them."""
        self._ray = ray_library()
        self._ours = not self._ray.is_initialized()
        self._advance = advance
        self._actors: list[Any] = []
        try:
            if self._ours:
                self._connect(options)
            count, needs, threads = self._share(options)
            device = "cuda" if "num_gpus" in needs else "cpu"
            # Without retries of tasks, calls would fail while an actor is started again.
            lasting = {"max_restarts": -1, "max_task_retries": -1, "max_concurrency": AT_ONCE}
            actor = self._ray.remote(UnitWorker).options(**lasting, **needs)
            arguments = (options.for_workers(device), threads)
            self._actors = [actor.remote(*arguments) for _ in range(count)]
            opening = {"max_task_retries": TRIES - 1}
            calls = [actor.open.options(**opening).remote() for actor in self._actors]
            opened = [self._result(call) for call in calls]
            self.name, self.identity = opened[0]
            if any(identity != self.identity for _, identity in opened):
                raise FairspanError(
                    "the actors have different models or dtypes: use devices of one kind and the "
                    "same model on every machine, or set dtype."
                )
        except BaseException:
            self.close()
            raise
        self.workers = [partial(self._embed, actor, threading.Lock()) for actor in self._actors]

    def close(self) -> None:
        for actor in self._actors:
            self._ray.kill(actor)
        self._actors = []
        if self._ours:
            self._ray.shutdown()

    def _embed(self, actor: Any, alone: threading.Lock, unit: Unit) -> ShardSummary | None:
        """The summary of a unit; None if the actor died in every try."""
        summary = self._tried(actor, unit)
        if summary is None:
            # Another unit may have killed the actor: units that failed are retried one at a time.
            with alone:
                summary = self._tried(actor, unit, retries=TRIES - 2)
        tokens = 0 if summary is None else summary.tokens
        self._advance(len(unit.rows), tokens, unit.amount)
        return summary

    def _tried(self, actor: Any, unit: Unit, retries: int = 0) -> ShardSummary | None:
        """The summary of a unit; None if the actor died."""
        call = actor.embed.options(max_task_retries=retries).remote(unit)
        deaths = (self._ray.exceptions.RayActorError, self._ray.exceptions.OutOfMemoryError)
        summary: ShardSummary | None = None
        with suppress(*deaths):
            summary = self._result(call, passed=deaths)
        return summary

    def _result(self, call: Any, passed: tuple[type[Exception], ...] = ()) -> Any:
        """What a call of an actor returns; its errors in one line, but for those `passed` on."""
        try:
            return self._ray.get(call)
        except passed:
            raise
        except Exception as error:
            cause = getattr(error, "cause", None)
            if isinstance(cause, FairspanError):
                raise type(cause)(str(cause)) from None
            last = (str(error).strip().splitlines() or [""])[-1]
            raise FairspanError(
                f"Ray stopped ({type(error).__name__}: {last}). Finished shards are kept, and the "
                "same command continues from there."
            ) from None

    def _connect(self, options: EmbedOptions) -> None:
        """Start Ray on this machine, or connect to a cluster."""
        settings: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
        if options.address is None:
            settings["num_cpus"] = max(os.cpu_count() or 1, options.actors or 1)
            settings["object_store_memory"] = _STORE_BYTES
            settings["include_dashboard"] = False
        try:
            with _without_stderr():
                self._ray.init(address=options.address or "local", **settings)
        except Exception as error:  # of many kinds, by what there is in place of a cluster
            raise _not_there(options.address or "this machine", first_line(error)) from None

    def _share(self, options: EmbedOptions) -> tuple[int, dict[str, int], int]:
        """How many actors, the CPUs or GPUs that each needs, and the threads that it has."""
        resources = self._ray.cluster_resources()
        gpus = 0 if options.device == "cpu" else int(resources.get("GPU", 0))
        cpus = int(resources.get("CPU", 0))
        actors = options.actors or gpus or max(1, cpus // 4)
        most = gpus or cpus
        if actors > most:
            raise DesignError(
                f"the cluster has {gpus} GPUs and {cpus} CPUs, which is enough for {most} actors: "
                "set fewer actors, or add machines."
            )
        if gpus:
            return actors, {"num_gpus": 1}, 1
        nodes = [node["Resources"] for node in self._ray.nodes() if node["Alive"]]
        widest = max(int(node.get("CPU", 0)) for node in nodes)
        threads = max(1, min(cpus // actors, widest))
        return actors, {"num_cpus": threads}, threads


@contextmanager
def _without_stderr() -> Iterator[None]:
    """Ray's C++ parts print lines about their settings, which no option of Ray turns off."""
    kept = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)
