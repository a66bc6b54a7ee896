"""Notebooks as pages, with the outputs that are stored in them. Nothing is run."""

import json
from typing import Any

from mkdocs.structure.files import File


class Notebook(File):
    def is_documentation_page(self) -> bool:
        return True


def on_files(files: Any, config: Any) -> Any:
    for file in [file for file in files if file.src_uri.endswith(".ipynb")]:
        files.remove(file)
        files.append(
            Notebook(file.src_uri, config.docs_dir, config.site_dir, config.use_directory_urls)
        )
    return files


def on_page_read_source(page: Any, **_: Any) -> str | None:
    if not isinstance(page.file, Notebook):
        return None
    return "\n\n".join(markdown(cell) for cell in json.loads(page.file.content_string)["cells"])


def markdown(cell: dict[str, Any]) -> str:
    text = "".join(cell["source"])
    if cell["cell_type"] != "code":
        return text
    return "\n\n".join(
        [f"~~~~python\n{text}\n~~~~", *(shown(output) for output in cell["outputs"])]
    )


def shown(output: dict[str, Any]) -> str:
    """The richest form of an output."""
    data = {kind: "".join(lines) for kind, lines in output.get("data", {}).items()}
    if "text/html" in data:
        html = "\n".join(line for line in data["text/html"].splitlines() if line.strip())
        return f'<div class="output">\n{html}\n</div>'
    if "image/svg+xml" in data:
        return f'<div class="output">\n{data["image/svg+xml"]}\n</div>'
    if "image/png" in data:
        return (
            f'<img class="output" alt="" src="data:image/png;base64,{data["image/png"].strip()}">'
        )
    text = data.get("text/plain") or "".join(output.get("text") or output.get("traceback") or ())
    return f"~~~~{{.text .output}}\n{text.rstrip()}\n~~~~"
