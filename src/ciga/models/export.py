"""A model as one file for other programs: `torch.export` or ONNX.

`ciga.models.fixed_shapes` is the forward pass that is written, and says what it takes and gives. The file is
checked against the model on random graphs before it is kept.
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ciga.errors import CigaError, MissingExtra, UsageError
from ciga.files import atomic
from ciga.graphs.store import Batch, GraphStore
from ciga.models.fixed_shapes import EXPORTABLE, Exportable
from ciga.models.model import Model

FORMATS = {"torch-export": ".pt2", "onnx": ".onnx"}
CONVS = ("gcn", "gcn-ogb", "gin")
#: The largest difference between the exported and the original probabilities that is let pass.
TOLERANCE = 1e-5


def export(model: Model, path: str | Path, kind: str = "torch-export", graphs: int = 12) -> float:
    """Write the model; returns the largest difference from the original on random graphs of other sizes.

    Args:
        model: The model to write.
        path: The file.
        kind: One of `FORMATS`.
        graphs: The number of random graphs in each of the two checks.
    """
    if kind not in FORMATS:
        raise UsageError(f"There is no export format '{kind}': use {' or '.join(FORMATS)}.")
    _check_exportable(model)
    module = Exportable(model).eval()
    example = inputs_of(_random_store(model, 5, 4, 9, 0).batch(slice(None)), module.uses_edge_attr)
    limits = {"nodes": 2, "edges": 4, "graphs": 1}
    node, edge, graph = (torch.export.Dim(name, min=least) for name, least in limits.items())
    shapes: list[Any] = [
        {0: node},
        {1: edge},
        {0: edge} if module.uses_edge_attr else None,
        {0: node},
        {0: graph},
    ]
    checks = [
        _random_store(model, graphs, low, high, 1 + i) for i, (low, high) in enumerate(((3, 8), (15, 40)))
    ]
    with torch.no_grad(), atomic(path) as temporary:
        program = torch.export.export(module, example, dynamic_shapes=tuple(shapes), strict=False)
        if kind == "torch-export":
            packed = io.BytesIO()  # torch writes to a disk that is full with words of its own
            torch.export.save(program, packed)
            temporary.write_bytes(packed.getbuffer())
            exported = program.module()
            worst = max(_gap(model, store, module, lambda *a: exported(*a)[0]) for store in checks)
        else:
            worst = _onnx(model, program, example, checks, temporary, module)
        if not worst <= TOLERANCE:
            raise CigaError(
                f"The exported model differs from the original by {worst:.2g} on random graphs: not written."
            )
    return worst


def _onnx(
    model: Model,
    program: Any,
    example: tuple[Any, ...],
    checks: list[GraphStore],
    path: Path,
    module: Exportable,
) -> float:
    try:
        import onnxruntime
        import onnxscript  # noqa: F401
    except ImportError:
        raise MissingExtra("onnx, onnxscript and onnxruntime", "export") from None
    names = ["x", "edge_index", *(["edge_attr"] if module.uses_edge_attr else []), "batch", "sizes"]
    outputs = ["probability", *(["score", "kept"] if module.extracts else [])]
    made = torch.onnx.export(
        program,
        example,
        input_names=names,
        output_names=outputs,
        dynamo=True,
        verbose=False,
        external_data=False,
    )
    assert made is not None
    content = made.model_proto.SerializeToString()
    path.write_bytes(content)
    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 3, 1
    session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])

    def run(*values: Tensor | None) -> Tensor:
        given = [v.numpy() for v in values if v is not None]
        wanted = [i.name for i in session.get_inputs()]
        fed = {name: value for name, value in zip(names, given, strict=True) if name in wanted}
        return torch.from_numpy(session.run(["probability"], fed)[0])

    return max(_gap(model, store, module, run) for store in checks)


def inputs_of(batch: Batch, edge_attr: bool) -> tuple[Any, ...]:
    """A batch as the exported program takes it."""
    sizes = torch.bincount(batch.batch, minlength=batch.num_graphs)
    return batch.x, batch.edge_index.long(), batch.edge_attr if edge_attr else None, batch.batch, sizes


def _gap(model: Model, store: GraphStore, module: Exportable, run: Any) -> float:
    batch = store.batch(slice(None))
    found = run(*inputs_of(batch, module.uses_edge_attr))
    return float((found - model.predict(batch).probability).abs().max())


def exportable(model: Model) -> bool:
    """Whether `export` can write this model."""
    try:
        _check_exportable(model)
    except UsageError:
        return False
    return True


def _check_exportable(model: Model) -> None:
    if model.shares:
        raise UsageError(f"A {model.label} cannot be exported: choose one of them, --member NAME.")
    conv = model.chosen.backbone.conv
    if conv not in CONVS:
        raise UsageError(
            f"A model with conv={conv} cannot be exported: train it with conv={', '.join(CONVS)}."
        )
    if model.chosen.backbone.undirected:
        raise UsageError(
            "A model with undirected=true cannot be exported: store its edges in both directions and train "
            "it without."
        )
    if model.chosen.backbone.walks:
        raise UsageError(
            "A model with walks cannot be exported: train it without, or give their return probabilities as "
            "node features of the data."
        )
    if not all(type(m) in EXPORTABLE for m in model.members):
        raise UsageError(
            f"A model of {model.method_name} cannot be exported: use erm, ciga-v1, ciga-v2, gsat or dir."
        )


def _random_store(model: Model, graphs: int, low: int, high: int, seed: int) -> GraphStore:
    """Random connected graphs with the model's numbers of features, `low` to `high` nodes each."""
    rng = torch.Generator().manual_seed(seed)
    nodes = torch.randint(low, high, (graphs,), generator=rng).tolist()
    rows, features = [], []
    for n in nodes:
        tree = [(i, int(torch.randint(i, (1,), generator=rng))) for i in range(1, n)]
        more = torch.randint(n, (n, 2), generator=rng).tolist()
        pairs = sorted({(min(e), max(e)) for e in [*tree, *map(tuple, more)] if e[0] != e[1]})
        rows.append(torch.tensor([e for u, v in pairs for e in ((u, v), (v, u))]).t())
        features.append(torch.randn(n, model.spec.features, generator=rng))
    edges = torch.tensor([r.size(1) for r in rows])
    width = model.spec.edge_features
    attr = torch.randn(int(edges.sum()) // 2, width, generator=rng).repeat_interleave(2, 0) if width else None
    zero = torch.zeros(1, dtype=torch.long)
    return GraphStore(
        torch.cat(features),
        torch.cat(rows, 1),
        torch.cat([zero, torch.tensor(nodes).cumsum(0)]),
        torch.cat([zero, edges.cumsum(0)]),
        edge_attr=attr,
    )
