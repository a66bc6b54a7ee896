"""`RayEngine`: the same rows by the actors of a Ray cluster; Ray's checkpoint says which are done."""

from __future__ import annotations

import os
import socket
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairspan.embedding.ray_checkpoint import Checkpoint, done_from_start, open_checkpoint
from fairspan.embedding.shards import Record, read_records, shard_name
from fairspan.errors import DesignError, EncodingError, FairspanError, MissingExtra, require_whole

if TYPE_CHECKING:
    from fairspan.embedding.progress import Meter
    from fairspan.embedding.run import Request

_LEAST = (2, 60)
# Of texts or of vectors in a block, besides the limit of rows.
_BLOCK_BYTES = 16 << 20
# Objects that a local cluster keeps in memory: a few dozen blocks.
_STORE_BYTES = 1 << 30
# Reserved by the actor that leaves out what is done; more where the numbers of the rows need more.
_FILTER_BYTES = 64 << 20
# CPUs for the tasks beside the actors: one cuts blocks, one leaves out what is done, one is shared by reading and
# writing. With fewer a resumed run would wait for ever.
_BESIDE = 3
_SHARED = 0.4
_PATIENCE = 5.0
_QUIET = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_BACKEND_LOG_LEVEL": "fatal", "RAY_DATA_LOG_LEVEL": "CRITICAL"}
_LOOK = 1.0


@dataclass(frozen=True, slots=True)
class Cluster:
    """Where the actors run.

    Attributes:
        address: of a cluster that is running, such as "auto" or "host:6379"; None to start one on this machine. A
            process that is connected to a cluster already uses that one.
        actors: how many; by default one per GPU, or one per four CPUs where there is none.
    """

    address: str | None = None
    actors: int | None = None

    def __post_init__(self) -> None:
        if self.actors is not None:
            require_whole("actors", self.actors)
        ray_library()
        if self.address is not None:
            _refuse_unreachable(self.address)


def ray_library() -> Any:
    """The module `ray`, of a version that resumes by row."""
    if "ray" not in sys.modules:
        os.environ.update({name: os.environ.get(name, value) for name, value in _QUIET.items()})
    try:
        ray: Any = import_module("ray")
        import_module("ray.data.checkpoint")
    except ModuleNotFoundError as error:
        raise MissingExtra(f"[[engine=ray]] needs {error.name}: pip install 'fairspan[ray]'.") from None
    if tuple(int(part) for part in ray.__version__.split(".")[:2]) < _LEAST:
        raise MissingExtra(
            f"[[engine=ray]] needs Ray 2.60, and {ray.__version__} is installed: pip install 'fairspan[ray]'."
        )
    return ray


def _refuse_unreachable(address: str) -> None:
    """Raise unless something answers there: Ray itself would go on trying for a minute."""
    if address.startswith("ray://"):
        raise DesignError(
            f"[[address={address}]] is Ray's client, which Ray Data does not support: run the command on a machine "
            "of the cluster, with [[address=auto]]."
        )
    if address in ("auto", "local"):
        return
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal():
        raise DesignError(f"[[address]] is auto or host:port, such as 10.0.0.1:6379, got {address!r}.")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_PATIENCE).close()
    except (OSError, OverflowError) as error:
        raise _not_there(address, str(error)) from None


def _not_there(address: str, reason: str) -> DesignError:
    return DesignError(
        f"there is no Ray cluster at {address} ({reason}): start one with 'ray start', or omit [[address]] to "
        "use this machine."
    )


