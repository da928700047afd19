"""The documentation, opened from disk: it fetches nothing, fits a phone, and can be searched."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.browser
ROOT = Path(__file__).parent.parent.parent


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("material", reason="mkdocs-material is missing: pip install 'ciga[docs]'")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)  # --quiet would undo --strict
    assert done.returncode == 0, done.stderr
    return folder


def test_search_answers_without_a_network(browser: Any, site: Path) -> None:
    page = browser.new_page()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(f"file://{site}/index.html")
    page.locator("input.md-search__input").click()
    page.keyboard.type("scaffold")
    page.locator(".md-search-result__item").first.wait_for(timeout=20_000)
    assert "scaffold" in page.locator(".md-search-result__list").inner_text().lower()
    assert [url for url in asked if not url.startswith(("file:", "data:", "blob:"))] == []
    page.close()


def test_no_page_is_wider_than_a_phone_or_breaks_a_picture(browser: Any, site: Path) -> None:
    page = browser.new_page(viewport={"width": 390, "height": 844})
    for file in sorted(site.rglob("*.html")):
        if file.name == "404.html":  # its links start at the root of a server
            continue
        page.goto(f"file://{file}", timeout=120_000)
        assert page.evaluate("document.documentElement.scrollWidth") <= 390, file.name
        broken = "[...document.images].filter(i => i.complete && !i.naturalWidth).map(i => i.src)"
        assert page.evaluate(broken) == [], file.name
    page.close()


def test_an_option_in_the_text_is_on_one_line(browser: Any, site: Path) -> None:
    page = browser.new_page(viewport={"width": 390, "height": 844})
    page.goto(f"file://{site}/bench.html")
    lines = "[...document.querySelectorAll('.option')].map(e => e.getClientRects().length)"
    assert set(page.evaluate(lines)) == {1}
    page.close()
