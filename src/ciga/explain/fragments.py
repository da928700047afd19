"""Which pieces the model keeps, over a whole file: for each class how often, and more than elsewhere?

Molecules are cut at the bonds where retrosynthesis would cut them (RDKit's BRICS rules), so that pieces
recur: rings, linkers, functional groups, each with its attachment points. Other graphs are cut to what is
kept: the connected components of the kept subgraph, told apart up to isomorphism.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from ciga.data.reading.chem import MoleculeError, parse, rdkit
from ciga.explain.explanation import Explanation
from ciga.explain.molecules import bond_scores
from ciga.scoring.stats import holm

#: Components with more nodes than this are not compared with others: they are not motifs.
LARGEST = 20


@dataclass
class Fragment:
    """One kind of piece."""

    name: str  # a fragment SMILES, or "5 nodes, 6 edges"
    kind: str  # "smiles" or "graph"
    found: int = 0  # graphs that have it
    kept: int = 0  # graphs in which it is kept
    by_class: Counter[int] = field(default_factory=Counter)  # predicted class -> graphs in which it is kept
    edges: list[tuple[int, int]] = field(default_factory=list)  # of one example, for a picture

    def enrichment(self, label: int, totals: Counter[int]) -> float:
        """Share of the graphs of this class in which it is kept, over the share among the other graphs.

        Half a count is added on both sides, so that a piece of three graphs cannot look infinitely rich.
        """
        others = sum(totals.values()) - totals[label]
        inside = (self.by_class[label] + 0.5) / (totals[label] + 1)
        outside = (self.kept - self.by_class[label] + 0.5) / (others + 1)
        return inside / outside

    def p_value(self, label: int, totals: Counter[int]) -> float:
        """Fisher's exact test that it is kept more often in this class than in the others."""
        from scipy.stats import fisher_exact

        others = sum(totals.values()) - totals[label]
        mine, rest = self.by_class[label], self.kept - self.by_class[label]
        table = [[mine, totals[label] - mine], [rest, others - rest]]
        return float(fisher_exact(table, alternative="greater").pvalue)


def molecule_fragments(smiles: Sequence[str], explanations: Sequence[Explanation]) -> list[Fragment]:
    """The pieces of these molecules; a piece is kept where at least half of its bonds are."""
    fragments: dict[str, Fragment] = {}
    for text, explanation in zip(smiles, explanations, strict=True):
        molecule = parse(text)
        if isinstance(molecule, MoleculeError) or molecule.GetNumAtoms() != explanation.num_nodes:
            continue
        kept: dict[str, bool] = {}
        for name, share in _pieces(molecule, bond_scores(molecule, explanation)[1]):
            kept[name] = kept.get(name, False) or share >= 0.5
        for name, yes in kept.items():
            _count(fragments.setdefault(name, Fragment(name, "smiles")), yes, explanation.predicted)
    return sorted(fragments.values(), key=lambda f: (-f.kept, f.name))


def _pieces(molecule: Any, kept: Sequence[bool]) -> list[tuple[str, float]]:
    """(canonical SMILES, share of kept bonds) of each BRICS piece; `*` stands where a bond was cut.

    Without the `*` a thioether would be hydrogen sulphide. A piece of one atom has no bond of its own:
    those to its neighbours count instead.
    """
    from rdkit.Chem import BRICS

    chem = rdkit()
    cut = sorted({molecule.GetBondBetweenAtoms(*ends).GetIdx() for ends, _ in BRICS.FindBRICSBonds(molecule)})
    whole = chem.FragmentOnBonds(molecule, cut, dummyLabels=[(0, 0)] * len(cut)) if cut else molecule
    chem.RemoveStereochemistry(whole)
    atoms: list[tuple[int, ...]] = []
    pieces = chem.GetMolFrags(whole, asMols=True, sanitizeFrags=False, fragsMolAtomMapping=atoms)
    out = []
    for piece, members in zip(pieces, atoms, strict=True):
        inside = {a for a in members if a < molecule.GetNumAtoms()}  # the marks of the cuts come after them
        around = [b.GetIdx() for a in inside for b in molecule.GetAtomWithIdx(a).GetBonds()]
        own = [i for i in around if i not in cut]
        counted = set(own or around)
        if counted:
            out.append((chem.MolToSmiles(piece), sum(kept[i] for i in counted) / len(counted)))
    return out


