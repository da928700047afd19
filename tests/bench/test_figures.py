"""Figures are drawn from records: files are there, not blank, and nothing is cut off at the border."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from ciga.bench import subgraphs
from ciga.bench.chosen import Chosen
from ciga.bench.dots import same_scale
from ciga.bench.exhibit import Figure, PaperTable
from ciga.bench.figures import curves, draw
from ciga.bench.grid import Variation, configs, plans
from ciga.bench.paper import exhibit
from ciga.bench.tables import fill
from ciga.errors import CigaError, UsageError
from ciga.explain.draw import pyplot
from ciga.files import write_json
from ciga.runs.pool.executors import Inline
from ciga.runs.pool.schedule import Pool
from ciga.runs.records import Records
from tests.bench.conftest import TINY, record_of

pytest.importorskip("matplotlib", reason="matplotlib is not installed (extra: report)")
PLAIN = Variation()


def pixels(path: Path) -> Any:
    import matplotlib.image as images

    return images.imread(path)[..., :3]


def look(paths: list[Path]) -> None:
    """Both formats; ink inside, none on the border."""
    assert paths
    assert {p.suffix for p in paths} == {".svg", ".png"}
    for path in paths:
        if path.suffix == ".svg":
            text = path.read_text()
            ElementTree.fromstring(text)
            assert "<text" in text or "<path" in text
            continue
        ink = (pixels(path) < 0.7).any(-1)
        assert 0.002 < ink.mean() < 0.6
        edge = np.concatenate([ink[:2].ravel(), ink[-2:].ravel(), ink[:, :2].ravel(), ink[:, -2:].ravel()])
        assert not edge.any(), f"{path.name} is cut off"
        rows, columns = ink.any(1).nonzero()[0], ink.any(0).nonzero()[0]
        assert rows[-1] - rows[0] > 0.6 * len(ink)
        assert columns[-1] - columns[0] > 0.6 * ink.shape[1]


def fill_figure(name: str, root: Path, pick: Callable[[Any], bool] = lambda cell: True) -> Figure:
    """Records for a figure: three seeds per point, scores that fall with x."""
    shown = exhibit(name)
    assert isinstance(shown, Figure)
    for sheet in shown.pictures:
        for panel in sheet.panels:
            for place, line in enumerate(panel.lines):
                for x, cell in line.points:
                    if pick(cell):
                        for config in configs(cell, PLAIN, [1, 2, 3]):
                            value = 0.9 - 0.05 * place - 0.02 * x + 0.02 * config.seed
                            write_json(root / config.hash / "record.json", record_of(config, value))
    return shown


def test_sensitivity_curves(tmp_path: Path) -> None:
    shown = fill_figure("figure-alpha", tmp_path / "runs", lambda c: c.dataset != "nci109")
    records = Records([tmp_path / "runs"])
    first = shown.pictures[0].panels[0]
    (points,) = curves(first, Chosen(records, PLAIN)).values()
    assert [x for x, _ in points] == [0.1, 0.5, 1, 2, 3, 4, 5, 6, 7, 8]
    assert points[2][1] == pytest.approx([90.0, 92.0, 94.0])
    paths = draw(shown, records, PLAIN, tmp_path / "figures")
    assert [p.name for p in paths] == ["figure-alpha.svg", "figure-alpha.png"]
    look(paths)
    svg = paths[0].read_text()
    assert "NCI109" not in svg  # nothing of it is recorded
    assert "95 %" in svg
    assert "test ROC-AUC (%)" in svg
    # Drawn again, the same bytes: a committed figure changes only when its numbers do.
    before = [p.read_bytes() for p in paths]
    draw(shown, records, PLAIN, tmp_path / "figures")
    assert [p.read_bytes() for p in paths] == before


def test_an_extra_panel_is_drawn_once_it_is_recorded(tmp_path: Path) -> None:
    shown = exhibit("figure-beta")
    assert isinstance(shown, Figure)
    for cell in shown.cells([], ["nci1"]):
        for config in configs(cell, PLAIN, [1, 2, 3]):
            write_json(tmp_path / config.hash / "record.json", record_of(config, 0.5))
    svg = draw(shown, Records([tmp_path]), PLAIN, tmp_path)[0].read_text()
    assert "NCI1, " in svg
    assert "NCI109" not in svg
    assert "EC50" not in svg


def test_an_option_of_one_panel_is_no_mistake_in_the_others(tmp_path: Path) -> None:
    """`--data train_per_class=…` concerns SPMotif, not the other two panels."""
    shown = exhibit("figure-alpha")
    assert isinstance(shown, Figure)
    one, other = TINY.apply([c for c in shown.cells() if c.dataset == "spmotif-mixed"])[3:5]
    for config in configs(one, TINY, [1, 2]):
        write_json(tmp_path / config.hash / "record.json", record_of(config, 0.5))
    # One dot is no curve (AUDIT U7): that is said, with what to type.
    with pytest.raises(CigaError, match=r"needs two points.*ciga bench figure-alpha --quick"):
        draw(shown, Records([tmp_path]), TINY, tmp_path)
    for config in configs(other, TINY, [1, 2]):
        write_json(tmp_path / config.hash / "record.json", record_of(config, 0.5))
    assert len(draw(shown, Records([tmp_path]), TINY, tmp_path)) == 2
    with pytest.raises(UsageError, match="train_per_class"):
        draw(shown, Records([tmp_path]), Variation({"train_per_clas": "3"}), tmp_path)
    # Nor in the tables that a diagram is drawn from: here what lacks is records.
    with pytest.raises(CigaError, match="Too few runs of figure-ranks"):
        draw(exhibit("figure-ranks"), Records([tmp_path]), TINY, tmp_path)


def test_failure_study(tmp_path: Path) -> None:
    shown = fill_figure(
        "figure-failure",
        tmp_path / "runs",
        lambda c: (
            c.dataset in ("failure-struc", "failure-fiif")
            and not c.data["size_shift"]
            and c.data["bias"] in (0.33, 0.6, 0.9)
        ),
    )
    paths = draw(shown, Records([tmp_path / "runs"]), PLAIN, tmp_path)
    # The PIIF sheet without size shift shares its structural lines.
    assert sorted({p.stem for p in paths}) == ["figure-failure-fiif", "figure-failure-piif"]
    look(paths)
    svg = next(p for p in paths if p.name == "figure-failure-fiif.svg").read_text()
    for words in ("Struc-ERM", "Mixed-IRM", "7 layers", "1-2-3-GNN", "Deeper GNNs"):
        assert words in svg


def test_critical_difference_diagrams(tmp_path: Path, book: Callable[..., Records]) -> None:
    table = exhibit("table-size")
    assert isinstance(table, PaperTable)
    scores = {
        (row, column): [0.1 * place + 0.01 * number, 0.1 * place, 0.1 * place]
        for place, row in enumerate(("erm", "irm", "cnc", "ciga-v1", "ciga-v2"))
        for number, column in enumerate(("nci1", "nci109", "proteins", "dd"))
    }
    records = book(table, scores, rules=("id-val", "last"))
    paths = draw(table, records, PLAIN, tmp_path)
    assert [p.stem for p in paths] == ["table-size-scores"] * 2 + ["table-size-ranks"] * 2
    look(paths)
    svg = paths[2].read_text()
    assert "ours, 4 datasets" in svg
    assert "as printed in the paper, 4 datasets" in svg


def test_every_recorded_score_of_a_table_is_drawn(tmp_path: Path, book: Callable[..., Records]) -> None:
    """Also below what ranks need: two methods, one column, the subgraphs where they are known."""
    table = exhibit("table-spmotif")
    assert isinstance(table, PaperTable)
    scores = {("erm", "spmotif-struc-0.60"): [0.5, 0.6, 0.7], ("ciga-v1", "spmotif-struc-0.60"): [0.9]}
    records = book(table, scores, rules=("ood-val", "last"))
    paths = draw(table, records, PLAIN, tmp_path / "figures")
    assert [p.name for p in paths] == ["table-spmotif-scores.svg", "table-spmotif-scores.png"]
    look(paths)
    svg = paths[0].read_text()
    for words in (
        "Struc 0.60",
        "ERM",
        "CIGAv1",
        "test accuracy (%)",
        "fewer than three seeds",
        "in the paper",
    ):
        assert words in svg
    for words in ("Mixed 0.60", "CIGAv2", "oracle"):  # nothing of them is recorded
        assert words not in svg
    # The scale is the metric's: an interval may leave it, the picture does not.
    shown = fill(table, records, PLAIN)
    column = next(c for c in shown.columns if c.key == "spmotif-struc-0.60")
    figure, axis = pyplot().subplots()
    axis.set_xlim(-30, 130)
    same_scale([axis], [column])
    assert -5 < axis.get_xlim()[0] <= 0
    assert 100 <= axis.get_xlim()[1] < 105
    pyplot().close(figure)


def test_nothing_to_draw(tmp_path: Path) -> None:
    none = Records([tmp_path / "runs"])
    with pytest.raises(
        CigaError, match=r"Too few runs of figure-ranks are recorded.*  ciga bench figure-ranks"
    ):
        draw(exhibit("figure-ranks"), none, PLAIN, tmp_path)
    with pytest.raises(CigaError, match="No run of table-size is recorded"):
        draw(exhibit("table-size"), none, PLAIN, tmp_path)
    assert not list(tmp_path.iterdir())
    with pytest.raises(CigaError, match="ciga bench figure-beta"):
        draw(exhibit("figure-beta"), none, PLAIN, tmp_path)
    with pytest.raises(CigaError, match="ciga bench figure-subgraphs"):
        draw(exhibit("figure-subgraphs"), none, PLAIN, tmp_path)
    with pytest.raises(UsageError, match="ciga table"):
        draw(exhibit("table-datasets"), none, PLAIN, tmp_path)


def test_subgraphs_of_motifs(tmp_path: Path) -> None:
    shown = exhibit("figure-subgraphs")
    assert isinstance(shown, Figure)
    cells = [c for c in shown.cells([], ["spmotif-mixed"]) if c.data["bias"] == 0.9]
    records, small = Records([tmp_path / "runs"]), replace(TINY, data={**TINY.data, "size_shift": "false"})
    assert Pool(plans(small.apply(cells), small), records, Inline(), device="cpu").run().done == 1
    paths = draw(shown, records, small, tmp_path, datasets=["spmotif-mixed"])
    assert [p.name for p in paths] == [f"figure-subgraphs-spmotif-mixed-0.90.{s}" for s in ("svg", "png")]
    look(paths)
    svg = paths[0].read_text()
    assert svg.count(">truth<") == svg.count(">score<") == svg.count(">kept<") == 9
    # Truth in its colour, and only there; the kept edges in theirs.
    assert "#e69f00" in svg.lower()
    assert "#0072b2" in svg.lower()


def test_subgraphs_of_molecules_from_file_to_picture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("rdkit", reason="rdkit is not installed (extra: chem)")
    from ciga.data.reading import chem

    monkeypatch.setenv("CIGA_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("CIGA_CACHE", str(tmp_path / "cache"))
    smiles = ["CC(=O)Oc1ccccc1C(=O)O", "CCO", "c1ccccc1N", "CCOC(C)=O", "CC(C)O", "c1ccncc1Cl"]
    part = [
        {"smiles": text, "cls_label": i % 2, "domain_id": 1, "assay_id": 1, "reg_label": 5.0}
        for i, text in enumerate(smiles)
    ]
    content = {
        "cfg": {},
        "split": dict.fromkeys(("train", "iid_val", "ood_val", "iid_test", "ood_test"), part),
    }
    (tmp_path / "data/DrugOOD").mkdir(parents=True)
    (tmp_path / "data/DrugOOD/lbap_core_ic50_size.json").write_text(json.dumps(content))
    shown, records, short = exhibit("figure-subgraphs"), Records([tmp_path / "runs"]), replace(TINY, data={})
    cells = shown.cells([], ["drugood-ic50-size"])
    assert Pool(plans(short.apply(cells), short), records, Inline(), device="cpu").run().failed == {}
    drawn: list[Any] = []
    plain = subgraphs._draw_molecules
    monkeypatch.setattr(subgraphs, "_draw_molecules", lambda d, stem: drawn.extend(d) or plain(d, stem))
    paths = draw(shown, records, short, tmp_path, datasets=["drugood-ic50-size"])
    assert len(paths) == 4  # each class, as SVG and PNG
    for text, said, score, kept in drawn:
        assert re.fullmatch("(in)?active, predicted (in)?active", said)
        assert len(score) == len(kept) == chem.parse(text).GetNumBonds()
        assert 0 < int(kept.sum()) <= len(kept)
    assert {text for text, *_ in drawn} <= set(smiles)


def test_molecules_are_drawn_with_their_kept_bonds(tmp_path: Path) -> None:
    pytest.importorskip("rdkit", reason="rdkit is not installed (extra: chem)")
    import torch

    from ciga.bench.subgraphs import _draw_molecules

    drawn = [
        ("CC(=O)Oc1ccccc1C(=O)O", "predicted active", torch.linspace(-2, 2, 13), torch.arange(13) > 6),
        ("CCO", "predicted inactive", torch.zeros(2), torch.tensor([True, False])),
    ]
    paths = _draw_molecules(drawn, tmp_path / "molecules")
    ink = pixels(next(p for p in paths if p.suffix == ".png"))
    assert (ink < 0.5).any()
    blue = (ink[..., 2] > ink[..., 0] + 0.3).mean()
    assert blue > 0.001  # the kept bonds
    assert "predicted" in paths[0].read_text() or "<path" in paths[0].read_text()
