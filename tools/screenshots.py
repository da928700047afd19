"""Take the screenshots in docs/images: python tools/screenshots.py REPORT [RUNS_DIR]

REPORT is what `ciga explain` wrote; RUNS_DIR has a few runs to list. The pages are those of site/
(make docs). It needs Chromium or Chrome; nothing is fetched.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from io import StringIO
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
IMAGES = ROOT / "docs" / "images"
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
MOST = 400_000  # bytes of a picture
SLOW = 200_000  # milliseconds: the machine may be busy
#: What README.md looks like where it is read: a plain page of the usual width.
PAPER = """<!doctype html><meta charset="utf-8"><base href="{base}"><style>
body {{ font: 16px/1.5 "Liberation Sans", Arial, sans-serif; color: #1f2328 }}
body {{ max-width: 880px; margin: 32px auto }}
h1, h2 {{ border-bottom: 1px solid #d1d9e0; padding-bottom: 0.3em }} img {{ max-width: 100% }}
code {{ background: #f0f1f3; border-radius: 4px; padding: 0.15em 0.35em; font-size: 85% }}
pre {{ background: #f6f8fa; border-radius: 6px; padding: 14px; overflow: auto }} pre code {{ padding: 0 }}
table {{ border-collapse: collapse }} td, th {{ border: 1px solid #d1d9e0; padding: 6px 13px }}
a {{ color: #0969da; text-decoration: none }}</style>{body}"""
TERMINAL = """<!doctype html><meta charset="utf-8"><style>
body {{ margin: 0; background: #16181d }}
pre {{ margin: 0; padding: 14px 18px; width: max-content; color: #dfe2e7 }}
pre {{ font: 15px/1.32 "DejaVu Sans Mono", monospace }}</style>
<pre>{prompt}{body}</pre>"""


def readme() -> str:
    """README.md as a page."""
    import markdown

    body = markdown.markdown((ROOT / "README.md").read_text(encoding="utf-8"), extensions=["extra"])
    return PAPER.format(base=ROOT.as_uri() + "/", body=body)


def terminal(command: str, place: Path) -> str:
    """What a command prints in a terminal of 80 columns, as a page.

    `place` is where it runs: with runs, results and data in it, so that no folder of this machine is shown.
    """
    from rich.console import Console
    from rich.terminal_theme import SVG_EXPORT_THEME  # its red and green can be read on black
    from rich.text import Text

    words = [str(Path(sys.executable).parent / "ciga"), *command.split()[1:]]
    words += ["--format", "screen"] if command.startswith("ciga table") else []
    look = {"COLUMNS": "80", "FORCE_COLOR": "1", "TERM": "xterm-256color", "CIGA_DATA": "data"}
    done = subprocess.run(
        words, cwd=place, env={**os.environ, **look}, capture_output=True, text=True, check=True
    )
    console = Console(record=True, width=80, file=StringIO(), color_system="truecolor")
    console.print(Text.from_ansi(done.stdout), end="", soft_wrap=True)
    body = console.export_html(theme=SVG_EXPORT_THEME, inline_styles=True, code_format="{code}")
    return TERMINAL.format(prompt=f'<b style="color:#8ad18a">$</b> <b>{command}</b>\n', body=body)


def shoot(browser: Any, address: str, name: str, width: int, height: int, scheme: str = "light") -> None:
    """One picture of a page into docs/images; a height of 0 is that of the page.

    Args:
        browser: of playwright.
        address: of the page.
        name: of the picture.
        width: of the window.
        height: of the window.
        scheme: light or dark.
    """
    context = browser.new_context(viewport={"width": width, "height": height or 100}, color_scheme=scheme)
    page = context.new_page()
    page.goto(address, timeout=SLOW)
    page.wait_for_timeout(400)
    target = IMAGES / f"{name}.png"
    if height:
        page.screenshot(path=target, timeout=SLOW)
    else:
        page.locator("pre").screenshot(path=target, timeout=SLOW)
    context.close()
    size = target.stat().st_size
    print(f"{target.relative_to(ROOT)}: {size:,} bytes" + (" (too large)" if size > MOST else ""))


def main() -> None:
    from playwright.sync_api import sync_playwright

    report = Path(sys.argv[1]).resolve().as_uri()
    runs_dir = Path(sys.argv[2] if len(sys.argv) > 2 else "runs").resolve()
    data = Path(os.environ["CIGA_DATA"]).resolve()
    found = next(path for name in BROWSERS if (path := shutil.which(name)))
    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as folder:
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox", "--disable-gpu"])
        for name, title in (("index", "home"), ("concepts", "concepts"), ("results", "results")):
            shoot(browser, (ROOT / "site" / f"{name}.html").as_uri(), title, 1280, 1000)
        shoot(browser, report, "report", 1280, 900)
        shoot(browser, report, "report-dark", 1280, 900, "dark")
        shoot(browser, report, "report-phone", 390, 844)
        page = Path(folder) / "page.html"
        page.write_text(readme(), encoding="utf-8")
        shoot(browser, page.as_uri(), "readme", 960, 1300)
        place = Path(folder)
        for name, real in (("runs", runs_dir), ("results", ROOT / "results"), ("data", data)):
            (place / name).symlink_to(real)
        for command in ("ciga runs", "ciga datasets", "ciga table table-size"):
            page.write_text(terminal(command, place), encoding="utf-8")
            shoot(browser, page.as_uri(), f"terminal-{command.split()[1]}", 900, 0)
        browser.close()


if __name__ == "__main__":
    main()
