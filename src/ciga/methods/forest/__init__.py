"""A random forest over fingerprints: the yardstick that chemists trust."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch

from ciga.graphs.store import Batch, GraphStore
from ciga.methods.base import Context, Inference, Method, register
from ciga.methods.forest.fingerprint import CONSTANT, Naming
from ciga.methods.forest.trees import ForestNetwork
from ciga.nn.encoder import Backbone, Spec
from ciga.options import tunable
from ciga.progress import Progress

BATCH = 512
#: Up to this many numbers the fingerprints are one full table, which trees grow from much faster.
FULL = 2**28


@register("forest")
@dataclass
class Forest(Method[ForestNetwork]):
    """A random forest (Breiman, 2001) over counts of neighbourhoods (Rogers and Hahn, 2010).

    Atoms and bonds of molecules are named as in ECFP, nodes and edges of other graphs by their features where
    these are discrete. With `totals` the trees also see how large a graph is and the sums of its features,
    such as the number of atoms of each element.
    """

    summary = "random forest over Morgan/WL fingerprints with counts, and totals"
    closed_form: ClassVar[bool] = True
    revision = 2  # totals

    trees: int = tunable(300, [100, 300, 1000], low=1, high=10_000, help="number of trees")
    radius: int = tunable(2, [1, 2, 3], low=0, high=10, help="steps around a node that a column describes")
    bits: int = tunable(2048, [1024, 2048, 4096], low=8, high=2**16, help="columns of a fingerprint")
    leaf: int = tunable(1, [1, 2, 4], low=1, help="the fewest training graphs at a leaf")
    totals: bool = tunable(True, [True, False], help="also see sizes, and sums of features over a graph")
    class_weight: str = tunable("none", ["none", "balanced"], choices=("none", "balanced"), help="of classes")

    def network(self, spec: Spec, backbone: Backbone) -> ForestNetwork:
        totals = 2 + spec.features + spec.edge_features if self.totals else 0
        return ForestNetwork(spec.classes, self.radius, self.bits, totals)

    def fit(self, network: ForestNetwork, context: Context, progress: Progress) -> None:
        from sklearn.ensemble import RandomForestClassifier

        train = context.splits.train
        naming = Naming.of(train)
        network.hold("naming", torch.tensor([naming.nodes, naming.edges], dtype=torch.int32))
        progress(0, 1, f"{self.trees} trees")
        forest = RandomForestClassifier(
            self.trees,
            min_samples_leaf=self.leaf,
            class_weight=None if self.class_weight == "none" else self.class_weight,
            random_state=context.seed,
        )
        forest.fit(table(network, train), train.y.numpy())
        network.take(forest)

    def caveat(self, network: ForestNetwork, train: GraphStore) -> str:
        if not train.num_features or int(network.naming[0]) != CONSTANT:
            return ""
        rest = "only sums over each graph" if self.totals else "nothing"
        return f"Node features are measurements here, not labels: of them the forest sees {rest}."

    def infer(self, network: ForestNetwork, batch: Batch) -> Inference:
        logits = network(batch)
        return Inference(logits, None, logits.exp())


@torch.no_grad()
def table(network: ForestNetwork, store: GraphStore) -> Any:
    """What trees see of all graphs [n, columns], for scikit-learn: full where there is room, else sparse."""
    from scipy.sparse import csr_matrix, vstack

    parts = (network.counts(batch).cpu() for batch in store.batches(BATCH, chunk=1))
    if store.num_graphs * network.columns <= FULL:
        return torch.cat(list(parts)).numpy()
    return vstack([csr_matrix(part.numpy()) for part in parts]).tocsc()
