"""Gamma: representations that extrapolate over graph size, from densities of k-node subgraphs."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from typing_extensions import TypeVar

from ciga.graphs.names import are_labels
from ciga.graphs.store import Batch, GraphStore
from ciga.methods.base import Context, Inference, Method, Step, cross_entropy, register
from ciga.methods.gamma.gin import SubgraphGIN
from ciga.methods.gamma.kinds import Densities, from_rows, in_rows
from ciga.methods.gamma.network import GRAPHS, DensityNetwork
from ciga.methods.gamma.onehot import OneHotNetwork
from ciga.methods.gamma.shapes import MAX_K
from ciga.nn.encoder import Backbone, Spec
from ciga.options import tunable

D = TypeVar("D", bound=DensityNetwork, default=DensityNetwork)

LABELS = ("auto", "features", "constant")
#: What `prepare` keeps of each training graph's densities.
ROWS = ("kinds", "shares", "members")


@dataclass
class Gamma(Method[D]):
    """What the three have in common (Bevilacqua et al., 2021): densities, a head, and a weighted risk.

    omega(S, G) is the share of S among the connected induced k-node subgraphs of G: large and small graphs of
    one model have the same in the limit. Subgraphs of a kind, shape and node labels up to isomorphism, that
    no training graph has are left out. A node's label is its row of features where these are discrete
    (`auto`: at most one distinct row to ten nodes of the training data), else the same for all. A sample
    counts with one over the share of its class.
    """

    revision = 2

    k: int = tunable(4, [3, 4, 5], low=2, high=MAX_K, help="nodes of a subgraph")
    samples: int = tunable(64, [64, 256, 1024], low=1, help="subgraphs drawn from a graph that has more")
    exact: int = tunable(2048, low=1, help="all subgraphs of a graph with at most that many are looked at")
    hidden: int = tunable(128, [32, 128], low=1, help="width of the head's hidden layer")
    labels: str = tunable("auto", choices=LABELS, help="what a node's label is")

    def learn(self, network: D, train: GraphStore) -> None:
        network.learn(train, self.labelled(train))

    def labelled(self, train: GraphStore) -> bool:
        """Do nodes have labels?"""
        return are_labels(train.x) if self.labels == "auto" else self.labels == "features"

    def prepare(self, context: Context) -> dict[str, Tensor]:
        """The samples' weights and, where nodes have labels, what training asks for in every epoch: the
        densities. Where they have none, every subgraph may differ from all others: listed at each step."""
        train = context.splits.train
        share = torch.bincount(train.y, minlength=1) / max(train.y.numel(), 1)
        side = {"weight": 1 / share[train.y]}
        if not self.repeats(train):
            return side
        reader = self.network(context.spec, context.backbone)
        self.learn(reader, train)
        rows = in_rows([reader.densities(b) for b in train.batches(GRAPHS, chunk=1)])
        return side | dict(zip(ROWS, rows, strict=True))

    def repeats(self, train: GraphStore) -> bool:
        """Are a graph's subgraphs few enough, once alike ones are joined, to be kept for all graphs?"""
        return self.labelled(train)

    def found(self, network: D, batch: Batch, step: Step) -> Densities:
        """The densities of a batch in training."""
        rows = [step.side[name] for name in ROWS if name in step.side]
        return from_rows(*rows) if rows else network.densities(batch)

    def risk(self, logits: Tensor, batch: Batch, step: Step) -> Tensor:
        """Cross-entropy weighted by one over the class's share in the training data."""
        weight = step.side["weight"]
        return (weight * cross_entropy(logits, batch.y)).sum() / weight.sum()

    def infer(self, network: D, batch: Batch) -> Inference:
        representation = network.represent(batch)
        return Inference(network.head(representation), None, representation)


@register("gamma-1hot")
@dataclass
class Gamma1Hot(Gamma[OneHotNetwork]):
    """min E[ CE(f(Gamma(G)), Y) ], Gamma(G) = sum over kinds F of omega(F, G) * onehot(F).

    A linear map takes the densities of the known kinds to the head.
    """

    summary = "densities of k-node subgraphs by shape and node labels"

    kinds: int = tunable(20_000, low=1, help="known kinds; of more, those that most training graphs have")

    def learn(self, network: OneHotNetwork, train: GraphStore) -> None:
        network.learn(train, self.labelled(train), self.kinds)

    def network(self, spec: Spec, backbone: Backbone) -> OneHotNetwork:
        return OneHotNetwork(spec, backbone, self.k, self.samples, self.exact, self.hidden)

    def repeats(self, train: GraphStore) -> bool:
        return True

    def loss(self, network: OneHotNetwork, batch: Batch, step: Step) -> dict[str, Tensor]:
        found = self.found(network, batch, step)
        return {"risk": self.risk(network.head(network.from_densities(found)), batch, step)}


@register("gamma-gin")
@dataclass
class GammaGIN(Gamma[SubgraphGIN]):
    """Gamma(G) = sum over subgraphs S of omega(S, G) * GIN(S)  (Bevilacqua et al., 2021).

    min E[ CE(f(Gamma(G)), Y) ] + penalty * E[ sum_S omega(S, G) || GIN(S) - mean of GIN over G's subgraphs
    shaped like S ||^2 ]: where attributes shift, shape alone should decide. Off by default: where they do
    not, as in the paper's TU data, the network then learns next to nothing. The GNN is GIN, whatever the
    backbone's `conv`; depth and readout are the backbone's (in `published`: two layers, sum).
    """

    summary = "densities of k-node subgraphs, encoded by GIN"
    revision = 3

    penalty: float = tunable(0.0, [0.0, 0.01, 0.1, 1], low=0.0, help="weight of the attribute regulariser")

    def network(self, spec: Spec, backbone: Backbone) -> SubgraphGIN:
        return SubgraphGIN(spec, backbone, self.k, self.samples, self.exact, self.hidden)

    def loss(self, network: SubgraphGIN, batch: Batch, step: Step) -> dict[str, Tensor]:
        found = self.found(network, batch, step)
        whole, each = network.encode(batch, found)
        terms = {"risk": self.risk(network.head(network.normalised(whole)), batch, step)}
        if self.penalty:
            terms["attributes"] = self.penalty * network.spread(batch, found, each)
        return terms


@register("gamma-rpgin")
@dataclass
class GammaRPGIN(GammaGIN):
    """Gamma-GIN with relational pooling: GIN sees which node is which, averaged over the orders of the nodes.

    Murphy et al. (2019) make a GNN as expressive as any function of a graph that way, for small graphs. In
    training the mean is over `permutations` random orders, in evaluation over all k! of them.
    """

    summary = "densities of k-node subgraphs, encoded by relational-pooling GIN"

    permutations: int = tunable(3, [1, 3], low=1, help="random orders of the nodes in a step of training")

    def network(self, spec: Spec, backbone: Backbone) -> SubgraphGIN:
        sizes = (self.k, self.samples, self.exact, self.hidden, self.permutations)
        return SubgraphGIN(spec, backbone, *sizes)
