"""docs/deviations.md has a row for every method, and what it says of options is true."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

from ciga import options
from ciga.data.dataset import datasets
from ciga.methods.base import methods
from ciga.methods.environments import environment_means, irm_penalty, scale_gradient
from ciga.runs.settings import resolve
from tools.deviations import PAGE, ours, table, written

DOCS = Path(__file__).parents[2] / "docs"
ROW = re.compile(r"^\| `([a-z0-9-]+)` \|(.*)\|$", re.MULTILINE)
OPTION = re.compile(r"`([a-z_]+|C)=([^`]+)`")


def rows() -> dict[str, str]:
    """The main table: method -> the rest of its row."""
    text = PAGE.read_text().split("\n## ")[0]
    found = ROW.findall(text)
    assert len(found) == len(dict(found))
    return dict(found)


def test_every_method_has_one_row_and_every_row_a_method() -> None:
    assert set(rows()) == set(methods)
    for name, cells in rows().items():
        assert len(cells.split(" | ")) == 4, name
        assert all(cell.strip() for cell in cells.split(" | ")), name


@pytest.mark.parametrize("name", list(methods))
def test_options_that_a_row_names_have_the_default_it_states(name: str) -> None:
    fields = options.fields_of(methods[name])
    for option, value in OPTION.findall(rows()[name]):
        assert option in fields, f"{name} has no option {option}"
        assert str(fields[option].default) == value, f"{name}: {option}"


def test_values_that_are_ours_are_in_the_papers_range_and_no_rule_sets_them() -> None:
    for method, ranges in ours().items():
        fields = options.fields_of(methods[method])
        for option, values in ranges.items():
            assert fields[option].default in values
            for dataset in datasets:
                found = resolve(method, dataset=dataset, preset="published").flat()
                assert found[option] == fields[option].default


def test_the_page_is_as_the_tool_writes_it() -> None:
    text = PAGE.read_text()
    assert written(text) == text
    assert table() in text


def test_what_methods_md_says_of_penalties_is_what_the_code_does() -> None:
    """`irm`'s penalty: a sum over environments, not a mean."""
    text = (DOCS / "methods.md").read_text()
    assert "is a sum over the environments of the batch" in text
    assert "one after the other" in text
    torch.manual_seed(0)
    logits, y, env = torch.randn(12, 3), torch.arange(12) % 3, torch.arange(12) % 4
    squares = environment_means(scale_gradient(logits, y), env).square()
    torch.testing.assert_close(irm_penalty(logits, y, env), squares.sum())
    assert not torch.isclose(squares.sum(), squares.mean())


def test_methods_md_has_every_method_and_every_option_of_its_own() -> None:
    text = (DOCS / "methods.md").read_text()
    told: dict[str, set[str]] = {}
    for first, last in re.findall(r"^\| (`[^|]*`) \|.*\| ([^|]*) \|$", text, re.MULTILINE):
        for name in set(re.findall(r"`([a-z0-9-]+)`", first)) & set(methods):
            told[name] = set(re.findall(r"`(\w+)`", last)) | told.get(name, set())
    assert set(told) == set(methods)
    for name in methods:
        own = set(options.fields_of(methods[name])) & set(vars(methods[name]).get("__annotations__", {}))
        assert own <= told[name], name
        of_row = {o for m in methods if told[m] == told[name] for o in options.fields_of(methods[m])}
        assert told[name] <= of_row, name


def test_a_minibatch_makes_irms_penalty_larger() -> None:
    """The bias that the page states: where the gradient over all data is 0, that of a batch is not."""
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(4096, 2, generator=generator)
    y = torch.bernoulli(logits.softmax(1)[:, 1], generator=generator).long()  # calibrated: no gradient
    everything = irm_penalty(logits, y, torch.zeros(4096, dtype=torch.long))
    batches = [
        irm_penalty(logits[i : i + 32], y[i : i + 32], torch.arange(32) % 2) for i in range(0, 4096, 32)
    ]
    assert float(everything) < 0.002
    assert 10 * float(everything) < float(torch.stack(batches).mean())
