"""Print which room of the package imports which, and fail if two need each other: `python tools/rooms.py`.

`lint-imports` checks the order of the rooms that pyproject.toml lists; this shows what the order is, from the
imports themselves. Imports for type checkers only do not count: nothing is loaded by them.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Set
from graphlib import CycleError, TopologicalSorter

import grimp

Rooms = Mapping[str, Set[str]]


def rooms(package: str = "ciga") -> Rooms:
    """Each room of the package (a folder or a file at its root) and the rooms that it imports."""
    graph = grimp.build_graph(package, exclude_type_checking_imports=True)
    found: dict[str, set[str]] = {}
    for module in graph.modules - {package}:
        mine = found.setdefault(_room(module), set())
        for imported in graph.find_modules_directly_imported_by(module) - {package}:
            if _room(imported) != _room(module):
                mine.add(_room(imported))
    return found


def _room(module: str) -> str:
    return module.split(".")[1]


def order(found: Rooms) -> list[str]:
    """The rooms from the ground up: each after all that it imports. Raises CycleError if there is none."""
    sorter = TopologicalSorter({room: sorted(found[room]) for room in sorted(found)})
    return list(sorter.static_order())


def main() -> int:
    """Print the graph, top room first; 1 if it has a cycle."""
    found = rooms()
    try:
        upwards = order(found)
    except CycleError as error:
        print("cycle: " + " -> ".join(reversed(error.args[1])))
        return 1
    for room in reversed(upwards):
        print(f"{room:<10} -> {', '.join(sorted(found[room], key=upwards.index, reverse=True)) or '-'}")
    print(f"{len(found)} rooms, no cycle")
    return 0


if __name__ == "__main__":
    sys.exit(main())
