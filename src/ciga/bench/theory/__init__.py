"""The paper's theory on worlds small enough to enumerate: nothing here is sampled or trained.

`world` has the causal models as exact joint distributions, `featurizers` both theorems, `lemma` the statement
I(C;Y) >= I(S;Y), `linear` the example in which ERM and IRM fail, and `picture` draws what they say.
"""

from ciga.bench.theory.featurizers import Featurizer, featurizers, solutions_v1, solutions_v2
from ciga.bench.theory.lemma import LemmaCount, count_violations
from ciga.bench.theory.linear import accepted_angles, share_that_generalises
from ciga.bench.theory.world import KINDS, World, make_world

__all__ = [
    "KINDS",
    "Featurizer",
    "LemmaCount",
    "World",
    "accepted_angles",
    "count_violations",
    "featurizers",
    "make_world",
    "share_that_generalises",
    "solutions_v1",
    "solutions_v2",
]
