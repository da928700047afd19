"""The report in a real browser: nothing fails, nothing is fetched, and everything that looks usable is."""

from __future__ import annotations

import itertools
import math
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from ciga.data import Splits, Task
from ciga.explain.examine import examine
from ciga.explain.report import report_model
from ciga.explain.svg import HEADING, whiskers
from ciga.models.featuriser import featuriser_of
from ciga.models.model import Model
from ciga.nn.encoder import Spec
from ciga.runs.settings import resolve
from tests.small_models import QUICK, toy_model, toy_splits

pytestmark = pytest.mark.browser
NASTY = "<script>document.title='pwned'</script>"


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    model = toy_model(rival=True)
    before = list(model.classes)
    model.classes = [NASTY, "house", "crane"]
    path = tmp_path_factory.mktemp("report") / "report.html"
    try:
        found = examine(model, toy_splits()["ood_test"])
        report_model(model, found, path, title="A report", subject="ood_test", command="ciga explain it")
    finally:
        model.classes = before
    return path


@pytest.fixture(scope="module")
def molecules(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report on 150 molecules of about 30 atoms, drawn as a model would see them."""
    pytest.importorskip("rdkit", reason="RDKit is missing: pip install 'ciga[chem]'")
    from ciga.data.reading.featurise import featurise

    cores = ("c1ccc2[nH]ccc2c1", "C1CCN(C)CC1", "c1ccsc1", "c1ccc(F)cc1", "C1COCCN1", "c1cnc(Cl)nc1")
    pairs = itertools.islice(itertools.product(cores, repeat=3), 150)
    smiles = [f"CC(NC(=O){a})C(=O)NCC(Br){b}.S{c}" for a, b, c in pairs]
    graphs = featurise(smiles).store.labelled(torch.arange(150) % 2)
    splits = Splits({"train": graphs, "ood_test": graphs}, Task(2, "roc_auc", ("inactive", "active")))
    chosen = resolve("ciga-v2", QUICK, preset="none")
    model = Model(
        method_name="ciga-v2",
        settings=chosen.flat(),
        spec=Spec.of(splits),
        classes=["inactive", "active"],
        metric="roc_auc",
        seeds=[1],
        members=[chosen.method.network(Spec.of(splits), chosen.backbone)],
        featuriser=featuriser_of([graphs], {}),
        source={"dataset": "drugood-ec50-scaffold", "options": {}},
    )
    path = tmp_path_factory.mktemp("molecules") / "report.html"
    found = examine(model, splits["ood_test"], names=[f"compound {i}" for i in range(150)])
    report_model(model, found, path, title="150 molecules")
    return path


@pytest.fixture
def open_page(browser: Any) -> Iterator[Callable[..., Any]]:
    """Open a file; whatever the browser complains of, or would fetch, fails the test."""
    problems: list[str] = []
    contexts = []

    def opened(path: Path, address: str = "", width: int = 1280, scheme: str = "light") -> Any:
        context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(60_000)
        page.on("console", lambda m: problems.append(m.text) if m.type in ("error", "warning") else None)
        page.on("pageerror", lambda e: problems.append(str(e)))
        page.on(
            "request",
            lambda r: problems.append(r.url) if not r.url.startswith(("file:", "data:")) else None,
        )
        page.goto(path.as_uri() + address)
        return page

    yield opened
    for context in contexts:
        context.close()
    assert problems == []


@pytest.fixture
def page(open_page: Callable[..., Any], report: Path) -> Any:
    return open_page(report)


def shown(page: Any) -> list[Any]:
    return [card for card in page.query_selector_all("#cards .card") if card.is_visible()]


def fitting(page: Any) -> list[Any]:
    """The cards that fit the filters, on whatever page."""
    return page.query_selector_all("#cards .card:not([hidden])")  # type: ignore[no-any-return]


def everything_fits(page: Any) -> None:
    """Wait for it (not by a script: the page forbids evaluating text)."""
    page.locator("#count", has_text=re.compile("^18 graphs$")).wait_for()


def test_labels_stay_text(page: Any) -> None:
    assert page.title() == "A report"
    assert NASTY in page.inner_text("#f-label")
    assert page.query_selector_all("main script") == []


def test_the_policy_stops_what_slips_in(browser: Any, report: Path, tmp_path: Path) -> None:
    text = report.read_text(encoding="utf-8")
    (tmp_path / "odd.html").write_text(text.replace("<main", "<script>document.title='pwned'</script><main"))
    context = browser.new_context()
    page = context.new_page()
    page.goto((tmp_path / "odd.html").as_uri())
    assert page.title() == "A report"
    assert page.inner_text("#page") == "page 1 of 2"  # and its own script runs
    context.close()


def test_a_picture_is_on_the_first_screen(open_page: Callable[..., Any], report: Path) -> None:
    top = "document.querySelector('.card svg').getBoundingClientRect().top"
    assert open_page(report).evaluate(top) < 700
    assert open_page(report, width=390).evaluate(top) < 1000


def test_the_navigation_stays_and_marks_where_one_is(page: Any) -> None:
    assert page.locator("nav a").all_inner_texts() == [
        "Verdict", "Gallery", "Reasons", "Scores", "Mistakes", "Data", "Training", "Reproduce",
    ]  # fmt: skip
    page.click("nav a[href='#scores']")
    page.locator("nav a[aria-current]", has_text="Scores").wait_for()
    box = page.locator("nav").bounding_box()
    assert box["y"] == 0
    assert page.locator("#scores h2").bounding_box()["y"] > box["height"] - 1


def test_an_address_leads_to_its_section(open_page: Callable[..., Any], molecules: Path) -> None:
    page = open_page(molecules, "#reproduce")
    top = "document.querySelector('#reproduce').getBoundingClientRect().top"
    assert 0 <= page.evaluate(top) < 900
    page = open_page(molecules, "#gallery?sort=confidence%3A-1")
    assert 0 <= page.evaluate("document.querySelector('#gallery').getBoundingClientRect().top") < 200


def test_filters_and_sorting(page: Any) -> None:
    total = len(fitting(page))
    assert total == 18
    page.select_option("#f-correct", "wrong")
    wrong = len(fitting(page))
    page.select_option("#f-correct", "right")
    assert wrong + len(fitting(page)) == total
    page.click("#filters button[type=reset]")
    everything_fits(page)
    page.select_option("#f-label", "house")
    assert {card.get_attribute("data-label") for card in fitting(page)} == {"house"}
    page.click("#filters button[type=reset]")
    everything_fits(page)
    page.select_option("#f-flag", "1")
    flagged = len(fitting(page))
    page.select_option("#f-flag", "0")
    assert flagged + len(fitting(page)) == total
    page.select_option("#f-flag", "")
    page.fill("#f-text", "graph 17")
    assert len(fitting(page)) == 1
    page.fill("#f-text", "")
    page.select_option("#f-sort", "confidence:-1")
    order = [float(card.get_attribute("data-confidence")) for card in fitting(page)]
    assert order == sorted(order, reverse=True)


def test_nothing_found_is_said_and_undone(page: Any) -> None:
    assert page.is_hidden("#none")
    page.fill("#f-confidence", "100")
    assert shown(page) == []
    assert page.inner_text("#count") == "0 of 18 graphs"
    assert "No graph fits these filters" in page.inner_text("#none")
    page.click("#all")
    everything_fits(page)
    assert page.is_hidden("#none")


def test_filters_stand_in_the_address(page: Any, open_page: Callable[..., Any], report: Path) -> None:
    page.select_option("#f-label", "house")
    page.select_option("#f-sort", "confidence:-1")
    page.fill("#f-text", "graph 1")
    address = page.evaluate("location.hash")
    assert address == "#gallery?text=graph+1&label=house&sort=confidence%3A-1"
    rows = [card.get_attribute("data-row") for card in shown(page)]
    other = open_page(report, address)
    assert [card.get_attribute("data-row") for card in shown(other)] == rows
    assert other.input_value("#f-label") == "house"
    other.click("#filters button[type=reset]")
    everything_fits(other)
    assert other.evaluate("location.hash") == "#gallery"
    odd = open_page(report, "#gallery?label=%3Cb%3E&nothing=1&page=99")
    everything_fits(odd)
    assert odd.inner_text("#page") == "page 2 of 2"


def test_arrows_turn_pages(page: Any) -> None:
    assert len(shown(page)) == 12
    page.keyboard.press("ArrowRight")
    assert page.inner_text("#page") == "page 1 of 2"  # the gallery is not on the screen yet
    page.locator("#gallery .turn").first.scroll_into_view_if_needed()
    page.keyboard.press("ArrowRight")
    assert page.inner_text("#page") == "page 2 of 2"
    assert len(shown(page)) == 6
    assert page.evaluate("location.hash") == "#gallery?page=2"
    page.keyboard.press("ArrowRight")
    assert page.inner_text("#page") == "page 2 of 2"
    page.focus("#f-text")
    page.keyboard.press("ArrowLeft")  # moves the caret
    assert page.inner_text("#page") == "page 2 of 2"
    page.click("#prev")
    assert page.inner_text("#page") == "page 1 of 2"
    assert page.is_disabled("#prev")


def test_hover_tells_the_score_of_an_edge(page: Any) -> None:
    assert page.is_hidden("#tip")
    card = shown(page)[0]
    card.scroll_into_view_if_needed()
    line = card.query_selector("line.kept")
    line.dispatch_event("pointermove", {"clientX": 100, "clientY": 100, "bubbles": True})
    said = page.inner_text("#tip")
    edge = int(next(c for c in line.get_attribute("class").split() if c.startswith("bond-"))[5:])
    score = float(card.get_attribute("data-scores").split()[edge])
    assert said == f"edge: score {score:.2f}, highlighted"
    box = card.query_selector("svg").bounding_box()
    page.mouse.move(box["x"] + 2, box["y"] + 2)  # a corner, where there is no edge
    page.locator("#tip").wait_for(state="hidden")


def test_the_enlarged_picture_works_by_keyboard(page: Any) -> None:
    last = shown(page)[11].query_selector(".picture")
    last.focus()
    page.keyboard.press("Enter")
    page.wait_for_selector("dialog[open] .stage svg")
    view = "document.querySelector('.stage svg').getAttribute('viewBox')"
    before = page.evaluate(view)
    page.keyboard.press("+")
    zoomed = page.evaluate(view)
    assert float(zoomed.split()[2]) < float(before.split()[2])
    page.query_selector(".stage line.kept").dispatch_event("pointermove", {"clientX": 200, "clientY": 200})
    assert "highlighted" in page.inner_text("dialog #tip")  # inside, else the dialog would cover it
    caption = page.inner_text(".caption")
    page.keyboard.press("ArrowRight")
    assert page.inner_text(".caption") != caption
    assert page.inner_text("#page") == "page 2 of 2"  # the gallery follows
    page.keyboard.press("ArrowLeft")
    assert page.inner_text(".caption") == caption
    page.keyboard.press("Escape")
    page.wait_for_selector("dialog:not([open])", state="attached")
    assert page.evaluate("document.activeElement.className") == "picture"


def test_copy_buttons(open_page: Callable[..., Any], molecules: Path) -> None:
    page = open_page(molecules)
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    button = page.locator("#cards .card .copy").first
    button.click()
    button.filter(has_text="copied").wait_for()
    assert page.evaluate("navigator.clipboard.readText()") == button.get_attribute("data-copy")
    button.filter(has_text="copy SMILES").wait_for()


def test_copying_works_where_the_clipboard_is_locked(page: Any) -> None:
    page.evaluate("() => { navigator.clipboard.writeText = () => Promise.reject(new Error('locked')); }")
    page.evaluate("() => addEventListener('copy', (e) => { document.body.dataset.seen = e.target.value; })")
    page.locator("#reproduce .copy").click()
    page.locator("#reproduce .copy", has_text="copied").wait_for()
    assert page.get_attribute("body", "data-seen") == "ciga explain it"
    assert page.query_selector_all("textarea") == []


def test_molecules_are_small_named_and_have_a_dark_palette(
    open_page: Callable[..., Any], molecules: Path
) -> None:
    assert molecules.stat().st_size < 4_000_000
    colours = """['.halo', '.f.N', '.b'].map((name) => {
        const style = getComputedStyle(document.querySelector('#cards .molecule ' + name));
        return (name === '.f.N' ? style.fill : style.stroke);
    })"""
    light, dark = (open_page(molecules, scheme=scheme).evaluate(colours) for scheme in ("light", "dark"))
    assert all(a != b for a, b in zip(light, dark, strict=True))
    page = open_page(molecules)
    assert "compound 0" in page.inner_text("#cards .card >> nth=0")
    assert "new scaffolds" not in page.inner_text("#gallery")
    assert page.locator(".keys").first.inner_text().startswith("← and → turn pages. Point at a bond")
    widths = (
        "[...new Set([...document.querySelectorAll('.halo')].map((e) => getComputedStyle(e).strokeWidth))]"
    )
    assert page.evaluate(widths) == ["11px"]


def test_the_print_has_colours_and_few_pages(open_page: Callable[..., Any], molecules: Path) -> None:
    page = open_page(molecules, scheme="dark")
    page.emulate_media(media="print")
    assert page.evaluate("getComputedStyle(document.querySelector('.halo')).printColorAdjust") == "exact"
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert ground == "rgb(255, 255, 255)"
    assert len([card for card in page.query_selector_all("#cards .card") if card.is_visible()]) == 150
    pages = len(re.findall(rb"/Type\s*/Page\b", page.pdf(format="A4")))
    assert 3 <= pages <= 12


def test_tables_sort_and_the_theme_turns(page: Any) -> None:
    page.click("#scores summary >> nth=0")
    page.click("#scores thead button >> nth=1")
    first = page.query_selector("#scores table")
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
def test_nothing_sticks_out(
    open_page: Callable[..., Any], report: Path, scheme: str, width: int, tmp_path: Path
) -> None:
    page = open_page(report, width=width, scheme=scheme)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    sums = "getComputedStyle(document.body)[k].match(/\\d+/g).map(Number).reduce((a, b) => a + b)"
    ink, ground = page.evaluate(f"['color', 'backgroundColor'].map((k) => {sums})")
    assert (ink > ground) == (scheme == "dark")
    folder = Path(os.environ.get("CIGA_SCREENSHOTS", tmp_path))
    picture = folder / f"report-{scheme}-{width}.png"
    page.screenshot(path=str(picture), full_page=True)
    assert picture.stat().st_size > 20_000


def test_no_name_is_cut_off(page: Any) -> None:
    rows = [
        (f"ood_test {name}", 0, 0.5, 0.4, 0.6)
        for name in ("erm", "ciga-complement", "CIGAv2, 8 edges, tuned")
    ]
    rows.insert(0, ("known scaffolds (validation)", HEADING, math.nan, math.nan, math.nan))
    page.evaluate("(chart) => document.body.insertAdjacentHTML('beforeend', chart)", whiskers(rows, "chart"))
    cut = """[...document.querySelectorAll('svg.chart text:not([transform])')].filter((text) => {
        const [own, all] = [text.getBoundingClientRect(), text.ownerSVGElement.getBoundingClientRect()];
        return own.left < all.left || own.right > all.right;
    }).map((text) => text.textContent)"""
    assert page.evaluate(cut) == []
    chart = page.locator("svg.chart").last
    assert chart.locator(".head").all_text_contents() == ["known scaffolds (validation)"]
    assert chart.locator("circle.dot").count() == 3  # a heading has none
