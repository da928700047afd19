"""The paper's theorems, lemma and linear example, on worlds that are enumerated exactly."""

from __future__ import annotations

from itertools import product
from math import log2
from pathlib import Path

import numpy as np
import pytest

from ciga.bench.theory import (
    KINDS,
    accepted_angles,
    count_violations,
    featurizers,
    make_world,
    share_that_generalises,
    solutions_v1,
    solutions_v2,
)
from ciga.bench.theory.linear import ANGLES, FLIP, TRAINING, risks
from ciga.bench.theory.world import CAUSE, SPURIOUS, World


def slow_information(world: World, a: list[int], b: list[int]) -> float:
    """I(A; B) by its definition: sum of p(a, b) log p(a, b) / p(a) p(b)."""
    pa: dict[tuple[int, ...], float] = {}
    pb: dict[tuple[int, ...], float] = {}
    pab: dict[tuple[tuple[int, ...], tuple[int, ...]], float] = {}
    for place in product(*map(range, world.joint.shape)):
        p = float(world.joint[place])
        va, vb = tuple(place[i] for i in a), tuple(place[i] for i in b)
        pa[va] = pa.get(va, 0.0) + p
        pb[vb] = pb.get(vb, 0.0) + p
        pab[va, vb] = pab.get((va, vb), 0.0) + p
    return sum(p * log2(p / (pa[va] * pb[vb])) for (va, vb), p in pab.items() if p > 0)


@pytest.mark.parametrize("kind", KINDS)
def test_a_world_is_a_distribution_of_its_kind(kind: str) -> None:
    world = make_world(kind, label_noise=0.2)
    assert world.joint.sum() == pytest.approx(1)
    assert world.information(CAUSE, ["e"]) == pytest.approx(0), "the cause does not know the environment"
    assert world.information(CAUSE, ["y"]) == pytest.approx(slow_information(world, [0, 1], [4]))
    assert world.information(SPURIOUS, ["y"]) == pytest.approx(slow_information(world, [2, 3], [4]))
    fully_informative = world.information([*SPURIOUS, "e"], ["y"], CAUSE)
    assert (fully_informative < 1e-12) == (kind == "FIIF"), "(S, E) tells nothing of Y given C in FIIF alone"


@pytest.mark.parametrize("kind", KINDS)
def test_partners_drawn_by_their_label_make_the_contrast_vacuous(kind: str) -> None:
    for world in (make_world(kind), make_world(kind, label_noise=0.2)):
        assert max(abs(f.contrast) for f in featurizers(world, "label")) < 1e-9


def test_by_label_the_spurious_part_can_win() -> None:
    world = make_world("PIIF", label_noise=0.1)
    assert [f.kept for f in solutions_v1(world, 2, "label")] == [SPURIOUS]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("noise", [0.0, 0.1, 0.3])
def test_theorem_one_holds_with_the_known_size_and_fails_with_another(kind: str, noise: float) -> None:
    world = make_world(kind, label_noise=noise)
    assert [f.kept for f in solutions_v1(world, 2)] == [CAUSE]
    assert not any(f.is_cause for f in solutions_v1(world, 1))
    assert not all(f.is_cause for f in solutions_v1(world, 3))


@pytest.mark.parametrize(
    ("kind", "noise", "holds"),
    [
        ("FIIF", 0.0, True),
        ("FIIF", 0.3, True),
        ("PIIF", 0.0, True),
        ("PIIF", 0.1, False),
        ("MIIF", 0.0, True),
        ("MIIF", 0.1, True),
        ("MIIF", 0.3, False),
    ],
)
def test_theorem_two_holds_where_the_lemma_does(kind: str, noise: float, holds: bool) -> None:
    world = make_world(kind, label_noise=noise)
    assert (world.information(CAUSE, ["y"]) >= world.information(SPURIOUS, ["y"])) == holds
    assert ([f.kept for f in solutions_v2(world)] == [CAUSE]) == holds


def test_the_lemma_needs_fiif_or_a_label_without_noise() -> None:
    counts = {(c.kind, c.label_noise): c for c in count_violations(100)}
    for kind in KINDS:
        assert counts[kind, False].violated == 0
        assert all(gap > -1e-9 for gap in counts[kind, False].gap)
    assert counts["FIIF", True].violated == 0
    assert counts["PIIF", True].violated > 10
    assert counts["MIIF", True].violated > 10


def test_erm_and_irm_accept_classifiers_that_fail() -> None:
    accepted = accepted_angles()
    assert accepted[np.abs(ANGLES).argmin()], "the invariant classifier is among them"
    for sizes in TRAINING:
        assert risks(sizes, 1.0)[accepted] == pytest.approx(FLIP)
    shares = [share_that_generalises(largest) for largest in (2, 4, 8, 16)]
    assert shares == sorted(shares, reverse=True)
    assert shares[-1] < 0.15
    worst = accepted & (ANGLES[accepted].max() == ANGLES)
    assert risks((3.0, 4.0), -1.0)[worst] == pytest.approx(1 - FLIP), "and the worst is wrong nearly always"


def test_the_picture_is_drawn(tmp_path: Path) -> None:
    from ciga.bench.theory.picture import draw_theory

    paths = draw_theory(tmp_path)
    assert sorted(p.suffix for p in paths) == [".png", ".svg"]
    assert "of 500 below 0" in next(p for p in paths if p.suffix == ".svg").read_text(encoding="utf-8")
