"""What `ciga fit` prints at the end."""

from __future__ import annotations

from pathlib import Path

import pytest

from ciga.cli.fitted import print_summary
from tests.small_models import toy_model


@pytest.mark.parametrize(("method", "explained"), [("ciga-v2", True), ("erm", False)])
def test_explain_is_offered_where_there_are_subgraphs(
    method: str, explained: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    print_summary(toy_model(method), tmp_path, "molecules.csv")
    said = " ".join(capsys.readouterr().out.split())
    assert f"ciga predict {tmp_path}" in said
    assert ("ciga explain" in said) is explained
