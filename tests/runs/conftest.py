"""The fixtures of the tables' tests: pools run the same tiny tables."""

from tests.bench.conftest import book, shared_bytecode

__all__ = ["book", "shared_bytecode"]
