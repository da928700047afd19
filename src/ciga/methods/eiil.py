"""EIIL: find the environments that an ERM model violates most, then train IRM on them."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from ciga.methods.base import Context, register
from ciga.methods.environments import reference_logits, scale_gradient
from ciga.methods.irm import IRMv1
from ciga.options import tunable


def infer_environments(logits: Tensor, y: Tensor) -> Tensor:
    """The environments [n] (0 or 1) on which a model with these logits [n, C] violates IRM most.

    EIIL maximises sum_e || 1/n sum_i q_ie g_i ||^2 over soft assignments q of samples to environments, g_i
    being the gradient of sample i's risk by the dummy scale. With a = sum_i q_i0 g_i and S = sum_i g_i
    this is (a^2 + (S - a)^2) / n^2, convex in a: its maximum lies at an end of a's range, where all
    g_i > 0 stand in one environment and all g_i < 0 in the other. So the maximum needs no ascent.
    (A third environment would stay empty: two of one sign have a larger square joined than apart.)
    """
    return (scale_gradient(logits, y) > 0).long()


@register("eiil")
@dataclass
class EIIL(IRMv1):
    """max_q of IRMv1's penalty at an ERM reference model, then min_f of IRMv1 on q   (Creager et al., 2021).

    The reference is trained once, its epoch chosen without OOD labels; the inferred environments stay fixed.
    The risk is the mean over samples, EIIL's sum_e 1/n sum_i q_ie l_i: one environment holds nothing but
    mistakes of the reference (with two classes, all of them), and a mean over environments would train half
    on those few. The penalty is over environments.
    """

    summary = "IRM on the two environments an ERM model violates most"
    scms = ("PIIF",)
    revision = 2

    reference_epochs: int = tunable(
        0, [0, 5, 10], low=0, help="epochs of the ERM reference; 0: as many as the run"
    )

    def prepare(self, context: Context) -> dict[str, Tensor]:
        logits = reference_logits(context, self.reference_epochs)
        return {"env": infer_environments(logits, context.splits.train.y)}

    def risk(self, risks: Tensor, env: Tensor) -> Tensor:
        return risks.mean()
