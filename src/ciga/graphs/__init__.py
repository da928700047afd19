"""Graphs as packed tensors: the store, its batches and splits, and arithmetic over them."""
