"""CMNIST-sp: coloured MNIST digits as superpixel graphs; the colour predicts the label, and then lies.

The 60,000 MNIST training images. y = (digit >= 5), flipped with probability `label_noise`. The colour (green
for 0, red for 1) follows y, flipped with a probability of its own in each environment: IRM's colours
(Arjovsky et al., 2019), the superpixels of Knyazev et al. (2019).

| part     | images          | env | colour flipped |
|----------|-----------------|-----|----------------|
| train    | 0 … 19,999      | 0   | 0.2            |
| train    | 20,000 … 39,999 | 1   | 0.1            |
| ood_val  | 5,000 of the rest  | 2 | 0.9           |
| ood_test | 15,000 of the rest | 2 | 0.9           |

About 57 nodes and 374 directed edges per graph. There is no in-distribution validation set: the paper has
none, and its validation set is drawn like the test set.
"""

from __future__ import annotations

import gzip
import hashlib
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch

from ciga import options
from ciga.data.cache import cached, find_raw, raw_file
from ciga.data.dataset import Dataset, register
from ciga.data.datasets.superpixels import SIDE, superpixels
from ciga.errors import CigaError, MissingExtra, UsageError
from ciga.graphs.splits import Splits, Task
from ciga.graphs.store import GraphStore
from ciga.options import tunable
from ciga.parallel import parallel_map
from ciga.progress import Progress, silent

Array = np.ndarray[Any, np.dtype[Any]]

URL = "https://ossci-datasets.s3.amazonaws.com/mnist/{file}"
SOURCE = "the MNIST database (yann.lecun.com/exdb/mnist)"
#: sha256 of what is in the .gz: copies of these files are compressed differently.
FILES = {
    "train-images-idx3-ubyte.gz": "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
    "train-labels-idx1-ubyte.gz": "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
}
VERSION = 1
IMAGES, TRAIN, VALIDATION = 60_000, 40_000, 5_000


