"""A method and a dataset from outside files: two import lines each, and every command takes them."""

from __future__ import annotations

import csv
import io
import json
import os
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import ciga as library
from ciga.data.dataset import Dataset
from ciga.data.dataset import make as make_dataset
from ciga.errors import UsageError
from ciga.methods.base import Method, Step, make
from ciga.methods.contract import check_inference, check_terms
from ciga.models.model import Model
from ciga.registry import load_plugin
from ciga.runs.plan import plan
from ciga.runs.settings import resolve
from ciga.training.loop import fit
from ciga.training.schedule import Training
from tests.helpers import ciga, in_own_process

Plugin = Callable[..., Path]
Command = Callable[..., tuple[int, str, str]]

MIXUP = '''
from dataclasses import dataclass
from ciga.methods import Method, Step, cross_entropy, register, tunable

@register("mixup")
@dataclass
class Mixup(Method):
    """min CE of a mixture of two graphs' representations under both labels (Zhang et al., 2018)."""

    summary = "mixtures of two graphs have a mixture of their labels"
    least: float = tunable(0.5, [0.5, 0.8], low=0.5, high=1.0, help="least share of the first graph")

    def loss(self, network, batch, step):
        z = network.represent(batch)
        share = z.new_empty(len(z)).uniform_(self.least, 1.0)
        other = z.new_empty(len(z)).uniform_().argsort()
        logits = network.head(share[:, None] * z + (1 - share)[:, None] * z[other])
        first, second = cross_entropy(logits, batch.y), cross_entropy(logits, batch.y[other])
        return {"mixed": (share * first + (1 - share) * second).mean()}
'''

RINGS = '''
import torch
from ciga.data import Dataset, GraphStore, Splits, Task, register

@register("rings")
class Rings(Dataset):
    """Is the graph a ring or a path? Rings are longer in the test."""

    summary, shift, classes = "rings and paths", "size", 2

    def build(self, progress):
        sizes = {"train": (4, 16), "id_val": (5, 13), "ood_val": (16, 24), "ood_test": (24, 34)}
        parts = {name: part(range(*some)) for name, some in sizes.items()}
        return Splits(parts, Task(2, "accuracy", ("path", "ring")))

def part(sizes):
    ends = [[(i, (i + 1) % n) for i in range(n - 1 + n // 2 % 2)] for n in sizes]
    edges = torch.tensor([e for some in ends for u, v in some for e in ((u, v), (v, u))]).T
    nodes, rows = torch.tensor(list(sizes)), torch.tensor([2 * len(some) for some in ends])
    pointers = [torch.cat([torch.zeros(1, dtype=torch.long), count.cumsum(0)]) for count in (nodes, rows)]
    return GraphStore(torch.ones(int(nodes.sum()), 1), edges, *pointers, nodes // 2 % 2)
'''
SMALL = ["--set=layers=2", "--set=width=8", "--set=batch_size=6"]


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Command:
    monkeypatch.chdir(tmp_path)
    return lambda *words: ciga(monkeypatch, capsys, *words)


@pytest.fixture
def both(plugin: Plugin) -> list[str]:
    """Both files, as words of a command."""
    return ["--plugin", str(plugin(MIXUP, "mixup.py")), "--plugin", str(plugin(RINGS, "rings.py"))]


def test_they_are_short_and_import_two_lines() -> None:
    for text, most in ((MIXUP, 20), (RINGS, 30)):
        lines = text.strip().splitlines()
        assert len(lines) < most
        assert len([line for line in lines if line.startswith(("import ", "from "))]) == 2


def test_run(command: Command, both: list[str]) -> None:
    code, out, err = command("run", "rings", "mixup", *both, *SMALL, "--epochs=2", "--preset=none", "--json")
    assert code == 0, err
    record = json.loads(out)
    assert [set(row["terms"]) for row in record["history"]] == [{"mixed"}] * 2
    assert {"plugin:mixup.py", "plugin:rings.py"} <= record["identity"].keys()


def test_the_next_command_names_them(command: Command, both: list[str]) -> None:
    given = shlex.join(both)
    assert f"ciga run spmotif-struc mixup {given} " in command("methods", "mixup", *both)[2]
    assert f"ciga run rings ciga-v2 {given} " in command("datasets", "rings", *both)[2]


