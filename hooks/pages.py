"""Pages of the site from outside docs/, the page of all commands, links between pages, and what the
first page takes from README.md.
"""

import posixpath
import re
import sys
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, InclusionLevel

ROOT = Path(__file__).parents[1]
PAGES = ("CHANGELOG.md", "CONTRIBUTING.md", "benchmarks/RESULTS.md")
PARTS = {
    "words": r"(?<=^# fairspan\n\n).+?(?=\n\n)",
    "code": r"^```python\n.+?^```$",
    "picture": r"^!\[.+?\)$",
}


def on_files(files: Any, config: Any) -> Any:
    files.append(File.generated(config, "cli.md", content=commands()))
    for page in PAGES:
        files.append(File.generated(config, page, content=(ROOT / page).read_text("utf-8")))
    for script in sorted([*(ROOT / "examples").glob("*.py"), *(ROOT / "examples").glob("*/*.js")]):
        shown = f"# {script.name}\n\n```{script.suffix[1:]}\n{script.read_text('utf-8')}```\n"
        uri = f"{script.relative_to(ROOT).as_posix()}.md"
        files.append(
            File.generated(config, uri, content=shown, inclusion=InclusionLevel.NOT_IN_NAV)
        )
    return files


def on_page_markdown(markdown: str, page: Any, files: Any, **_: Any) -> str:
    """The links of a page as they are on the site; in the repository they are relative to its own
    place there.
    """
    places = {place(file.src_uri): file.src_uri for file in files} | {"README.md": "index.md"}
    own = page.file.src_uri

    def linked(text: str, folder: str) -> str:
        def there(link: re.Match[str]) -> str:
            uri = places.get(posixpath.normpath(posixpath.join(folder, link[0])))
            return posixpath.relpath(uri, posixpath.dirname(own) or ".") if uri else link[0]

        return re.sub(r"(?<=\]\()[^)#\s]+", there, text)

    def part(name: re.Match[str]) -> str:
        found = re.search(
            PARTS[name[1]], (ROOT / "README.md").read_text("utf-8"), re.DOTALL | re.MULTILINE
        )
        if found is None:
            raise ValueError(
                f"README.md has no {name[1]} for the site's first page: see {Path(__file__).name}"
            )
        return linked(found[0], "")

    shown = re.sub("<!-- README: (.+?) -->", part, linked(markdown, posixpath.dirname(place(own))))
    # A picture is also a link to itself, since a phone shows it small.
    return re.sub(r"^(!\[[^]]*\]\((\S+)\))$", r"[\1](\2)", shown, flags=re.MULTILINE)


def commands() -> str:
    """The page of every command and its options, as `--help` shows them; imports no torch."""
    sys.path.insert(0, str(ROOT / "src"))
    from fairspan.cli import app

    return app.generate_docs()


def place(uri: str) -> str:
    """Where the file of a page is in the repository."""
    if uri.startswith("examples/"):
        return uri.removesuffix(".md")
    return uri if uri in PAGES else f"docs/{uri}"
