"""Rules that cut one table of graphs into parts: at random, by order, by group, or as a column says.

Every rule returns `{split name: row numbers}`. A cut along something (size, degree, time, scaffold) makes
shifted parts, `ood_val` and `ood_test`; a random one makes parts drawn alike, `id_val` and `id_test`.
Rows that are equal in what is cut along always stay together, so no value stands on both sides of a cut.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from ciga.errors import CigaError, UsageError
from ciga.progress import Progress, silent

Rows = NDArray[np.int64]
Parts = dict[str, Rows]
Values = Sequence[Any] | NDArray[Any]

ID_NAMES = ("train", "id_val", "id_test")
OOD_NAMES = ("train", "ood_val", "ood_test")

#: What people write in a column that names the split. Unless told, another part is a shifted one.
SPLIT_WORDS = {
    "train": "train", "training": "train", "tr": "train",
    "val": "ood_val", "valid": "ood_val", "validation": "ood_val", "dev": "ood_val",
    "test": "ood_test", "testing": "ood_test",
    "id_val": "id_val", "iid_val": "id_val", "ood_val": "ood_val",
    "id_test": "id_test", "iid_test": "id_test", "ood_test": "ood_test",
}  # fmt: skip


def check_fractions(fractions: Sequence[float]) -> tuple[float, float, float]:
    """The shares of train, validation and test, adding up to one; validation or test may be 0."""
    shares = tuple(float(f) for f in fractions)
    if len(shares) != 3:
        raise UsageError(f"fractions takes three numbers (train,validation,test), not {len(shares)}.")
    if not all(0 <= s <= 1 for s in shares) or abs(sum(shares) - 1) > 1e-6:
        raise UsageError(f"fractions={','.join(map(str, fractions))}: they must lie in 0…1 and add up to 1.")
    if shares[0] == 0:
        raise UsageError("fractions leaves nothing to train on: the first number must be above 0.")
    return shares[0], shares[1], shares[2]


def by_random(count: int, fractions: Sequence[float], seed: int, labels: Values | None = None) -> Parts:
    """`count` rows at random; with `labels` each class is spread over the parts in proportion.

    Args:
        count: The number of rows.
        fractions: The shares of train, validation and test.
        seed: Of the permutation.
        labels: The class of each row, if classes are to be spread.
    """
    order = np.random.default_rng(seed).permutation(count)
    if labels is not None:
        _, code = np.unique(np.asarray(labels)[order], return_inverse=True)
        # The j-th of n rows of a class stands at (j + 1/2) / n of the way: a cut takes its share of each.
        sizes = np.bincount(code, minlength=1)
        grouped = np.argsort(code, kind="stable")
        rank = np.empty(count)
        rank[grouped] = np.arange(count) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        order = order[np.argsort((rank + 0.5) / sizes[code], kind="stable")]
    return _cut(order, np.arange(count), fractions, ID_NAMES, "row")


def by_order(
    values: Values, fractions: Sequence[float], descending: bool = False, column: str | None = None
) -> Parts:
    """The lowest values to train, the highest to test.

    Args:
        values: What the rows are ordered by.
        fractions: The shares of train, validation and test.
        descending: The highest to train, the lowest to test instead.
        column: Where the values stand, for the error when there are too few.
    """
    _, rank = np.unique(np.asarray(values), return_inverse=True)
    rank = -rank if descending else rank
    order = np.argsort(rank, kind="stable")
    return _cut(order, rank[order], fractions, OOD_NAMES, "different value", column)


def by_size(nodes: Tensor, fractions: Sequence[float], descending: bool = False) -> Parts:
    """By number of nodes, [G]: small graphs to train, large ones to test."""
    return by_order(nodes.numpy(), fractions, descending)


def by_degree(nodes: Tensor, edges: Tensor, fractions: Sequence[float], descending: bool = False) -> Parts:
    """By average degree (directed edges per node), both counts [G]: sparse to train, dense to test.

    Args:
        nodes: Of each graph.
        edges: Of each graph.
        fractions: The shares of train, validation and test.
        descending: Dense graphs to train instead.
    """
    return by_order((edges.double() / nodes.clamp(min=1)).numpy(), fractions, descending)


def by_group(groups: Sequence[str], fractions: Sequence[float], seed: int = 0, what: str = "group") -> Parts:
    """Whole groups: the largest to train, the rarest to test.

    Args:
        groups: The group of each row.
        fractions: The shares of train, validation and test.
        seed: Orders groups of equal size.
        what: What a group is called, for the error when there are too few.
    """
    _, code, sizes = np.unique(np.asarray(groups), return_inverse=True, return_counts=True)
    shuffled = np.random.default_rng(seed).permutation(len(sizes))
    by_frequency = shuffled[np.argsort(-sizes[shuffled], kind="stable")]
    place = np.empty_like(by_frequency)
    place[by_frequency] = np.arange(len(sizes))
    rank = place[code]
    order = np.argsort(rank, kind="stable")
    return _cut(order, rank[order], fractions, OOD_NAMES, what)


def by_whole_groups(
    groups: Sequence[str] | Rows,
    fractions: Sequence[float],
    seed: int = 0,
    what: str = "group",
    column: str | None = None,
) -> Parts:
    """Whole groups dealt out at random: assays, projects, vendors, clusters of like molecules.

    A group that is larger than the share of validation or test stays in training.

    Args:
        groups: The group of each row.
        fractions: The shares of train, validation and test.
        seed: Of the order in which groups are dealt.
        what: What a group is called, for the error when there are too few.
        column: Where the groups stand, for the same.
    """
    _, code, sizes = np.unique(np.asarray(groups), return_inverse=True, return_counts=True)
    held_out = [share for share in check_fractions(fractions)[1:] if share > 0]
    large = sizes > min(held_out, default=1.0) * len(code)
    shuffled = np.random.default_rng(seed).permutation(len(sizes))
    place = np.empty_like(shuffled)
    place[shuffled[np.argsort(~large[shuffled], kind="stable")]] = np.arange(len(sizes))
    rank = place[code]
    order = np.argsort(rank, kind="stable")
    return _cut(order, rank[order], fractions, OOD_NAMES, what, column)


def by_cluster(
    smiles: Sequence[str], fractions: Sequence[float], tanimoto: float, seed: int, progress: Progress = silent
) -> Parts:
    """By clusters of like molecules, dealt whole: a cluster stands on one side of the cut.

    Args:
        smiles: The molecules.
        fractions: The shares of train, validation and test.
        tanimoto: How similar the members of a cluster are to its centre, at least.
        seed: Of the order in which clusters are dealt.
        progress: Told how far it is.
    """
    from ciga.data.reading.similarity import clusters, fingerprints

    return by_whole_groups(
        clusters(fingerprints(smiles, progress), tanimoto, progress), fractions, seed, "cluster"
    )


def by_similarity(
    smiles: Sequence[str], fractions: Sequence[float], tanimoto: float, seed: int, progress: Progress = silent
) -> Parts:
    """So that no molecule of one part is as similar as `tanimoto` to a molecule of another.

    Molecules that a chain of similar ones connects stay together, in training if they are many.

    Args:
        smiles: The molecules.
        fractions: The shares of train, validation and test.
        tanimoto: All similarities between parts lie below this.
        seed: Of the order in which connected molecules are dealt.
        progress: Told how far it is.
    """
    from ciga.data.reading.similarity import components, fingerprints

    group = components(fingerprints(smiles, progress), tanimoto, progress)
    largest = np.bincount(group).max(initial=0) / max(len(group), 1)
    if largest > check_fractions(fractions)[0] + 0.1 * (1 - largest) and largest > 0.5:
        raise CigaError(
            f"{largest:.0%} of the molecules are connected by similarities of {tanimoto:g} or more: too few "
            f"are left to hold out. Take a higher value, such as tanimoto={min(tanimoto + 0.1, 0.95):.2f}."
        )
    return by_whole_groups(group, fractions, seed, "group of connected molecules")


def by_scaffold(
    smiles: Sequence[str],
    fractions: Sequence[float],
    seed: int = 0,
    progress: Progress = silent,
    workers: int | None = None,
) -> Parts:
    """By Murcko scaffold: frequent scaffolds to train, rare ones to test.

    Args:
        smiles: The molecules.
        fractions: The shares of train, validation and test.
        seed: Orders scaffolds that are equally frequent.
        progress: Told how far it is.
        workers: The number of processes; None: as many as pay.
    """
    from ciga.data.reading.featurise import scaffolds

    return by_group(scaffolds(smiles, progress, workers), fractions, seed, "scaffold")


def by_column(values: Sequence[str]) -> tuple[Parts, list[int]]:
    """As the words in `values` say (`SPLIT_WORDS`, any case), and the rows whose word means nothing."""
    names = [SPLIT_WORDS.get(v.strip().lower().replace("-", "_").replace(" ", "_")) for v in values]
    parts: dict[str, list[int]] = {}
    bad = []
    for row, name in enumerate(names):
        if name is None:
            bad.append(row)
        else:
            parts.setdefault(name, []).append(row)
    return {name: np.asarray(rows, dtype=np.int64) for name, rows in parts.items()}, bad


def hold_out(parts: Parts, share: float, seed: int, labels: Values | None = None) -> Parts:
    """Take a random `share` of `train` as `id_val` (nothing when it is 0).

    Args:
        parts: The parts so far.
        share: Of the training rows.
        seed: Of the choice.
        labels: The class of each row, to be spread in proportion.
    """
    if share == 0:
        return parts
    if not 0 < share < 1:
        raise UsageError(
            f"id_val={share}: the share of the training rows to hold out must lie between 0 and 1."
        )
    if "id_val" in parts:
        raise UsageError("This split has an id_val already: leave id_val at 0.")
    train = parts["train"]
    inner = by_random(
        len(train), (1 - share, share, 0), seed, None if labels is None else np.asarray(labels)[train]
    )
    return {**parts, "train": train[inner["train"]], "id_val": train[inner["id_val"]]}


def _cut(
    order: Rows,
    rank: NDArray[Any],
    fractions: Sequence[float],
    names: Sequence[str],
    what: str,
    column: str | None = None,
) -> Parts:
    """Cut `order` where `rank` (in that order) changes, as near to the fractions as that allows.

    Every part with a share above 0 gets at least one row.
    """
    shares = check_fractions(fractions)
    wanted = [(name, share) for name, share in zip(names, shares, strict=True) if share > 0]
    total = len(order)
    # Where a cut may be: at the start, after each run of equal ranks (the last one ends at `total`).
    edges = (
        np.concatenate([[0], np.flatnonzero(np.diff(rank)) + 1, [total]]) if total else np.zeros(1, dtype=int)
    )
    if len(edges) - 1 < len(wanted):
        raise CigaError(_too_few(len(edges) - 1, what, column, len(wanted)))
    cuts, last = [0], 0
    for done, target in enumerate(np.cumsum([share for _, share in wanted])[:-1] * total):
        # At least one run for this part, and one for each part still to come.
        allowed = np.arange(last + 1, len(edges) - (len(wanted) - 1 - done))
        last = int(allowed[np.argmin(np.abs(edges[allowed] - target))])
        cuts.append(int(edges[last]))
    cuts.append(total)
    return {
        name: np.sort(order[start:stop]).astype(np.int64)
        for (name, _), start, stop in zip(wanted, cuts, cuts[1:], strict=False)
    }


def _too_few(count: int, what: str, column: str | None, parts: int) -> str:
    """Why `count` groups, or whatever is dealt out, do not make two or three parts."""
    one, of, rest = what.partition(" of ")
    found = ("no", "only one", "only two")[count] + f" {one}{'s' * (count != 1)}{of}{rest}"
    where = f"Column '{column}' has" if column else "There is" if count == 1 else "There are"
    least = ("one", "two", "three")[parts - 1]
    needs = (
        f"a part needs at least {least}"
        if parts == 1
        else f"a split into {least} parts needs at least {least}"
    )
    fewer = ", or set a fraction to 0 (fractions=0.8,0,0.2)" if count == 2 else ""
    return f"{where} {found}, and {needs}: take another split rule{fewer}."
