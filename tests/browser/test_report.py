"""The report in a real browser: nothing fails, nothing is fetched, and everything that looks usable is."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ciga.explain.examine import examine
from ciga.explain.report import report_model
from ciga.explain.svg import whiskers
from tests.small_models import toy_model, toy_splits

pytestmark = pytest.mark.browser
NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
NASTY = "<script>document.title='pwned'</script>"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    api = pytest.importorskip("playwright.sync_api", reason="playwright is missing: pip install 'ciga[dev]'")
    found = next((path for name in NAMES if (path := shutil.which(name))), None)
    if found is None:
        pytest.skip(f"no browser on PATH (looked for {', '.join(NAMES)})")
    with api.sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=found, args=["--no-sandbox", "--disable-gpu"])
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    model = toy_model(rival=True)
    before = list(model.classes)
    model.classes = [NASTY, "house", "crane"]
    path = tmp_path_factory.mktemp("report") / "report.html"
    try:
        found = examine(model, toy_splits()["ood_test"])
        report_model(model, found, path, title="A report", subject="ood_test")
    finally:
        model.classes = before
    return path


@pytest.fixture
def page(browser: Any, report: Path) -> Iterator[Any]:
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    opened = context.new_page()
    opened.set_default_timeout(60_000)
    opened.problems = []
    opened.on("console", lambda m: opened.problems.append(m.text) if m.type in ("error", "warning") else None)
    opened.on("pageerror", lambda e: opened.problems.append(str(e)))
    opened.on(
        "request",
        lambda r: opened.problems.append(r.url) if not r.url.startswith(("file:", "data:")) else None,
    )
    opened.goto(report.as_uri())
    yield opened
    context.close()
    assert opened.problems == []


def shown(page: Any) -> list[Any]:
    return [card for card in page.query_selector_all(".card") if card.is_visible()]


def test_labels_stay_text(page: Any) -> None:
    assert page.title() == "A report"
    assert NASTY in page.inner_text("#f-label")
    assert page.query_selector_all("main script") == []


def everything_is_shown(page: Any) -> None:
    """Wait for it (not by a script: the page forbids evaluating text)."""
    page.locator("#count", has_text="18 of").wait_for()


def test_filters_and_sorting(page: Any) -> None:
    total = len(shown(page))
    assert total == 18
    page.select_option("#f-correct", "wrong")
    wrong = len(shown(page))
    page.select_option("#f-correct", "right")
    assert wrong + len(shown(page)) == total
    page.click("#filters button[type=reset]")
    everything_is_shown(page)
    page.select_option("#f-label", "house")
    assert {card.get_attribute("data-label") for card in shown(page)} == {"house"}
    page.click("#filters button[type=reset]")
    everything_is_shown(page)
    page.select_option("#f-flag", "1")
    flagged = len(shown(page))
    page.select_option("#f-flag", "0")
    assert flagged + len(shown(page)) == total
    page.select_option("#f-flag", "")
    page.fill("#f-text", "graph 17")
    assert len(shown(page)) == 1
    page.fill("#f-text", "")
    page.select_option("#f-sort", "confidence:-1")
    order = [float(card.get_attribute("data-confidence")) for card in shown(page)]
    assert order == sorted(order, reverse=True)
    page.fill("#f-confidence", "100")
    assert shown(page) == []
    assert page.inner_text("#count") == "0 of 18 graphs"


def test_hover_tells_the_score_of_an_edge(page: Any) -> None:
    assert page.is_hidden("#tip")
    card = shown(page)[0]
    card.scroll_into_view_if_needed()
    line = card.query_selector("line.kept")
    line.dispatch_event("pointermove", {"clientX": 100, "clientY": 100, "bubbles": True})
    said = page.inner_text("#tip")
    edge = int(next(c for c in line.get_attribute("class").split() if c.startswith("bond-"))[5:])
    score = float(card.get_attribute("data-scores").split()[edge])
    assert f"score {score:.2f}, kept" in said
    box = card.query_selector("svg").bounding_box()
    page.mouse.move(box["x"] + 2, box["y"] + 2)  # a corner, where there is no edge
    page.wait_for_function("document.querySelector('#tip').hidden")


def test_the_enlarged_picture_works_by_keyboard(page: Any) -> None:
    first = shown(page)[0].query_selector(".picture")
    first.focus()
    page.keyboard.press("Enter")
    page.wait_for_selector("dialog[open] .stage svg")
    view = "document.querySelector('.stage svg').getAttribute('viewBox')"
    before = page.evaluate(view)
    page.keyboard.press("+")
    zoomed = page.evaluate(view)
    assert float(zoomed.split()[2]) < float(before.split()[2])
    page.keyboard.press("ArrowRight")
    assert page.evaluate(view) != zoomed
    page.query_selector(".stage line.kept").dispatch_event("pointermove", {"clientX": 200, "clientY": 200})
    assert "kept" in page.inner_text("dialog #tip")  # inside, else the dialog would cover it
    caption = page.inner_text(".caption")
    page.keyboard.press("PageDown")
    assert page.inner_text(".caption") != caption
    page.keyboard.press("Escape")
    page.wait_for_selector("dialog:not([open])", state="attached")
    assert page.evaluate("document.activeElement.className") == "picture"


def test_tables_sort_and_the_theme_turns(page: Any) -> None:
    page.click("#scores thead button >> nth=1")
    first = page.query_selector("#scores table")  # the other one lies in a closed <details>
    column = [cell.inner_text() for cell in first.query_selector_all("tbody tr td:nth-child(2)")]
    assert len(column) >= 6
    assert column == sorted(column)
    colour = "getComputedStyle(document.body).backgroundColor"
    before = page.evaluate(colour)
    page.click("#theme")
    assert page.evaluate(colour) != before
    assert page.get_attribute("#theme", "aria-pressed") == "true"


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_nothing_sticks_out(browser: Any, report: Path, scheme: str, width: int, tmp_path: Path) -> None:
    context = browser.new_context(viewport={"width": width, "height": 844}, color_scheme=scheme)
    page = context.new_page()
    page.goto(report.as_uri())
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    sums = "getComputedStyle(document.body)[k].match(/\\d+/g).map(Number).reduce((a, b) => a + b)"
    ink, ground = page.evaluate(f"['color', 'backgroundColor'].map((k) => {sums})")
    assert (ink > ground) == (scheme == "dark")
    folder = Path(os.environ.get("CIGA_SCREENSHOTS", tmp_path))
    picture = folder / f"report-{scheme}-{width}.png"
    page.screenshot(path=str(picture), full_page=True)
    assert picture.stat().st_size > 20_000
    context.close()


def test_no_name_is_cut_off(page: Any) -> None:
    rows = [
        (f"ood_test {name}", 0, 0.5, 0.4, 0.6)
        for name in ("erm", "ciga-complement", "CIGAv2, 8 edges, tuned")
    ]
    page.evaluate("(chart) => document.body.insertAdjacentHTML('beforeend', chart)", whiskers(rows, "chart"))
    cut = """[...document.querySelectorAll('svg.chart text:not([transform])')].filter((text) => {
        const [own, all] = [text.getBoundingClientRect(), text.ownerSVGElement.getBoundingClientRect()];
        return own.left < all.left || own.right > all.right;
    }).map((text) => text.textContent)"""
    assert page.evaluate(cut) == []
