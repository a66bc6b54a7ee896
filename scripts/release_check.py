"""Builds wheel and sdist in dist/, checks them, and uses the wheel outside the repository.

    python scripts/release_check.py [INTERPRETER …]

Needs build and twine. Every interpreter gets an environment of its own, with the demo extra and the
versions of constraints.txt: README's Python code runs there, and `fairspan evaluate` on a folder of
text files.
"""

import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).parents[1]
INTERPRETERS = ("python3.11", "python3.12", "python3.13")
MOST_BYTES = 1_000_000
NEEDED = (
    "fairspan/py.typed",
    "fairspan/corpus/data/SOURCES.txt",
    "licenses/LICENSE",
    "licenses/src/fairspan/corpus/data/SOURCES.txt",
)
TOPICS = ("rivers", "bridges", "clocks", "gardens", "sailing", "bread")


def run(*command: object, **options: object) -> None:
    print("$", *command, flush=True)
    subprocess.run([str(word) for word in command], check=True, **options)


def build(folder: Path) -> Path:
    """The wheel, built from the sdist; raise if either is not fit to be published."""
    shutil.rmtree(folder, ignore_errors=True)
    run(sys.executable, "-m", "build", "--outdir", folder, ROOT)
    run(sys.executable, "-m", "twine", "check", "--strict", *sorted(folder.iterdir()))
    (wheel,) = folder.glob("*.whl")
    size = wheel.stat().st_size
    print(f"{wheel.name}: {size / 1e6:.2f} MB")
    if size > MOST_BYTES:
        raise SystemExit(f"the wheel has {size:,} bytes, more than {MOST_BYTES:,}")
    names = zipfile.ZipFile(wheel).namelist()
    missing = [file for file in NEEDED if not any(name.endswith(file) for name in names)]
    if missing:
        raise SystemExit(f"the wheel lacks {', '.join(missing)}")
    return wheel


def use(interpreter: str, wheel: Path, folder: Path) -> None:
    """Install the wheel into a new environment, and do there what README shows."""
    run(interpreter, "-m", "venv", folder / "venv")
    python = folder / "venv" / "bin" / "python"
    pip = (python, "-m", "pip", "install", "--quiet", "--constraint", ROOT / "constraints.txt")
    run(*pip, "--upgrade", "pip")
    run(*pip, "torch")
    run(*pip, f"{wheel}[demo]")
    texts = folder / "texts"
    texts.mkdir()
    for topic in TOPICS:
        sentences = (f"This is what chapter {n} says about {topic} number {n}." for n in range(60))
        (texts / f"{topic}.txt").write_text("\n\n".join(sentences), encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text("utf-8"), re.DOTALL)
    (folder / "readme.py").write_text(code + "print(fairspan.__version__, vectors.shape)\n")
    own = {"FAIRSPAN_STORE": str(folder / "store.sqlite"), "HF_HUB_OFFLINE": "1"}
    environment = {**os.environ, **own}
    environment.pop("PYTHONPATH", None)
    for command in (
        (python, "-W", "error::ImportWarning", "readme.py"),
        (python.with_name("fairspan"), "evaluate", "--corpus", texts, "--picture", "found.png"),
    ):
        run(*command, cwd=folder, env=environment)
    if not (folder / "found.png").is_file():
        raise SystemExit("fairspan evaluate drew no picture")


def usable(interpreter: str) -> bool:
    """Whether it can be started; a version manager may only know its name."""
    place = shutil.which(interpreter)
    return (
        place is not None
        and not subprocess.run([place, "--version"], capture_output=True, check=False).returncode
    )


def main() -> None:
    interpreters = sys.argv[1:] or [name for name in INTERPRETERS if usable(name)]
    wheel = build(ROOT / "dist")
    with TemporaryDirectory() as temporary:
        for number, interpreter in enumerate(interpreters):
            folder = Path(temporary, str(number))
            folder.mkdir()
            use(interpreter, wheel, folder)
            # An environment has gigabytes where torch brings CUDA.
            shutil.rmtree(folder)
            print(f"{interpreter}: installed and used")
    print(f"{wheel.name} works with {', '.join(interpreters)}")


if __name__ == "__main__":
    main()
