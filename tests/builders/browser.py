"""Headless Chromium for tests of pages: opened from disk with the network off, or served."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome")
CHROMIUM = next(filter(None, map(shutil.which, NAMES)), "")
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"]
FLAGS += ["--disable-background-networking", "--disable-component-update"]


@dataclass
class Opened:
    """A page in a browser, what it complained of and what it asked the network for."""

    page: Any
    complaints: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)


@contextmanager
def chromium() -> Iterator[Any]:
    """A browser; the test is skipped where there is none."""
    playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright")
    if not CHROMIUM:
        pytest.skip("needs Chromium (Debian's package chromium)")
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        try:
            yield browser
        finally:
            browser.close()


def legend_of(page: Any) -> tuple[bool, list[str]]:
    """Whether a colour scale's labels are apart and below its ramp; their backgrounds."""
    found = page.evaluate(
        """() => {
          const box = (one) => one.getBoundingClientRect();
          const ramp = box(document.querySelector(".ramp"));
          const labels = [...document.querySelectorAll(".ends > span")], boxes = labels.map(box);
          const apart = boxes.every((one, place) => !place || boxes[place - 1].right < one.left);
          const grounds = labels.map((one) => getComputedStyle(one).backgroundImage);
          const below = boxes.every((one) => one.top >= ramp.bottom - 1);
          return [labels.length === 3 && apart && below, grounds];
        }"""
    )
    return bool(found[0]), list(found[1])


@contextmanager
def opened(
    browser: Any, place: Path | str, *, width: int = 1280, dark: bool = False
) -> Iterator[Opened]:
    """A file, opened as by a double click, or an address."""
    context = browser.new_context(
        viewport={"width": width, "height": 900},
        color_scheme="dark" if dark else "light",
        reduced_motion="reduce",
        offline=isinstance(place, Path),
        accept_downloads=True,
    )
    found = Opened(context.new_page())
    found.page.on(
        "console", lambda message: found.complaints.append(f"{message.type}: {message.text}")
    )
    found.page.on("pageerror", lambda error: found.complaints.append(f"error: {error}"))
    found.page.on(
        "dialog",
        lambda dialog: (found.complaints.append(f"dialog: {dialog.message}"), dialog.dismiss()),
    )
    found.page.on("request", lambda request: found.requests.append(request.url))
    found.page.goto(place if isinstance(place, str) else place.resolve().as_uri())
    try:
        yield found
    finally:
        context.close()