def graph_fragments(explanations: Sequence[Explanation]) -> list[Fragment]:
    """The connected components of the kept subgraphs, equal ones together."""
    import networkx as nx

    known: dict[str, list[tuple[Any, Fragment]]] = defaultdict(list)
    for explanation in explanations:
        ends, _, kept, _ = explanation.undirected()
        graph = nx.Graph(ends[:, kept].t().tolist())
        graph.remove_edges_from(list(nx.selfloop_edges(graph)))
        here: set[int] = set()
        for nodes in nx.connected_components(graph):
            if not 1 < len(nodes) <= LARGEST:
                continue
            part = nx.convert_node_labels_to_integers(graph.subgraph(nodes))
            fragment = _find(known, part)
            if id(fragment) not in here:
                here.add(id(fragment))
                _count(fragment, True, explanation.predicted)
    every = [fragment for group in known.values() for _, fragment in group]
    return sorted(every, key=lambda f: (-f.kept, f.name))


def _find(known: dict[str, list[tuple[Any, Fragment]]], part: Any) -> Fragment:
    """The fragment isomorphic to `part`, new if there is none."""
    import networkx as nx

    # Equal graphs have equal keys; the few that collide are told apart by the real test.
    key = str(sorted((len(part[n]), *sorted(len(part[m]) for m in part[n])) for n in part))
    for other, fragment in known[key]:
        if nx.is_isomorphic(other, part):
            return fragment
    name = f"{part.number_of_nodes()} nodes, {part.number_of_edges()} edges"
    fragment = Fragment(name, "graph", edges=sorted(tuple(sorted(e)) for e in part.edges))
    known[key].append((part, fragment))
    return fragment


def _count(fragment: Fragment, kept: bool, label: int) -> None:
    fragment.found += 1
    if kept:
        fragment.kept += 1
        fragment.by_class[label] += 1


def enriched(
    fragments: Sequence[Fragment], predicted: Tensor, classes: int, most: int = 12, least: int = 3
) -> list[dict[str, Any]]:
    """For each class, the pieces kept there more often than elsewhere: plain rows, the surest first.

    Pieces kept in fewer than `least` graphs are left out; `p` is Holm-corrected over all tests made.

    Args:
        fragments: The pieces found in all graphs.
        predicted: The predicted class of each graph.
        classes: The number of classes.
        most: The largest number of rows for one class.
        least: A piece must be kept in this number of graphs at least.
    """
    totals = Counter(predicted.tolist())
    usual = [f for f in fragments if f.kept >= least]
    # Where every graph is predicted alike, there is no elsewhere to compare with.
    shown = [c for c in range(classes) if 0 < totals[c] < sum(totals.values())]
    tests = [(f.p_value(c, totals), c, f) for f in usual for c in shown if f.by_class[c]]
    tests.sort(key=lambda item: (item[0], item[2].name))
    rows: list[dict[str, Any]] = []
    corrected = holm([p for p, *_ in tests])
    for p, (_, label, fragment) in zip(corrected, tests, strict=True):
        rows.append(
            {
                "class": label,
                "name": fragment.name,
                "kind": fragment.kind,
                "edges": fragment.edges,
                "kept": fragment.by_class[label],
                "of": totals[label],
                "elsewhere": fragment.kept - fragment.by_class[label],
                "elsewhere_of": sum(totals.values()) - totals[label],
                "found": fragment.found,
                "enrichment": fragment.enrichment(label, totals),
                "p": p,
            }
        )
    out = []
    for label in range(classes):
        mine = [row for row in rows if row["class"] == label and row["enrichment"] > 1]
        out += mine[:most]
    return out
