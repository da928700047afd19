"""Runs: what is to be done, what was done, and many at once."""
