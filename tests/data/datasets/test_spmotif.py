"""Motifs on bases: the right shapes, the right shares, the right sizes, nothing twice."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
import torch

from ciga.data import load
from ciga.data.dataset import make
from ciga.data.datasets.motifs import BASES, MOTIFS, Shape, plant, shapes
from ciga.errors import UsageError

SMALL = {"train_per_class": 400, "val_per_class": 150, "test_per_class": 150}
MOTIF = {"cycle": nx.cycle_graph(5), "house": nx.house_graph(), "crane": nx.complete_bipartite_graph(2, 3)}
MORE = {"hexagon": nx.cycle_graph(6), "star": nx.star_graph(4), "clique": nx.complete_graph(5)}


def graph_of(store, row):
    """Graph `row` as a networkx graph, edges marked with their truth; fails on a duplicate or a loop."""
    out = nx.Graph()
    out.add_nodes_from(range(int(store.num_nodes[row])))
    at = slice(int(store.edge_ptr[row]), int(store.edge_ptr[row + 1]))
    seen = set()
    for u, v, truth in zip(*store.edge_index[:, at].tolist(), store.edge_truth[at].tolist(), strict=True):
        assert u != v
        assert (u, v) not in seen
        seen.add((u, v))
        out.add_edge(u, v, truth=truth)
    return out


def motif_of(graph):
    return nx.Graph((u, v) for u, v, truth in graph.edges(data="truth") if truth)


def assert_share(hits, expected):
    sigma = np.sqrt(expected * (1 - expected) / len(hits))
    assert abs(float(hits.float().mean()) - expected) <= 5 * sigma + 1e-12


@pytest.fixture(scope="module")
def clean():
    return load("spmotif-struc", bias=0.9, **SMALL)


@pytest.fixture(scope="module")
def paper():
    """Full size: its statistics are compared with the published data's."""
    return load("spmotif-struc", bias=0.6, variant="paper")


def test_shapes_are_what_their_names_say():
    for name, wanted in {**MOTIF, **MORE}.items():
        got = MOTIFS[name]
        graph = nx.Graph(got.edges.T.tolist())
        assert nx.is_isomorphic(graph, wanted), name
        assert got.edges.shape[1] == wanted.number_of_edges()
        assert (got.edges[0] < got.edges[1]).all()
    by_hand = {
        "tree": nx.balanced_tree(3, 2),
        "ladder": nx.ladder_graph(6),
        "wheel": nx.wheel_graph(9),
        "path": nx.path_graph(9),
        "ring": nx.cycle_graph(9),
    }
    for name, parameters in {
        "tree": (3, 2),
        "ladder": (6,),
        "wheel": (9,),
        "path": (9,),
        "ring": (9,),
    }.items():
        got = BASES[name].make(*parameters)
        graph = nx.Graph(got.edges.T.tolist())
        assert got.nodes == by_hand[name].number_of_nodes()
        assert got.edges.shape[1] == by_hand[name].number_of_edges()
        assert nx.is_isomorphic(graph, by_hand[name]), name
    assert BASES["tree"].make(2, 0).nodes == 1


