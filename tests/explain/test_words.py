"""Plain words: every part, feature and metric of the library has some, and files keep their names."""

from __future__ import annotations

import pytest

from ciga.data.reading.feature_names import ATOM_NAMES, BOND_NAMES
from ciga.data.reading.featurise import ATOM_FEATURES, BOND_FEATURES
from ciga.explain.words import Words, words_of


@pytest.mark.parametrize(
    ("rule", "test", "held"),
    [
        ("scaffold", "new scaffolds", "known scaffolds"),
        ("size", "larger molecules", "molecules of training size"),
        ("assay", "new assays", "known assays"),
        ("order date", "rows with higher date", "rows with date as in training"),
        ("time date", "later molecules", "molecules of the same time"),
        ("group lab", "new values of lab", "known values of lab"),
        ("cluster", "new clusters of similar molecules", "known clusters"),
        ("column:set", "held-out rows", "rows like training"),
        ("random", "shifted molecules", "molecules like training"),
    ],
)
def test_parts_are_called_by_what_they_hold(rule: str, test: str, held: str) -> None:
    words = Words.of(True, rule)
    assert (words.part("ood_test"), words.part("id_test")) == (test, held)
    assert words.part("ood_val") == f"{test} (validation)"
    assert words.part("train") == "training"
    assert words.part("mine") == "mine"


def test_a_split_from_high_to_low_says_so() -> None:
    assert Words.of(True, "size", descending=True).part("ood_test") == "smaller molecules"
    assert Words.of(False, "order year", descending=True).part("ood_test") == "rows with lower year"


def test_the_rule_is_found_in_the_notes_the_name_or_the_dataset() -> None:
    assert words_of({"dataset": "csv"}, True, {"split": "scaffold"}).new == "new scaffolds"
    assert words_of({"dataset": "drugood-ec50-assay"}, True, {}).new == "new assays"
    assert words_of({"dataset": "proteins"}, False, {}).new == "larger graphs"
    assert words_of({"dataset": "graph-twitter"}, False, {}).new == "graphs of another density"
    assert words_of({"dataset": "spmotif-struc"}, False, {}).new == "shifted graphs"
    assert words_of({}, False, {}).new == "shifted graphs"


def test_every_feature_of_a_molecule_has_a_name() -> None:
    assert (len(ATOM_NAMES), len(BOND_NAMES)) == (ATOM_FEATURES, BOND_FEATURES)
    assert len({*ATOM_NAMES, *BOND_NAMES}) == ATOM_FEATURES + BOND_FEATURES
    words = Words.of(True, "scaffold")
    assert words.feature("x[1]") == "carbon atom"
    assert words.feature("x[30]") == "aromatic atom"
    assert words.feature("edge_attr[5]") == "bond in a ring"
    assert words.feature("x[99]") == "atom feature 99"
    assert words.feature("edges") == "number of bonds"
    assert Words.of(False, "").feature("x[1]") == "node feature 1"


def test_sentences_lose_their_short_names() -> None:
    words = Words.of(True, "scaffold")
    said = words.sentence(
        "3 graphs of ood_val are also in train; x[30] differs, 2 columns of edge_attr are constant."
    )
    assert said == (
        "3 molecules of “new scaffolds (validation)” are also in the training data; "
        "aromatic atom differs, 2 bond features are constant."
    )
    assert words.sentence("1 column of edge_attr is constant.") == "1 bond feature is constant."
    assert words.closed("ciga-v2", [30]) == (
        "ciga-v2 ignores 1 atom feature (closed by gates in every training run): aromatic atom."
    )
    assert words.unlike("size, features") == "its size, its atoms and bonds"
    assert words.titled("ood_test of train.csv") == "new scaffolds of train.csv"
    assert words.titled("ood_test.csv") == "ood_test.csv"
    assert (words.count(1), words.count(1513)) == ("1 molecule", "1,513 molecules")
