"""What a mechanism draws agrees with what was asked for, within five standard deviations."""

from __future__ import annotations

import numpy as np
import pytest

from ciga.data.datasets.mechanism import Factor, Mechanism, fiif, miif, piif
from ciga.errors import UsageError

N, K = 30_000, 3


def draw(mechanism, seed=0, environments=1, **sizes):
    row = np.arange(N)
    env = row // K % environments
    return mechanism.sample(row % K, env, np.random.default_rng(seed), classes=K, **sizes), env


def assert_share(hits, expected):
    """The share of `hits` lies within five standard deviations of `expected`."""
    sigma = np.sqrt(expected * (1 - expected) / hits.size)
    assert abs(hits.mean() - expected) <= 5 * sigma + 1e-12, (hits.mean(), expected, hits.size)


@pytest.mark.parametrize("bias", [0.0, 0.33, 0.9, 1.0])
def test_fiif_follows_the_cause_in_every_factor_and_class(bias):
    got, _ = draw(fiif(bias))
    assert (got.label == got.cause).all()
    for factor in (got.structure, got.attribute, got.size):
        for c in range(K):
            of_class = factor[got.cause == c]
            for value in range(K):
                assert_share(of_class == value, bias if value == c else (1 - bias) / (K - 1))


def test_fiif_noise_in_the_label_is_unseen_by_the_spurious_part():
    got, _ = draw(fiif(0.8, noise=0.3))
    flipped = got.label != got.cause
    assert_share(flipped, 0.3)
    # (S, E) is independent of Y given C: S agrees with C as often where the label was flipped as where not.
    assert_share((got.structure == got.cause)[flipped], 0.8)
    assert_share((got.structure == got.cause)[~flipped], 0.8)


def test_piif_follows_the_noisy_label():
    got, _ = draw(piif(0.8, noise=0.3))
    flipped = got.label != got.cause
    assert_share(flipped, 0.3)
    for other in (1, 2):
        assert_share(((got.label - got.cause) % K)[flipped] == other, 0.5)
    for factor in (got.structure, got.attribute, got.size):
        assert_share((factor == got.label)[flipped], 0.8)
        assert_share((factor == got.label)[~flipped], 0.8)
        # Where the label is not the cause's, S agrees with the cause only by chance.
        assert_share((factor == got.cause)[flipped], 0.1)


def test_miif_mixes_the_two():
    got, _ = draw(miif(0.9, 0.2, label_bias=0.6, size="none"))
    flipped = got.label != got.cause
    assert_share((got.structure == got.cause)[flipped], 0.9)
    assert_share((got.structure == got.label)[flipped], 0.05)
    assert_share((got.attribute == got.label)[flipped], 0.6)
    assert_share((got.attribute == got.cause)[flipped], 0.2)
    assert_share(got.size == got.cause, 1 / K)


def test_each_environment_has_its_own_strength():
    strengths = [0.5, 0.7, 0.95]
    got, env = draw(fiif(strengths), environments=3)
    for e, strength in enumerate(strengths):
        assert_share((got.structure == got.cause)[env == e], strength)


def test_factors_are_independent_of_each_other_given_their_parent():
    got, _ = draw(fiif(0.7))
    assert_share((got.structure == got.cause) & (got.attribute == got.cause), 0.49)


def test_other_numbers_of_values():
    got, _ = draw(fiif(0.6), structures=5, attributes=2, sizes=1)
    assert set(got.structure) == set(range(5))
    assert_share(got.structure == got.cause, 0.6)
    assert_share((got.structure == 4)[got.cause == 0], 0.1)
    assert_share(got.attribute == got.cause % 2, 0.6)
    assert (got.size == 0).all()


def test_unbiased_keeps_the_labelling_and_drops_the_shortcut():
    got, _ = draw(piif(0.9, 0.1).unbiased())
    assert_share(got.label != got.cause, 0.1)
    for factor in (got.structure, got.attribute, got.size):
        assert_share(factor == got.label, 1 / K)


def test_same_seed_same_draw():
    one, two, other = (draw(miif(0.7, 0.1), seed)[0] for seed in (4, 4, 5))
    for name in ("label", "structure", "attribute", "size"):
        assert (getattr(one, name) == getattr(two, name)).all()
    assert (one.attribute != other.attribute).any()


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: fiif(1.1), "bias=1.1"),
        (lambda: fiif(-0.1), "between 0 and 1"),
        (lambda: fiif(float("nan")), "bias=nan"),
        (lambda: fiif([0.5, 2.0]), "bias=2.0"),
        (lambda: fiif([]), "bias is needed"),
        (lambda: piif(0.5, 1.5), "noise=1.5"),
        (lambda: piif(0.5, -1), "noise=-1"),
        (lambda: miif(0.5, 0.1, structure="fiiff"), "Did you mean fiif"),
        (lambda: Factor("cause"), "no kind of spurious factor"),
    ],
)
def test_bad_arguments(make, words):
    with pytest.raises(UsageError, match=words):
        make()


def test_bad_samples():
    rng = np.random.default_rng(0)
    with pytest.raises(UsageError, match="2 biases"):
        fiif([0.5, 0.6]).sample([0, 1], [0, 2], rng, classes=2)
    with pytest.raises(UsageError, match="from 0 to 1"):
        Mechanism().sample([0, 2], [0, 0], rng, classes=2)
    with pytest.raises(UsageError, match="one number per graph"):
        Mechanism().sample([0, 1], [0], rng, classes=2)
    with pytest.raises(UsageError, match="at least one value"):
        Mechanism().sample([0, 1], [0, 0], rng, classes=2, sizes=0)
    assert Mechanism().sample([], [], rng, classes=2).label.size == 0
