"""What a user reads is plain English: turns of phrase that readers stumbled over do not come back."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [
    *sorted((ROOT / "src" / "ciga").rglob("*.py")),
    *sorted((ROOT / "src" / "ciga").rglob("*.toml")),
    *sorted((ROOT / "src" / "ciga").rglob("*.html")),
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted(ROOT.glob("*.md")),
]
AWKWARD = {
    r"\bshall\b": "must or should",
    r"\b[Ss]o many\b": "the number of",
    r"(?<!There )\bis no (file|folder|model|dataset|number|table|graph)\b": "is not a …",
    r"\b(graphs|runs|rows|edges|bytes|features|numbers|[Oo]ne [a-z]+)"
    r" a (class|node|graph|method|row|atom|line)\b": "per …",
    r"\bas it were\b": "leave it out",
    r"\bdo not lean\b": "do not rely",
    r"\btells less what\b": "score on G_c minus the probe's score on G_s",
    r"\bbeyond all bounds\b": "training diverged",
    r"\b[Tt]his very run\b": "this run",
    r"\btake (the|away) .{0,20}for the real thing\b": "omit … for the full dataset",
}


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_plain_words(page: Path) -> None:
    text = " ".join(page.read_text(encoding="utf-8").split())
    found = [
        f"'{match.group()}': say {better}"
        for pattern, better in AWKWARD.items()
        for match in re.finditer(pattern, text)
    ]
    assert found == []