class RayEngine:
    """Actors that load the same model.

    Attributes:
        identity: of the model; see `Opened`.
    """

    def __init__(self, cluster: Cluster, asked: Request) -> None:
        assert asked.name is not None
        self._ray = ray_library()
        self._asked = asked
        self._ours = not self._ray.is_initialized()
        try:
            if self._ours:
                self._connect(cluster)
            self._share(cluster)
            device = "cuda" if "num_gpus" in self._needs else "cpu"
            self._job = (asked.name, asked.spec, asked.loading(device), asked.batch_tokens)
            with _explained():
                task = self._ray.remote(_open).options(max_retries=0, **self._needs)
                self.name, self.identity = self._ray.get(task.remote(self._job, self._cpus))
        except BaseException:
            self.close()
            raise

    def embed(self, records: dict[int, Record], meter: Meter) -> None:
        """Write shards of the rows that are missing, and add them to the records."""
        from fairspan.embedding.ray_blocks import Embedder, Rows, Shards

        checkpoint = open_checkpoint(self._asked.out)
        records.clear()
        records.update(read_records(checkpoint.folder))
        known = set(records)
        start, before = done_from_start(records.values())
        checked = partial(self._asked.checked, finished=[record.number for record in before])
        most = self._asked.spec.rows_per_shard
        data = import_module("ray.data")
        pool = data.ActorPoolStrategy(
            size=self._actors, max_concurrent_calls_per_actor=2, enable_true_multi_threading=True
        )
        with self._settings(checkpoint), _explained(), _watching(checkpoint.folder, records, meter):
            shards = Shards(checkpoint, self._asked.spec.vectors, list(records.values()))
            rows = data.read_datasource(
                Rows(self._asked.source, start, most, checked), num_cpus=_SHARED, override_num_blocks=1
            )
            rows.repartition(target_num_rows_per_block=most).map_batches(
                Embedder,
                fn_constructor_args=(self._job, self._cpus, self.identity, self._asked.strict),
                batch_size=None,
                batch_format="pyarrow",
                compute=pool,
                **self._needs,
            ).write_datasink(shards, ray_remote_args={"num_cpus": _SHARED})
        checkpoint.remove_uncommitted()
        records.clear()
        records.update(read_records(checkpoint.folder))
        found = sum(one.rows + one.refused for number, one in records.items() if number not in known)
        if found != shards.written:
            raise EncodingError(
                f"{shards.written:,} rows were written, and {checkpoint.folder} has {found:,} of them here: every "
                "machine of the cluster has to see the same folder."
            )

    def close(self) -> None:
        if self._ours:
            self._ray.shutdown()

    def _connect(self, cluster: Cluster) -> None:
        options: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
        if cluster.address is None:
            logical = max(os.cpu_count() or 1, cluster.actors or 1) + _BESIDE
            options |= {"num_cpus": logical, "object_store_memory": _STORE_BYTES, "include_dashboard": False}
        try:
            with _without_stderr():
                self._ray.init(address=cluster.address or "local", **options)
        except Exception as error:  # of many kinds, by what there is in place of a cluster
            raise _not_there(cluster.address or "this machine", str(error).strip().partition("\n")[0]) from None

    def _share(self, cluster: Cluster) -> None:
        """How many actors, and how many CPUs and GPUs each has."""
        there = self._ray.cluster_resources()
        forced = self._asked.devices[0]
        gpus = 0 if forced == "cpu" else int(there.get("GPU", 0))
        cpus = int(there.get("CPU", 0)) - _BESIDE
        self._actors = cluster.actors or gpus or max(1, cpus // 4)
        most = min(cpus, gpus) if gpus else cpus
        if self._actors > most:
            there_are = f"{gpus} GPUs and {cpus + _BESIDE} CPUs" if gpus else f"{cpus + _BESIDE} CPUs"
            raise DesignError(
                f"the cluster has {there_are}, which is enough for {max(0, most)} actors: each needs a "
                f"{'GPU and a CPU' if gpus else 'CPU'}, and {_BESIDE} CPUs read and write. Set fewer [[actors]], or "
                "add machines."
            )
        widest = max(int(node["Resources"].get("CPU", 0)) for node in self._ray.nodes() if node["Alive"])
        self._cpus = 1 if gpus else max(1, min(cpus // self._actors, widest))
        self._needs = {"num_gpus": 1} if gpus else {"num_cpus": self._cpus}

    @contextmanager
    def _settings(self, checkpoint: Checkpoint) -> Iterator[None]:
        """Ray Data's settings for this dataset; those of the process stay as they were."""
        context = import_module("ray.data").DataContext
        config = import_module("ray.data.checkpoint").CheckpointConfig(
            "row", str(checkpoint.path.absolute()), delete_checkpoint_on_success=False
        )
        config.checkpoint_actor_pool_max_size, config.checkpoint_actor_memory_bytes = 1, _FILTER_BYTES
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Ray copies settings that it has deprecated itself
            mine = context.get_current().copy()
            mine.checkpoint_config = config
            mine.target_max_block_size = _BLOCK_BYTES
            mine.enable_progress_bars, mine.raise_original_map_exception = False, True
            with context.current(mine):
                yield


def _open(job: Any, threads: int) -> tuple[str, dict[str, Any]]:
    """The name and the identity of the model, loaded where the actors will load it."""
    import torch

    from fairspan.embedding.encoder import open_encoder

    torch.set_num_threads(threads)
    opened = open_encoder(*job)
    return opened.name, opened.identity


@contextmanager
def _without_stderr() -> Iterator[None]:
    """Ray's C++ parts print lines about their settings, which no option of Ray turns off."""
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


@contextmanager
def _watching(folder: Path, records: dict[int, Record], meter: Meter) -> Iterator[None]:
    """Report new shards as they appear, and add them to the records."""
    over = threading.Event()

    def look() -> None:
        while not over.wait(_LOOK):
            with suppress(FairspanError):  # what is wrong with a shard is said when all are read
                for number, record in read_records(folder, {shard_name(number) for number in records}).items():
                    records[number] = record
                    meter.advance(record.tokens, record.end.done - record.start.done)
                    meter.finish(record.rows)

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@contextmanager
def _explained() -> Iterator[None]:
    """What an actor or a task raised, in one line."""
    try:
        yield
    except Exception as error:
        found = _cause(error)
        if found is not None:
            raise found from None
        last = (str(error).strip().splitlines() or [type(error).__name__])[-1]
        raise EncodingError(
            f"Ray stopped ({type(error).__name__}: {last}). Finished shards are kept, and the same command continues "
            "from there."
        ) from error


def _cause(error: BaseException) -> FairspanError | None:
    """The error of ours that Ray wrapped, perhaps several times."""
    ray = ray_library()
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, FairspanError) and not isinstance(seen, ray.exceptions.RayTaskError):
            return type(seen)(seen.message.partition("\n")[0])  # Ray adds lines about its retries
        seen = getattr(seen, "cause", None) or seen.__cause__
    return None
