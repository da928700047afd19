"""Encoders, readouts, the extractor, and the networks made of them."""

from ciga.nn.encoder import Backbone, Encoder, Spec
from ciga.nn.extractor import Extractor, Partition
from ciga.nn.networks import GraphNetwork, InvariantNetwork, Parts

__all__ = [
    "Backbone",
    "Encoder",
    "Extractor",
    "GraphNetwork",
    "InvariantNetwork",
    "Partition",
    "Parts",
    "Spec",
]
