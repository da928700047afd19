"""A real browser for the tests of what is read in one."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")


@pytest.fixture(scope="package")
def browser() -> Iterator[Any]:
    """One browser for this folder only: as long as it is open, an event loop runs that hangs other tests."""
    api = pytest.importorskip("playwright.sync_api", reason="playwright is missing: pip install 'ciga[dev]'")
    found = next((path for name in NAMES if (path := shutil.which(name))), None)
    if found is None:
        pytest.skip(f"no browser on PATH (looked for {', '.join(NAMES)})")
    with api.sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=found, args=["--no-sandbox", "--disable-gpu"])
        yield opened
        opened.close()
