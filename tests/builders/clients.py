"""What clients make of a server and of a saved model, as JSON; in the environment .clients.

    python -m tests.builders.clients BLOCKS URL KEY MODEL

BLOCKS is a JSON file with the Python blocks of docs/serve.md by section. Each case is vectors,
or the name of an exception and what it says.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tiktoken
from langchain_openai import OpenAIEmbeddings


def tokenizer_of_others(first: int) -> tiktoken.Encoding:
    """In place of OpenAI's, which would be downloaded: a token per byte, with ids from `first`."""
    ranks = {bytes([byte]): first + byte for byte in range(256)}
    return tiktoken.Encoding("others", pat_str=r"\S+|\s+", mergeable_ranks=ranks, special_tokens={})


def outcome(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except Exception as error:
        return {"error": type(error).__name__, "says": str(error)}


def cases(url: str, key: str, folder: str, texts: list[str]) -> dict[str, Callable[[], Any]]:
    def langchain(**options: Any) -> Any:
        tiktoken.get_encoding = lambda name: tokenizer_of_others(2_000)
        name = Path(folder).name
        served = OpenAIEmbeddings(model=name, base_url=url, api_key=key, max_retries=0, **options)
        return served.embed_documents(texts)

    return {
        "langchain, ids": langchain,
        "langchain, texts": lambda: langchain(check_embedding_ctx_length=False),
    }


def main(blocks: str, url: str, key: str, folder: str) -> None:
    sections: dict[str, list[str]] = json.loads(Path(blocks).read_text(encoding="utf-8"))
    names: dict[str, Any] = {}
    exec("\n".join(sections.pop("Clients")), names)
    told: dict[str, Any] = {}
    for section, codes in sections.items():
        for number, code in enumerate(codes):
            exec(code, names)
            told[f"{section} {number}"] = {name: names.pop(name) for name in ("documents", "query")}
    for name, case in cases(url, key, folder, names["texts"]).items():
        told[name] = outcome(case)
    json.dump(told, sys.stdout)


if __name__ == "__main__":
    main(*sys.argv[1:])
