"""The paper's own figures about its datasets, as data (its tables of dataset statistics, appendix)."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class PaperStats:
    """One row of the table: graphs of each part by our names, mean nodes and edges over all graphs, metric.

    `class_shares` are percentages by part; `small` is train and id_val together.
    """

    graphs: dict[str, int]
    nodes_mean: float
    edges_mean: float
    metric: str
    class_shares: dict[str, tuple[float, ...]] = field(default_factory=dict)
    remark: str = ""


def _tu(graphs: tuple[int, int, int], nodes: float, edges: float, **shares: tuple[float, ...]) -> PaperStats:
    parts = dict(zip(("train", "id_val", "ood_test"), graphs, strict=True))
    return PaperStats(parts, nodes, edges, "mcc", shares, "means over all graphs, also those left out")


def _shifted(
    train: int, val: int, test: int, nodes: float, edges: float, metric: str, remark: str = ""
) -> PaperStats:
    return PaperStats({"train": train, "ood_val": val, "ood_test": test}, nodes, edges, metric, remark=remark)


_ONE_WAY = "edges counted once; the data as released (variant=paper), over all parts"
_SPMOTIF = _shifted(9_000, 3_000, 3_000, 44.96, 65.67, "accuracy", _ONE_WAY)

STATS: dict[str, PaperStats] = {
    "spmotif-struc": _SPMOTIF,
    "spmotif-mixed": _SPMOTIF,
    "nci1": _tu(
        (1_942, 215, 412), 29.87, 64.60, all=(49.95, 50.04), small=(62.30, 37.69), ood_test=(19.17, 80.82)
    ),
    "nci109": _tu(
        (1_872, 207, 421), 29.68, 64.26, all=(49.62, 50.37), small=(62.04, 37.95), ood_test=(21.37, 78.62)
    ),
    "proteins": _tu(
        (511, 56, 112), 39.06, 145.63, all=(59.56, 40.43), small=(41.97, 58.02), ood_test=(90.17, 9.82)
    ),
    "dd": _tu(
        (533, 59, 118), 284.32, 1431.32, all=(58.65, 41.34), small=(35.47, 64.52), ood_test=(79.66, 20.33)
    ),
    "graph-sst5": _shifted(6_090, 1_186, 2_240, 19.85, 37.70, "accuracy"),
    "graph-twitter": _shifted(3_238, 694, 1_509, 21.10, 40.20, "accuracy"),
    "cmnist-sp": _shifted(40_000, 5_000, 15_000, 56.90, 373.85, "accuracy"),
    "drugood-ic50-assay": _shifted(34_179, 19_028, 19_032, 32.27, 70.25, "roc_auc"),
    "drugood-ic50-scaffold": _shifted(21_519, 19_041, 19_048, 29.95, 64.86, "roc_auc"),
    "drugood-ic50-size": _shifted(36_597, 17_660, 16_415, 30.73, 66.90, "roc_auc"),
}