def test_tune(command: Command, both: list[str]) -> None:
    words = [
        "tune",
        "rings",
        "mixup",
        *both,
        *SMALL,
        "--epochs=1",
        "--preset=none",
        "--over=least",
        "--trials=2",
    ]
    code, out, err = command(*words)
    assert code == 0, err
    assert "least" in out


def test_fit_and_predict(command: Command, both: list[str], tmp_path: Path) -> None:
    words = ["fit", "rings", "--method=mixup", *both, *SMALL, "--epochs=1", "--seeds=1", "--preset=none"]
    code, out, err = command(*words, "--out=model", "--json", "--runs-dir", tmp_path / "runs")
    assert code == 0, err
    assert json.loads(out)["method"] == "mixup"
    about = json.loads((tmp_path / "model" / "model.json").read_text())
    assert about["plugins"] == {"mixup.py": load_plugin(both[1])}
    assert Model.load("model").method_name == "mixup"


def test_bench(command: Command, both: list[str]) -> None:
    """The method as a row of a table and the dataset as a column, by worker processes, then the table."""
    words = ["--row=Mixup=mixup", "--column=Rings=rings", "--methods=erm", "--datasets=none", "--seeds=1"]
    code, _, err = command(
        "bench", "table-spmotif", *both, *words, *SMALL, "--epochs=1", "--preset=none", "--workers=1"
    )
    assert code == 0, err
    assert "2 runs, 0 recorded before, 2 done now, 0 failed" in err
    code, out, err = command("table", "table-spmotif", "--format=csv")
    assert code == 0, err
    rows = [row for row in csv.DictReader(io.StringIO(out)) if row["seeds"] == "1"]
    assert [(row["dataset"], row["method"]) for row in rows] == [("rings", "erm"), ("rings", "mixup")]
    assert {row["metric"] for row in rows} == {"accuracy"}


# ---------------------------------------------------------------- named by the environment


def test_the_environment_names_plugins_for_every_entry(plugin: Plugin, tmp_path: Path) -> None:
    named = os.pathsep.join([str(plugin(MIXUP, "mixup.py")), str(plugin(RINGS, "rings.py"))])
    code = "import ciga; print(sorted(ciga.plan('rings', 'mixup', preset='none').config.identity))"
    words, environment = in_own_process(CIGA_PLUGINS=named)
    found = subprocess.run(
        [words[0], "-c", code], env=environment, capture_output=True, text=True, timeout=300, cwd=tmp_path
    )
    assert found.stdout.strip() == "['plugin:mixup.py', 'plugin:rings.py']", found.stderr
    words, environment = in_own_process("methods", "--json", CIGA_PLUGINS=named)
    shown = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=300, cwd=tmp_path)
    assert "mixup" in json.loads(shown.stdout), shown.stderr


def test_a_plugin_is_part_of_a_run_however_it_was_named(both: list[str]) -> None:
    files = both[1::2]
    named = plan("rings", "mixup", preset="none", plugins=files).config
    assert named.hash == plan("rings", "mixup", preset="none").config.hash  # loaded by now
    assert named.identity.keys() == {"plugin:mixup.py", "plugin:rings.py"}


def test_an_edited_plugin_takes_the_place_of_its_older_self(plugin: Plugin) -> None:
    load_plugin(plugin(MIXUP, "mixup.py"))
    load_plugin(plugin(MIXUP.replace("0.5, [0.5, 0.8]", "0.9, [0.9]"), "mixup.py"))
    assert make("mixup").least == 0.9  # type: ignore[attr-defined]


def test_a_model_without_its_plugin_says_so(command: Command, plugin: Plugin, tmp_path: Path) -> None:
    file = plugin(MIXUP, "mixup.py")
    code, _, err = command(
        "fit", "spmotif-struc", "--method=mixup", "--plugin", file, *SMALL, "--epochs=1", "--seeds=1",
        "--preset=none", "--out=model", "--runs-dir", tmp_path / "runs",
        *(f"--data={k}_per_class=4" for k in ("train", "val", "test")),
    )  # fmt: skip
    assert code == 0, err
    from ciga.methods.base import methods

    del methods._members["mixup"]
    with pytest.raises(UsageError, match=r"'mixup' of the plugin mixup\.py: name that file with --plugin"):
        Model.load("model")
    with pytest.raises(UsageError, match="A method of your own needs --plugin FILE or CIGA_PLUGINS=FILE"):
        methods["mixup"]


