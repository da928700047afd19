"""CIGA with LECI's adversary on the rest: what G_c leaves behind should not tell the label.

Not in the CIGA paper. The idea is that of the label-adversarial branch of LECI (Gui et al., NeurIPS 2023): a
second classifier reads the complement of the subgraph, and the featurizer plays against it. What this library
adds is the hard, capped budget together with CIGA's contrast, the selection rule `ood-val-rest`, `settle` and
`starts`.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from ciga.graphs.store import Batch
from ciga.methods.base import Step, cross_entropy, register
from ciga.methods.ciga import CIGAv1
from ciga.methods.losses import edge_prior
from ciga.nn.encoder import Backbone, Spec
from ciga.nn.networks import InvariantNetwork
from ciga.options import tunable


@register("ciga-complement")
@dataclass
class CIGAComplement(CIGAv1):
    """CIGAv1's objective and max_g min_s R(s(G_s)): the rest of the graph is read as well as it can be, and
    g moves what makes it readable into G_c, within the same budget |G_c| <= s_c. The max-min is LECI's,
    and so is a prior of 1/2 on the edges.

    Its good subgraphs are often those of early epochs, and a strong gamma pulls the base in later: `settle`
    with several `starts` keeps the best of them. Look at the last epoch beside the chosen one.

    CIGAv1 is content with a G_c that tells the classes apart. One class can be told by the absence of all
    other motifs; its own motif may then stay in G_s. Here what stays behind is read, and pulled into G_c. A
    base that goes along with the label can be read, too, and is pulled as well: with a large gamma it wins
    over the motif, above all where the bias is strong.

    With `prior`, + prior * mean_e KL( Bern(p_e) || Bern(1/2) ): an edge without merit keeps the score of a
    coin toss. Otherwise the edges of a class that is told by what it lacks fall to the bottom, from where a
    gradient that fades with the score does not lift them again.
    """

    summary = "CIGAv1, and leave nothing in the rest that tells the label"
    selects_by_rest = True

    gamma: float = tunable(0.3, [0.03, 0.1, 0.3, 1.0], low=0.0, help="strength of the reversed gradient")

    prior: float = tunable(
        0.0, [0.0, 0.1, 1.0], low=0.0, help="weight that holds edge scores near a coin toss"
    )

    def network(self, spec: Spec, backbone: Backbone) -> InvariantNetwork:
        return InvariantNetwork(spec, backbone, **self.extraction(), spurious=True)

    def loss(self, network: InvariantNetwork, batch: Batch, step: Step) -> dict[str, Tensor]:
        parts = network.split(batch)
        if network.held:  # nothing is left to move
            return self.invariant_terms(network.predict(parts), batch.y)
        prediction = network.predict_both(parts, against=self.gamma)
        assert prediction.spurious_logits is not None
        rest = cross_entropy(prediction.spurious_logits, batch.y).mean()
        terms = {**self.invariant_terms(prediction, batch.y), "complement": rest}
        if self.prior:
            terms["prior"] = self.prior * edge_prior(prediction.parts.partition.score, 0.5)
        return terms
