"""Seeing the subgraph."""
