"""Scores of predictions and of explanations, as plain floats.

Classification metrics take probabilities [n, C] and labels [n]. A metric that is not defined on the data
(ROC-AUC with one class present) is NaN, never a made-up number.
"""

from __future__ import annotations

import torch
from torch import Tensor

METRICS = ("accuracy", "roc_auc", "mcc", "balanced_accuracy", "worst_class", "log_loss", "ece")
#: Scores of edge scores against the true subgraph.
EXPLANATION_METRICS = ("edge_auroc", "precision_at_k")
#: Metrics for which less is better.
LOWER_IS_BETTER = frozenset({"log_loss", "ece"})


def classification(logits: Tensor, y: Tensor) -> dict[str, float]:
    """All classification metrics from class scores [n, C]."""
    logits, y = logits.double().cpu(), y.cpu()
    probability = logits.softmax(1)
    predicted = logits.argmax(1)
    table = confusion(predicted, y, logits.size(1))
    present = table.sum(1) > 0
    recall = table.diag()[present] / table.sum(1)[present]
    return {
        "accuracy": float((predicted == y).double().mean()),
        "roc_auc": roc_auc(probability, y),
        "mcc": mcc(table),
        "balanced_accuracy": float(recall.mean()),
        "worst_class": float(recall.min()),
        "log_loss": float(-logits.log_softmax(1).gather(1, y[:, None]).mean()),
        "ece": calibration_error(probability, y),
    }


def confusion(predicted: Tensor, y: Tensor, classes: int) -> Tensor:
    """Counts [true class, predicted class]."""
    return torch.bincount(y * classes + predicted, minlength=classes**2).view(classes, classes).double()


def mcc(table: Tensor) -> float:
    """Matthews correlation coefficient (Gorodkin's for several classes); 0 where a margin is constant."""
    n, correct = table.sum(), table.diag().sum()
    true, predicted = table.sum(1), table.sum(0)
    covariance = correct * n - true @ predicted
    spread = (n * n - predicted @ predicted) * (n * n - true @ true)
    return float(covariance / spread.sqrt()) if spread > 0 else 0.0


def roc_auc(probability: Tensor, y: Tensor) -> float:
    """Area under the ROC curve; for several classes the mean of one-versus-rest over the classes present."""
    columns = [1] if probability.size(1) == 2 else range(probability.size(1))
    areas = []
    for column in columns:
        truth = y == column
        if 0 < int(truth.sum()) < truth.numel():
            group = torch.zeros_like(y)
            areas.append(float(grouped_auroc(probability[:, column], truth, group, 1)[0]))
    return sum(areas) / len(areas) if areas else float("nan")


def calibration_error(probability: Tensor, y: Tensor, bins: int = 15) -> float:
    """Expected calibration error: mean gap between confidence and accuracy over equal-width bins."""
    confidence, predicted = probability.max(1)
    place = (confidence * bins).long().clamp(max=bins - 1)
    gap = torch.zeros(bins, dtype=torch.double).index_add_(0, place, confidence - (predicted == y).double())
    return float(gap.abs().sum() / y.numel())


def grouped_auroc(score: Tensor, truth: Tensor, group: Tensor, groups: int) -> Tensor:
    """ROC-AUC within each group, [groups]; NaN where positives or negatives are lacking. Ties count half.

    Args:
        score: Of each element [n].
        truth: Whether an element is positive [n].
        group: The group of each element [n].
        groups: The number of groups.
    """
    # Two stable sorts: by score, then by group. Within a group, ties share the mean of their ranks.
    order = score.argsort(stable=True)
    order = order[group[order].argsort(stable=True)]
    s, t, g = score[order], truth[order].double(), group[order]
    size = torch.bincount(group, minlength=groups)
    rank = torch.arange(s.numel(), dtype=torch.double) - (size.cumsum(0) - size)[g] + 1
    fresh = torch.ones_like(s, dtype=torch.bool)
    fresh[1:] = (s[1:] != s[:-1]) | (g[1:] != g[:-1])
    run = fresh.cumsum(0) - 1
    mean_rank = torch.zeros(int(run[-1]) + 1 if run.numel() else 0, dtype=torch.double)
    mean_rank = mean_rank.index_add_(0, run, rank) / torch.bincount(run)
    positive = torch.zeros(groups, dtype=torch.double).index_add_(0, g, t)
    ranks = torch.zeros(groups, dtype=torch.double).index_add_(0, g, t * mean_rank[run])
    pairs = positive * (size - positive)
    area = (ranks - positive * (positive + 1) / 2) / pairs
    return area.masked_fill(pairs == 0, torch.nan)


def explanation(score: Tensor, truth: Tensor, group: Tensor, groups: int) -> dict[str, float]:
    """How well edge scores find the true edges: the mean over graphs of the AUROC and of precision@k.

    k is the number of true edges of the graph. Graphs without a true or without a false edge do not count.

    Args:
        score: of each undirected edge, [P].
        truth: whether it is a true edge, [P].
        group: the graph that it belongs to, [P], ascending.
        groups: the number of graphs.
    """
    from ciga.graphs.ranking import rank_within

    score, truth, group = score.cpu(), truth.cpu(), group.cpu()
    area = grouped_auroc(score, truth, group, groups)
    counts = area.isfinite()
    if not bool(counts.any()):
        return {}
    size = torch.bincount(group, minlength=groups)
    true = torch.zeros(groups, dtype=torch.long).index_add_(0, group, truth.long())
    hit = (rank_within(score, group, size) < true[group]) & truth
    precision = torch.zeros(groups, dtype=torch.double).index_add_(0, group, hit.double()) / true.clamp(min=1)
    return {"edge_auroc": float(area[counts].mean()), "precision_at_k": float(precision[counts].mean())}