# ---------------------------------------------------------------- mistakes

DECLARED = MIXUP.replace("@dataclass\n", "")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (DECLARED, r"class Mixup: its options \(least\) need  @dataclass  right below @register"),
        (MIXUP.replace("    summary = ", "    about = "), 'write  summary = "…"'),
        (MIXUP.replace("(Method)", ""), r"a method is a Method, write  class Mixup\(Method\):"),
        (MIXUP.replace("def loss", "def lost"), r"write  def loss\(self, network, batch, step\):"),
        (MIXUP.replace("network, batch, step", "network, batch"), "loss takes other arguments, write"),
        (RINGS.replace("def build", "def make"), r"write  def build\(self, progress\):"),
        (RINGS.replace("self, progress", "self"), "build takes other arguments, write  def build"),
        (RINGS.replace("(Dataset)", ""), "a dataset is a Dataset"),
    ],
)  # fmt: skip
def test_what_cannot_be_registered(plugin: Plugin, text: str, says: str) -> None:
    file = plugin(text)
    with pytest.raises(UsageError, match=says) as error:
        load_plugin(file)
    assert str(file) in str(error.value)
    assert "\n" not in str(error.value)


def test_a_dataset_that_builds_something_else(plugin: Plugin) -> None:
    file = plugin(
        RINGS.replace('return Splits(parts, Task(2, "accuracy", ("path", "ring")))', "return parts")
    )
    load_plugin(file)
    with pytest.raises(UsageError, match=r"build returned a dict, write  return Splits\(") as error:
        make_dataset("rings").build()
    assert str(file) in str(error.value)


def test_an_option_that_every_run_has(plugin: Plugin) -> None:
    file = plugin(MIXUP.replace("least", "epochs"))
    load_plugin(file)
    with pytest.raises(UsageError, match="every run has an option 'epochs' already") as error:
        resolve("mixup", preset="none")
    assert str(file) in str(error.value)


@pytest.mark.parametrize(
    ("returned", "says"),
    [
        ("term", r"loss returned a Tensor, write  return \{'risk': …\}"),
        ("{}", "loss returned an empty dict"),
        ("{'risk': term.item()}", "the loss term 'risk' is a float, return the tensor itself"),
        ("{'risk': term, 'more': term.detach()}", "the loss term 'more' has no gradient"),
        ("{'risk': first}", r"the loss term 'risk' has the shape \(12,\), write  .mean\(\)"),
    ],
)
def test_a_loss_that_is_none_stops_at_the_first_step(plugin: Plugin, returned: str, says: str) -> None:
    text = MIXUP.replace('return {"mixed": ', "term = ").replace(".mean()}", ".mean()")
    file = plugin(f"{text.rstrip()}\n        return {returned}\n")
    load_plugin(file)
    load_plugin(plugin(RINGS, "rings.py"))
    with pytest.raises(UsageError, match=says) as error:
        fit(make("mixup"), library.load("rings"), training=Training(epochs=1), device="cpu")
    assert str(file) in str(error.value)


def test_terms_and_inferences_of_our_own_are_in_order() -> None:
    """The checks name what is wrong, and only that."""
    method = make("erm")
    weight = nn.Parameter(torch.ones(()))
    check_terms(method, {"risk": weight * 2})
    with pytest.raises(UsageError, match=r"infer returned a Tensor, write  return Inference\("):
        check_inference(method, torch.zeros(3, 2), 3)


def test_the_doors_names() -> None:
    """What the pages tell people to import."""
    import ciga.data
    import ciga.methods

    for name in (
        "Method",
        "ExtractingMethod",
        "EnvironmentMethod",
        "Step",
        "register",
        "tunable",
        "cross_entropy",
    ):
        assert hasattr(ciga.methods, name)
    for name in ("Dataset", "Splits", "Task", "GraphStore", "register"):
        assert hasattr(ciga.data, name)
    assert issubclass(ciga.methods.ExtractingMethod, Method)
    assert ciga.data.Dataset is Dataset
    assert ciga.methods.Step is Step
    assert isinstance(ciga.methods.cross_entropy(torch.zeros(2, 3), torch.tensor([0, 1])), Tensor)