@pytest.mark.parametrize("variant", ["clean", "paper"])
def test_every_graph_is_one_motif_on_one_base(variant):
    splits = load("spmotif-struc", bias=0.5, variant=variant, **SMALL)
    for split in splits:
        store = splits[split]
        assert set(store.columns["motif"].tolist()) == set(store.columns["base"].tolist()) == {0, 1, 2}
        for row in range(60):
            graph = graph_of(store, row)
            assert nx.is_connected(graph)
            name = splits.task.class_names[int(store.y[row])]
            motif = motif_of(graph)
            assert nx.is_isomorphic(motif, MOTIF[name])
            base_nodes = len(graph) - 5
            assert set(motif) == set(range(base_nodes, base_nodes + 5))
            # Without the motif: a member of the base's family, joined by one edge, and the extra edges.
            own = graph.number_of_edges() - motif.number_of_edges()
            family = ["tree", "ladder", "wheel"][int(store.columns["base"][row])]
            base = {
                "tree": base_nodes - 1,
                "ladder": 3 * (base_nodes // 2) - 2,
                "wheel": 2 * (base_nodes - 1),
            }
            planted = base[family] + 1 + motif.number_of_edges()
            # A random edge that fell into the motif was dropped, which is rare: two at most here.
            assert 0 <= base[family] + 1 + int(0.05 * planted) - own <= 2


#: The released data: each motif's edges, with node 0 joined to the base.
RELEASED = {
    "cycle": {(0, 1), (0, 4), (1, 2), (2, 3), (3, 4)},
    "house": {(0, 1), (0, 4), (1, 2), (1, 4), (2, 3), (3, 4)},
    "crane": {(0, 1), (0, 3), (1, 2), (1, 4), (2, 3), (3, 4)},
}


@pytest.mark.parametrize("variant", ["clean", "paper"])
@pytest.mark.parametrize("name", ["spmotif-struc", "spmotif-mixed", "failure-struc", "failure-piif"])
def test_joined_graphs_are_the_released_ones_numbers_included(name, variant):
    """Without extra edges a graph is base, motif and one edge: its list of edges can be written by hand."""
    splits = load(
        name, variant=variant, extra_edges=0, bias=0.4, train_nodes="15,16",
        train_per_class=30, val_per_class=1, test_per_class=1,
    )  # fmt: skip
    bases = {
        ("tree", 15): {((i - 1) // 2, i) for i in range(1, 15)},
        ("ladder", 16): {(i, i + 1) for i in range(15) if i != 7} | {(i, i + 8) for i in range(8)},
        ("wheel", 15): {(0, i) for i in range(1, 15)} | {(i, i + 1) for i in range(1, 14)} | {(1, 14)},
        ("wheel", 16): {(0, i) for i in range(1, 16)} | {(i, i + 1) for i in range(1, 15)} | {(1, 15)},
    }
    store, seen = splits.train, set()
    for row in range(len(store)):
        motif = splits.task.class_names[int(store.columns["motif"][row])]
        base = ("tree", "ladder", "wheel")[int(store.columns["base"][row])]
        nodes = int(store.num_nodes[row]) - 5
        at = slice(int(store.edge_ptr[row]), int(store.edge_ptr[row + 1]))
        ends = [tuple(e) for e in store.edge_index[:, at].T.tolist()]
        own = {e for e, true in zip(ends, store.edge_truth[at].tolist(), strict=True) if true}
        forward = {e for e in ends if e[0] < e[1]}
        assert {(u - nodes, v - nodes) for u, v in own if u < v} == RELEASED[motif]
        rest = forward - own - bases[base, nodes]
        assert len(rest) == 1
        (joined,) = rest
        assert joined[0] < nodes
        assert joined[1] == nodes, "node 0 of the motif is the joined one"
        assert forward == bases[base, nodes] | own & forward | rest
        backward = {(v, u) for u, v in forward} if variant == "clean" else set()
        assert len(ends) == len(forward) + len(backward)
        assert set(ends) == forward | backward
        seen.add((motif, base))
    assert len(seen) == 9


def test_every_node_of_the_base_is_as_likely_to_carry_the_motif():
    """A wheel whose motif always hung on the hub, say, would be another dataset."""
    bases, zero = shapes("wheel", ((6,), (9,))), np.zeros(6000, dtype=np.int64)
    which = np.arange(6000) % 2
    got = plant(bases, [MOTIFS["house"]], which, zero, np.random.default_rng(0), extra=0, both_ways=False)
    for kind, nodes in enumerate((6, 9)):
        joined = []
        for row in np.flatnonzero(which == kind):
            ends = got.edge_index[:, got.edge_ptr[row] : got.edge_ptr[row + 1]]
            joined += [u for u, v in ends.T.tolist() if u < nodes <= v]
        assert len(joined) == 3000
        share = np.bincount(joined, minlength=nodes) / 3000
        assert np.abs(share - 1 / nodes).max() < 5 * np.sqrt(1 / nodes / 3000)


def test_random_edges_inside_the_motif_are_dropped_and_not_redrawn():
    """A lone node with a path of five on it: four of the ten free pairs lie outside the motif."""
    lone = Shape(1, np.zeros((2, 0), dtype=np.int64))
    line = Shape(5, np.array([[0, 1, 2, 3], [1, 2, 3, 4]]))
    zero = np.zeros(2000, dtype=np.int64)
    got = plant([lone], [line], zero, zero, np.random.default_rng(0), extra=0.2, both_ways=False)
    added = np.diff(got.edge_ptr) - 5
    assert set(added.tolist()) == {0, 1}
    assert abs(added.mean() - 4 / 10) < 5 * np.sqrt(0.24 / 2000)


def test_random_edges_are_a_share_of_all_edges_the_motifs_included():
    """A line of 95 nodes, a house and the edge between them have 101: five more, not the four of 95."""
    zero = np.zeros(300, dtype=np.int64)
    line = [BASES["path"].make(95)]
    got = plant(line, [MOTIFS["house"]], zero, zero, np.random.default_rng(0), extra=0.05, both_ways=False)
    added = np.diff(got.edge_ptr) - (94 + 6 + 1)
    assert added.max() == 5
    assert (added == 5).mean() > 0.9  # the others lost one that fell into the motif


def test_runs_on_the_corrected_graphs_have_another_hash():
    """Records made on the graphs of the first edition are not taken for runs on these."""
    from dataclasses import replace

    from ciga.runs.plan import plan

    config = plan("spmotif-struc", "erm").config
    assert config.identity == {"graphs": "motifs-2"}
    assert replace(config, identity={}).hash != config.hash


def test_clean_stores_both_directions_and_paper_one(clean, paper):
    for split in clean:
        store = clean[split]
        graph = torch.arange(len(store)).repeat_interleave(store.num_edges)
        u, v = store.edge_index.long()
        key, back = (graph * 1000 + u) * 1000 + v, (graph * 1000 + v) * 1000 + u
        assert torch.equal(key.sort().values, back.sort().values)
        assert key.unique().numel() == key.numel()
        # the two directions of an edge agree on whether they are the motif's
        assert torch.equal(store.edge_truth[key.argsort()], store.edge_truth[back.argsort()])
    for split in paper:
        u, v = paper[split].edge_index
        assert bool((u < v).all())


def test_the_edges_between_two_nodes_of_the_motif_are_the_motifs_own(clean, paper):
    """In particular no random edge lies there, which would turn one motif into another."""
    for splits in (clean, paper):
        for split in splits:
            store = splits[split]
            base_nodes = (store.num_nodes - 5).repeat_interleave(store.num_edges)
            inside = (store.edge_index >= base_nodes).all(0)
            assert torch.equal(inside, store.edge_truth)


def test_bias_in_training_and_none_outside():
    splits = load("spmotif-mixed", bias=0.9, train_per_class=1500, val_per_class=1000, test_per_class=1000)
    for split in splits:
        store = splits[split]
        assert torch.equal(store.y, store.columns["motif"])
        assert store.y.bincount().unique().numel() == 1
        for column in ("base", "attribute"):
            values = store.columns[column]
            for c in range(3):
                of_class = values[store.y == c]
                for value in range(3):
                    agreed = 0.9 if value == c else 0.05
                    assert_share(of_class == value, 1 / 3 if split.startswith("ood") else agreed)


def test_features(clean):
    x = clean.train.x
    assert x.shape[1] == 4
    assert x.min() >= 0
    assert x.max() < 1
    assert abs(float(x.mean()) - 0.5) < 0.01
    mixed = load("spmotif-mixed", **SMALL).train
    of_node = mixed.columns["attribute"].repeat_interleave(mixed.num_nodes)
    assert torch.equal(mixed.x, of_node.float().unsqueeze(1).expand(-1, 4))


def test_paper_variant_has_the_published_sizes(paper):
    published = {"train": (23.1, 33.1, 0.22), "ood_val": (26.3, 36.4, 0.17), "ood_test": (88.7, 130.6, 0.07)}
    for split, (nodes, edges, motif) in published.items():
        store = paper[split]
        assert store.stats()["nodes_mean"] == pytest.approx(nodes, rel=0.02)
        assert store.stats()["edges_mean"] == pytest.approx(edges, rel=0.02)
        graph = torch.arange(len(store)).repeat_interleave(store.num_edges)
        share = torch.bincount(graph, weights=store.edge_truth.double()) / store.num_edges
        assert float(share.mean()) == pytest.approx(motif, abs=0.0075)
    assert [len(paper[s]) for s in ("train", "ood_val", "ood_test")] == [9000, 3000, 3000]


def test_heights_of_trees(paper, clean):
    def trees(store, motif):
        rows = (store.columns["base"] == 0) & (store.columns["motif"] == motif)
        return set((store.num_nodes[rows] - 5).tolist())

    tall, short = {15, 40}, {1, 3, 7, 4, 13}
    for motif in range(3):
        for split in ("train", "id_val", "id_test"):
            assert trees(paper[split], motif) == (tall if motif == 0 else short)
            assert trees(clean[split], motif) == tall
        for splits in (paper, clean):
            assert trees(splits["ood_val"], motif) == tall
            assert trees(splits["ood_test"], motif) == {15, 31, 63, 40, 121, 364}


def test_sizes_of_ladders_and_wheels(clean):
    for split, ladders, wheels in (("train", (16, 22), (15, 19)), ("ood_test", (60, 98), (60, 79))):
        store = clean[split]
        for base, limits in ((1, ladders), (2, wheels)):
            nodes = store.num_nodes[store.columns["base"] == base] - 5
            assert (int(nodes.min()), int(nodes.max())) == limits


def test_size_shift_can_be_left_out():
    splits = load("failure-struc", size_shift=False, **SMALL)
    assert int(splits["ood_test"].num_nodes.max()) == 45


def test_same_seed_same_bytes(clean):
    again, other = load("spmotif-struc", bias=0.9, **SMALL), load("spmotif-struc", bias=0.9, seed=1, **SMALL)
    assert again.fingerprint() == clean.fingerprint()
    for split in clean:
        assert other[split].fingerprint() != clean[split].fingerprint()
    # the unbiased splits are the same at every bias, so that a column of a table is about one test set
    weak = load("spmotif-struc", bias=0.33, **SMALL)
    assert weak["ood_test"].fingerprint() == clean["ood_test"].fingerprint()
    assert weak.train.fingerprint() != clean.train.fingerprint()


def test_each_split_has_its_own_randomness(clean):
    assert clean["id_val"].fingerprint() != clean["id_test"].fingerprint()
    fewer = load("spmotif-struc", bias=0.9, **{**SMALL, "train_per_class": 50})
    assert fewer["ood_test"].fingerprint() == clean["ood_test"].fingerprint()


def test_splits_do_not_overlap(clean):
    assert clean.leakage() == {"id_val": 0, "ood_val": 0, "id_test": 0, "ood_test": 0}


def test_position_of_an_edge_says_nothing_about_its_truth(clean):
    """The motif's edges lie anywhere in a graph's list of edges: their mean place is the middle."""
    store = clean.train
    first = store.edge_ptr[:-1].repeat_interleave(store.num_edges)
    place = (torch.arange(first.numel()) - first) / store.num_edges.repeat_interleave(store.num_edges)
    motif = place[store.edge_truth]
    # both directions of an edge are neighbours, so there are half as many independent places
    assert abs(float(motif.mean()) - float(place.mean())) < 5 * 0.29 / np.sqrt(motif.numel() / 2)


def test_piif_attributes_follow_the_flipped_label():
    splits = load(
        "failure-piif", bias=0.8, noise=0.2, train_per_class=2000, val_per_class=500, test_per_class=500
    )
    train, test = splits.train, splits["ood_test"]
    flipped = train.y != train.columns["motif"]
    assert_share(flipped, 0.2)
    assert_share(test.y != test.columns["motif"], 0.2)
    assert_share((train.columns["attribute"] == train.y)[flipped], 0.8)
    assert_share((train.columns["base"] == train.columns["motif"])[flipped], 0.8)
    assert_share(test.columns["attribute"] == test.y, 1 / 3)
    hidden = load("failure-piif", bias=0.8, noise=0.2, noisy_labels=False, train_per_class=2000).train
    assert torch.equal(hidden.y, hidden.columns["motif"])
    assert_share(hidden.columns["attribute"] == hidden.y, 0.8 * 0.8 + 0.2 * 0.1)


def test_noise_is_there_only_where_something_follows_the_label():
    assert make("spmotif-struc").mechanism().noise == 0
    assert make("spmotif-mixed").mechanism().noise == 0
    assert make("spmotif-mixed", {"attributes": "piif"}).mechanism().noise == 0.05
    assert make("failure-piif").mechanism().noise == 0.05
    assert make("failure-piif", {"noise": "0.1"}).mechanism().noise == 0.1


def test_miif_of_all_three_factors():
    values = {"structure": "fiif", "attributes": "piif", "size": "piif", "noise": 0.3, "size_bias": 0.7}
    train = load("spmotif-mixed", bias=0.9, attribute_bias=0.6, **values, train_per_class=2000).train
    flipped = train.y != train.columns["motif"]
    assert_share((train.columns["base"] == train.columns["motif"])[flipped], 0.9)
    assert_share((train.columns["attribute"] == train.y)[flipped], 0.6)
    assert_share((train.columns["size"] == train.y)[flipped], 0.7)
    wheel = train.columns["base"] == 2
    size = [float(train.num_nodes[wheel & (train.columns["size"] == s)].float().mean()) for s in range(3)]
    assert size[0] < size[1] < size[2]


def test_environments():
    splits = load("spmotif-struc", bias=0.8, environments=2, bias_spread=0.15, train_per_class=2000)
    for split in ("train", "id_val", "id_test"):
        store = splits[split]
        for e, strength in enumerate((0.65, 0.95)):
            rows = store.env == e
            assert_share((store.columns["base"] == store.y)[rows], strength)
            assert store.y[rows].bincount().unique().numel() == 1
    assert splits["ood_val"].env is None
    assert splits["ood_test"].env is None
    assert load("failure-struc").train.env is None


def test_failure_study_has_its_counts():
    for name, shift in (("failure-struc", True), ("failure-fiif", True), ("failure-piif", False)):
        splits = load(name, size_shift=shift)
        assert {s: len(splits[s]) for s in splits} == {
            "train": 1800, "id_val": 600, "ood_val": 600, "id_test": 600, "ood_test": 600,
        }  # fmt: skip
        assert ("attribute" in splits.train.columns) == (name != "failure-struc")


def test_other_motifs_bases_and_sizes():
    splits = load(
        "spmotif-struc",
        motifs="hexagon,clique,star,house",
        bases="path,ring",
        train_nodes="10,12",
        test_nodes="30,31",
        **SMALL,
    )
    assert splits.task.classes == 4
    for split, limits in (("train", (10, 12)), ("ood_val", (10, 12)), ("ood_test", (30, 31))):
        store = splits[split]
        for row in range(40):
            graph = graph_of(store, row)
            name = splits.task.class_names[int(store.y[row])]
            wanted = {**MOTIF, **MORE}[name]
            assert nx.is_isomorphic(motif_of(graph), wanted)
            assert limits[0] <= len(graph) - len(wanted) <= limits[1]
    # two bases for four motifs: the third favours the first base again
    assert_share((splits.train.columns["base"] == 0)[splits.train.y == 2], 0.9)


def test_members_of_a_size():
    for name, low, high in (
        ("tree", 10, 50),
        ("ladder", 9, 15),
        ("wheel", 1, 6),
        ("path", 1, 3),
        ("ring", 7, 7),
    ):
        members = shapes(name, BASES[name].within(low, high))
        assert members
        sizes = [m.nodes for m in members]
        assert sizes == sorted(sizes)
        assert low <= sizes[0]
        assert sizes[-1] <= high
    assert [m.nodes for m in shapes("tree", BASES["tree"].within(10, 50))] == [13, 15, 31, 40]
    assert [m.nodes for m in shapes("ladder", BASES["ladder"].within(9, 15))] == [10, 12, 14]


def test_extra_edges_stop_where_there_is_no_room():
    """A lone node with a triangle on it has room for two more edges, however many are asked for."""
    lone, triangle = Shape(1, np.zeros((2, 0), dtype=np.int64)), Shape(3, np.array([[0, 0, 1], [1, 2, 2]]))
    zero = np.zeros(50, dtype=np.int64)
    got = plant([lone], [triangle], zero, zero, np.random.default_rng(0), extra=1.0, both_ways=False)
    assert (np.diff(got.edge_ptr) == 6).all()
    assert got.edge_truth.reshape(50, 6).sum(1).tolist() == [3] * 50
    none = plant([lone], [triangle], zero, zero, np.random.default_rng(0), extra=0.0, both_ways=False)
    assert (np.diff(none.edge_ptr) == 4).all()


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"bias": 1.2}, "bias=1.2 is too large"),
        ({"bias": -0.1}, "bias=-0.1 is too small"),
        ({"bias": "nan"}, "bias=nan"),
        ({"noise": 2}, "noise"),
        ({"motifs": "cycle,hose,crane"}, "no motif called 'hose'. Did you mean house"),
        ({"motifs": "cycle,zzz"}, "Known: clique, crane, cycle, hexagon, house, star"),
        ({"motifs": "cycle"}, "at least two"),
        ({"motifs": "cycle,cycle"}, "only once"),
        ({"bases": "tree,leader"}, "no base called 'leader'. Did you mean ladder"),
        ({"variant": "published"}, "clean, paper"),
        ({"attributes": "miif"}, "fiif, piif, none"),
        ({"train_per_class": 0}, "train_per_class=0"),
        ({"environments": 2, "bias_spread": 0.2}, "smaller spread"),
        ({"environments": 2, "bias": 0.5, "attribute_bias": 0.95, "bias_spread": 0.2}, "attribute_bias=0.95"),
        ({"train_nodes": "20,10"}, "smallest and the largest"),
        ({"train_nodes": "16,30"}, "no tree has that number of nodes"),
        ({"seed": "x"}, "not a valid whole number"),
        ({"biass": 0.5}, "Did you mean bias"),
    ],
)
def test_bad_arguments(values, words):
    with pytest.raises(UsageError, match=words):
        make("spmotif-struc", values)


def test_arguments_given_in_python_are_checked_too():
    from ciga.data.datasets.spmotif import SPMotifStruc

    with pytest.raises(UsageError, match="bias"):
        SPMotifStruc(bias=3.0)
