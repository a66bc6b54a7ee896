"""Time and memory of spectra against the plain model on this CPU.

    python -m benchmarks.spectra [--shape base] [--tokens 512 1024 2048 4096]

σ_a in the last layer, everything else in every layer, of one fresh random text. Memory is measured twice: as the most
bytes that tensors took above the weights during one pass, and as the peak resident size of a process of its own that
does nothing else, above what it held before the pass. Attention of random weights has a flat spectrum, so that the
search takes more passes than with trained ones; `--sharp` multiplies query weights to see the difference.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Callable

import torch
from sentence_transformers import SentenceTransformer

from benchmarks.cpu import environment
from benchmarks.measure import peak_bytes
from benchmarks.models import BASE, SMALL, VOCABULARY, random_model
from fairspan.encoding.spectra import Spectrum, spectra

SHAPES = {"small": SMALL, "base": BASE}
MEBIBYTE = 2**20
LIMIT = 1.2


def prepare(shape: str, tokens: int, sharp: float) -> tuple[SentenceTransformer, str]:
    """A model with room for that many tokens, and a text of that many."""
    model = random_model(SHAPES[shape], "mean", tokens)
    model.max_seq_length = tokens
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("query.weight"):
                parameter.mul_(sharp)
    drawn = torch.randint(90, (tokens - 2,), generator=torch.Generator().manual_seed(tokens)).tolist()
    assert max(drawn) < VOCABULARY
    return model, " ".join(f"w{number}" for number in drawn)


def passes(model: SentenceTransformer, text: str) -> dict[str, Callable[[], object]]:
    """The same text through the plain model, and for its spectrum."""

    def plain() -> object:
        with torch.inference_mode():
            return model(model.preprocess([text]))["sentence_embedding"]

    def spectrum() -> Spectrum:
        return next(spectra(model, [text]))

    return {"plain": plain, "spectra": spectrum}


def measure_alone(which: str, shape: str, tokens: int, sharp: float) -> None:
    """Print the growth of this process's peak resident size during one pass, in bytes."""
    call = passes(*prepare(shape, tokens, sharp))[which]
    short = passes(*prepare(shape, 16, sharp))[which]
    short()  # what loads libraries is not the pass's own
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")  # forget the peak so far
    before = _resident("VmRSS")
    call()
    print(_resident("VmHWM") - before)


def _resident(which: str) -> int:
    with open("/proc/self/status") as file:
        (line,) = (line for line in file if line.startswith(which))
    return int(line.split()[1]) * 1024


def _in_a_process(which: str, shape: str, tokens: int, sharp: float) -> int:
    command = [sys.executable, "-m", "benchmarks.spectra", "--alone", which, "--shape", shape, "--sharp", str(sharp)]
    asked = subprocess.run([*command, "--tokens", str(tokens)], capture_output=True, text=True, check=True)
    return int(asked.stdout.split()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", choices=list(SHAPES), default="small")
    parser.add_argument("--tokens", type=int, nargs="+", default=[512, 1024, 2048, 4096])
    parser.add_argument("--sharp", type=float, default=1.0, help="what query weights are multiplied by")
    parser.add_argument("--alone", choices=["plain", "spectra"], help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.alone:
        measure_alone(given.alone, given.shape, given.tokens[0], given.sharp)
        return
    print(environment(SHAPES[given.shape], "float32").replace("benchmarks.cpu", "benchmarks.spectra"))
    print("| tokens | plain, s | spectra, s | σ_a | residual | plain, MiB | tensors | resident |")
    print("|---|---|---|---|---|---|---|---|")
    for tokens in given.tokens:
        calls = passes(*prepare(given.shape, tokens, given.sharp))
        seconds = {}
        for name, call in calls.items():
            start = time.perf_counter()
            made = call()
            seconds[name] = time.perf_counter() - start
        assert isinstance(made, Spectrum)
        tensors = {name: peak_bytes(call) for name, call in calls.items()}
        resident = {name: _in_a_process(name, given.shape, tokens, given.sharp) for name in calls}
        print(
            f"| {tokens} | {seconds['plain']:.2f} | {seconds['spectra']:.2f} | {made.sigma_a[-1]:.4f} "
            f"| {made.residual_of_heads[-1].max():.1e} | {tensors['plain'] / MEBIBYTE:.1f} "
            f"| {tensors['spectra'] / tensors['plain']:.3f} | {resident['spectra'] / resident['plain']:.3f} |",
            flush=True,
        )
        if tokens >= 4096 and tensors["spectra"] > LIMIT * tensors["plain"]:
            raise SystemExit(f"spectra take more than {LIMIT} times the plain model's memory")


if __name__ == "__main__":
    main()
