"""Gamma: representations that extrapolate over graph size, from densities of k-node subgraphs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from torch import Tensor
from typing_extensions import TypeVar

from ciga.graphs.store import Batch
from ciga.methods.base import Inference, Method, Step, cross_entropy, register
from ciga.methods.gamma.network import DensityNetwork, SubgraphGIN, SubgraphRPGIN
from ciga.methods.gamma.shapes import MAX_K
from ciga.nn.encoder import Backbone, Spec
from ciga.options import tunable

D = TypeVar("D", bound=DensityNetwork, default=DensityNetwork)


@register("gamma-1hot")
@dataclass
class Gamma1Hot(Method[D]):
    """min E[ CE(f(Gamma(G)), Y) ], Gamma(G) = sum over shapes F of omega(F, G) * onehot(F).

    Bevilacqua et al. (2021). omega(F, G) is the share of F among the connected induced k-node subgraphs of
    G: large and small graphs of one model have the same in the limit. Sees no features.
    """

    summary = "densities of k-node subgraphs by shape"

    k: int = tunable(4, [3, 4, 5], low=2, high=MAX_K, help="nodes of a subgraph")
    samples: int = tunable(64, [64, 128, 256], low=1, help="subgraphs drawn from a graph that has more")
    exact: int = tunable(
        2048, low=1, help="evaluation looks at all subgraphs of a graph with at most so many"
    )

    def network(self, spec: Spec, backbone: Backbone) -> D:
        return cast(D, DensityNetwork(spec, backbone, self.k, self.samples, self.exact))

    def loss(self, network: D, batch: Batch, step: Step) -> dict[str, Tensor]:
        return {"risk": cross_entropy(network(batch), batch.y).mean()}

    def infer(self, network: D, batch: Batch) -> Inference:
        representation, _ = network.encode(batch)
        return Inference(network.head(representation), None, representation)


@register("gamma-gin")
@dataclass
class GammaGIN(Gamma1Hot[SubgraphGIN]):
    """Gamma(G) = sum over subgraphs S of omega(S, G) * GIN(S)  (Bevilacqua et al., 2021).

    min E[ CE(f(Gamma(G)), Y) ] + penalty * E[ sum_S omega(S, G) || GIN(S) - mean of GIN over G's subgraphs
    shaped like S ||^2 ]: where attributes shift, shape alone should decide. Off by default: where they do
    not, as in the paper's TU data, the network then learns next to nothing (docs/results.md). The GNN is GIN,
    whatever the backbone's `conv`.
    """

    summary = "densities of k-node subgraphs, encoded by GIN"

    penalty: float = tunable(0.0, [0.0, 0.01, 0.1, 1], low=0.0, help="weight of the attribute regulariser")

    def network(self, spec: Spec, backbone: Backbone) -> SubgraphGIN:
        return SubgraphGIN(spec, backbone, self.k, self.samples, self.exact)

    def loss(self, network: SubgraphGIN, batch: Batch, step: Step) -> dict[str, Tensor]:
        representation, spread = network.encode(batch)
        risk = cross_entropy(network.head(representation), batch.y).mean()
        return {"risk": risk, "attributes": self.penalty * spread}


@register("gamma-rpgin")
@dataclass
class GammaRPGIN(GammaGIN):
    """Gamma-GIN with relational pooling: GIN sees which node is which, averaged over the orders of the nodes.

    Murphy et al. (2019) make a GNN as expressive as any function of a graph that way, for small graphs.
    """

    summary = "densities of k-node subgraphs, encoded by relational-pooling GIN"

    def network(self, spec: Spec, backbone: Backbone) -> SubgraphGIN:
        return SubgraphRPGIN(spec, backbone, self.k, self.samples, self.exact)
