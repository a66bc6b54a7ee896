"""The vectors that common clients get of a server and of a saved model, as JSON; in the environment
.clients.

    python -m tests.builders.clients BLOCKS

BLOCKS is a JSON file with the Python blocks of docs/serve.md by section.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any


def main(blocks: str) -> None:
    sections: dict[str, list[str]] = json.loads(Path(blocks).read_text(encoding="utf-8"))
    names: dict[str, Any] = {}
    exec("\n".join(sections.pop("Clients")), names)
    told: dict[str, Any] = {}
    for section, codes in sections.items():
        for number, code in enumerate(codes):
            exec(code, names)
            told[f"{section} {number}"] = {name: names.pop(name) for name in ("documents", "query")}
    json.dump(told, sys.stdout)


if __name__ == "__main__":
    main(*sys.argv[1:])