@register("cmnist-sp")
@dataclass
class CMNISTSuperpixels(Dataset):
    """Coloured MNIST superpixels (PIIF shift)."""

    seed: int = tunable(0, low=0, help="labels, colours and the cut between validation and test")
    images: int = tunable(IMAGES, low=24, high=IMAGES, help="take fewer, for trying out; same shares")
    label_noise: float = tunable(0.25, low=0, high=1, help="P(label flipped)")
    train_flip: tuple[float, ...] = tunable((0.2, 0.1), help="P(colour flipped) in each training environment")
    ood_flip: float = tunable(0.9, low=0, high=1, help="P(colour flipped) in validation and test")

    summary: ClassVar[str] = "coloured digits as superpixel graphs; the colour turns against the label"
    shift: ClassVar[str] = "attributes (colour)"
    classes: ClassVar[int] = 2
    metric: ClassVar[str] = "accuracy"

    def missing_files(self) -> list[str]:
        return [f"MNIST/raw/{file}" for file in FILES if find_raw(f"MNIST/raw/{file}") is None]

    def build(self, progress: Progress = silent) -> Splits:
        if not self.train_flip or not all(0 <= p <= 1 for p in self.train_flip):
            raise UsageError("train_flip takes one probability a training environment, such as 0.2,0.1.")
        paths = [raw_file(f"MNIST/raw/{f}", url=URL.format(file=f), source=SOURCE) for f in FILES]
        key = {"version": VERSION, **options.as_dict(self)}
        return cached(self.name, key, paths, lambda: self._splits(paths[0], paths[1], progress))

    def _splits(self, image_file: Path, label_file: Path, progress: Progress) -> Splits:
        images = read_idx(image_file, FILES[image_file.name], (IMAGES, SIDE, SIDE))
        digits = read_idx(label_file, FILES[label_file.name], (IMAGES,))
        drawn = self._draw(digits)
        keep = self._rows()
        rows = np.concatenate(list(keep.values()))
        graphs = superpixel_graphs(images[rows], drawn["colour"][rows], progress)
        store = GraphStore(
            *graphs,
            y=torch.from_numpy(drawn["y"][rows]),
            env=torch.from_numpy(drawn["env"][rows]),
            columns={
                "image": torch.from_numpy(rows),
                "digit": torch.from_numpy(digits[rows].astype(np.int64)),
                "colour": torch.from_numpy(drawn["colour"][rows]),
            },
        )
        starts = np.cumsum([0] + [len(index) for index in keep.values()])
        parts = {part: store.subset(slice(starts[i], starts[i + 1])) for i, part in enumerate(keep)}
        notes = {"validation": "drawn like the test set, as in the paper; there is no id_val"}
        if self.images < IMAGES:
            notes["partial"] = f"{len(rows)} of {IMAGES} images, for trying out: not the paper's dataset"
        return Splits(parts, Task(2, self.metric, ("digit < 5", "digit >= 5")), notes)

    def _draw(self, digits: Array) -> dict[str, Array]:
        """Labels, environments and colours of all 60,000 images, whatever part of them is kept."""
        rng = np.random.default_rng(self.seed)
        y = (digits >= 5) ^ (rng.random(IMAGES) < self.label_noise)
        envs = len(self.train_flip)
        env = np.minimum(np.arange(IMAGES) * envs // TRAIN, envs)
        flip = np.array([*self.train_flip, self.ood_flip])[env]
        colour = y ^ (rng.random(IMAGES) < flip)
        return {"y": y.astype(np.int64), "env": env, "colour": colour.astype(np.int64)}

    def _rows(self) -> dict[str, Array]:
        """The images of each part; fewer images are the first ones of every environment and part."""
        envs = len(self.train_flip)
        cut = np.random.default_rng([self.seed, 1]).permutation(np.arange(TRAIN, IMAGES))
        env = np.arange(TRAIN) * envs // TRAIN
        share = self.images / IMAGES
        blocks = [np.flatnonzero(env == e) for e in range(envs)]
        val, test = cut[:VALIDATION], cut[VALIDATION:]
        return {
            "train": np.concatenate([block[: round(len(block) * share)] for block in blocks]),
            "ood_val": np.sort(val[: round(len(val) * share)]),
            "ood_test": np.sort(test[: round(len(test) * share)]),
        }


def read_idx(path: Path, sha256: str, shape: tuple[int, ...]) -> Array:
    """The bytes of a gzipped idx file as an array; its content must have this hash."""
    try:
        with gzip.open(path) as file:
            raw = file.read()
    except (OSError, EOFError, zlib.error) as error:
        raise CigaError(f"{path} is cut short: delete it and get it again from {SOURCE}.") from error
    if hashlib.sha256(raw).hexdigest() != sha256:
        raise CigaError(f"{path} does not hold what was published: delete it and get it again from {SOURCE}.")
    return np.frombuffer(raw, np.uint8, offset=4 + 4 * len(shape)).reshape(shape)


def superpixel_graphs(
    images: Array, colours: Array, progress: Progress = silent, workers: int | None = None
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Grey images [G, 28, 28] in colours [G] (0 green, 1 red): `x`, `edge_index`, `node_ptr`, `edge_ptr`.

    Args:
        images: Grey images, [G, 28, 28].
        colours: 0 for green and 1 for red, [G].
        progress: Told how far it is.
        workers: The number of processes; None: one per core.
    """
    try:
        import skimage.segmentation  # noqa: F401
    except ImportError:
        raise MissingExtra("scikit-image", "images") from None
    items = list(zip(images, colours.tolist(), strict=True))
    graphs = parallel_map(superpixels, items, progress, "superpixels", workers=workers, chunk=500)
    nodes, edges = zip(*graphs, strict=True)
    return (
        torch.from_numpy(np.concatenate(nodes)),
        torch.from_numpy(np.concatenate(edges, axis=1).astype(np.int32)),
        torch.tensor([0, *(len(x) for x in nodes)]).cumsum(0),
        torch.tensor([0, *(e.shape[1] for e in edges)]).cumsum(0),
    )
