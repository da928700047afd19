"""What the README says of its first example is true."""

from __future__ import annotations

import ciga

NETWORK = {"conv": "sage", "readout": "mean", "walks": 8, "node_features": False, "epochs": 15}


def test_the_first_example_learns_and_plain_erm_does_not_hold_up() -> None:
    splits = ciga.load("spmotif-struc", bias=0.6, train_per_class=300, val_per_class=50, test_per_class=50)
    train, test = splits.train.to_pyg(), splits["ood_test"].to_pyg()
    labels, truth = [int(g.y) for g in train], [int(g.y) for g in test]
    invariant = ciga.GraphOODClassifier("ciga-v1", classifier_input="raw", budget="count", size=8, **NETWORK)
    plain = ciga.GraphOODClassifier("erm", **NETWORK)
    assert invariant.fit(train, labels).score(test, truth) > 0.85
    assert plain.fit(train, labels).score(test, truth) < 0.75
