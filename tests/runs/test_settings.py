"""The published settings, cell by cell as the paper's code has them; how settings are put together."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from ciga import options
from ciga.data.dataset import datasets
from ciga.errors import UsageError
from ciga.methods.base import methods
from ciga.nn.encoder import Backbone
from ciga.registry import load_plugin
from ciga.runs import settings
from ciga.runs.settings import read_settings, resolve, trials
from ciga.training.schedule import Training

GCN, GIN = "gcn-ogb", "gin"
#: dataset, bias, (layers, conv, readout), (featurizer, classifier) width, dropout, s_c,
#: (input, contrast), v1, v2
TABLE: list[tuple[Any, ...]] = [
    ("spmotif-struc", 0.33, (3, GCN, "mean"), (32, 32), 0.0, 0.25, ("feat", "feat"), 8.0, (8.0, 1.0)),
    ("spmotif-struc", 0.6, (3, GCN, "mean"), (32, 32), 0.0, 0.25, ("feat", "feat"), 0.5, (4.0, 2.0)),
    ("spmotif-struc", 0.9, (3, GCN, "mean"), (32, 32), 0.0, 0.25, ("feat", "feat"), 4.0, (4.0, 2.0)),
    ("spmotif-mixed", 0.33, (3, GCN, "mean"), (32, 32), 0.0, 0.25, ("feat", "feat"), 16.0, (32.0, 1.0)),
    ("spmotif-mixed", 0.6, (3, GCN, "mean"), (32, 32), 0.0, 0.25, ("feat", "feat"), 8.0, (8.0, 1.0)),
    ("spmotif-mixed", 0.9, (3, GCN, "mean"), (32, 32), 0.0, 0.25, ("feat", "feat"), 1.0, (4.0, 2.0)),
    ("nci1", None, (3, GCN, "mean"), (32, 32), 0.3, 0.6, ("feat", "feat"), 0.5, (1.0, 1.0)),
    ("nci109", None, (3, GCN, "mean"), (32, 32), 0.3, 0.7, ("feat", "feat"), 2.0, (2.0, 1.0)),
    ("proteins", None, (3, GIN, "max"), (32, 32), 0.3, 0.3, ("raw", "rep"), 0.5, (0.5, 1.0)),
    ("dd", None, (3, GCN, "mean"), (32, 32), 0.3, 0.3, ("raw", "rep"), 2.0, (2.0, 1.0)),
    ("cmnist-sp", None, (3, GCN, "mean"), (32, 128), 0.5, 0.8, ("raw", "feat"), 32.0, (16.0, 16.0)),
    ("graph-sst5", None, (3, GCN, "mean"), (128, 128), 0.5, 0.5, ("raw", "feat"), 8.0, (4.0, 1.0)),
    ("graph-twitter", None, (3, GCN, "mean"), (128, 128), 0.5, 0.6, ("feat", "feat"), 8.0, (8.0, 0.5)),
    ("drugood-*-assay", None, (4, GIN, "sum"), (128, 128), 0.5, 0.8, ("raw", "feat"), 8.0, (1.0, 1.0)),
    ("drugood-*-scaffold", None, (4, GIN, "sum"), (128, 128), 0.5, 0.8, ("feat", "feat"), 32.0, (16.0, 1.0)),
    ("drugood-*-size", None, (4, GIN, "sum"), (128, 128), 0.1, 0.8, ("feat", "feat"), 16.0, (2.0, 1.0)),
]


def rules(preset: str = "published") -> list[dict[str, Any]]:
    return tomllib.loads((files(settings) / f"{preset}.toml").read_text())["rule"]


@pytest.mark.parametrize("row", TABLE, ids=lambda r: f"{r[0]}-{r[1]}")
@pytest.mark.parametrize("method", ["ciga-v1", "ciga-v2"])
def test_the_published_table(method: str, row: tuple[Any, ...]) -> None:
    dataset, bias, net, widths, dropout, size, inputs, v1, v2 = row
    name = dataset.replace("*", "lbap-core-ec50")
    data = {} if bias is None else {"bias": bias}
    found = resolve(method, dataset=name, data=data, preset="published").flat()
    assert (found["layers"], found["conv"], found["readout"]) == net
    assert (found["width"], found["classifier_width"] or found["width"]) == widths
    assert found["dropout"] == dropout
    assert (found["budget"], found["size"]) == ("ratio", size)
    assert (found["classifier_input"], found["contrast_input"]) == inputs
    assert (found["alpha"] if method == "ciga-v1" else (found["alpha"], found["beta"])) == (
        v1 if method == "ciga-v1" else v2
    )
    assert found["lr"] == 1e-3
    assert found["weight_decay"] == 0.0
    assert found["batch_size"] == (128 if "drugood" in dataset else 32)
    assert found["patience"] == 5


@pytest.mark.parametrize("row", TABLE, ids=lambda r: f"{r[0]}-{r[1]}")
def test_baselines_share_the_network_and_have_no_term_of_another_method(row: tuple[Any, ...]) -> None:
    dataset, bias, net, widths, dropout, *_ = row
    name = dataset.replace("*", "lbap-core-ic50")
    data = {} if bias is None else {"bias": bias}
    found = resolve("erm", dataset=name, data=data, preset="published").flat()
    assert (found["layers"], found["conv"], found["readout"]) == net
    assert (found["width"], found["dropout"]) == (widths[0], dropout)
    assert "alpha" not in found


def test_every_interpretable_baseline_has_the_datasets_s_c() -> None:
    """ASAP calls it `ratio`, the others `size`."""
    for dataset in datasets:
        found = {
            m: resolve(m, dataset=dataset, preset="published").flat() for m in ("asap", "dir", "ciga-v1")
        }
        assert found["asap"]["ratio"] == found["dir"]["size"] == found["ciga-v1"]["size"]


def test_gamma_networks_are_trained_as_in_their_own_paper() -> None:
    for name in ("gamma-1hot", "gamma-gin", "gamma-rpgin"):
        found = resolve(name, dataset="nci1", preset="published").flat()
        assert (found["layers"], found["readout"], found["hidden"], found["dropout"]) == (2, "sum", 128, 0.3)
        assert (found["epochs"], found["lr"], found["batch_size"], found["width"]) == (1000, 5e-3, 128, 64)
    assert resolve("gamma-rpgin", dataset="nci1", preset="published").flat()["permutations"] == 3


def matches(names: Iterable[str], patterns: str | list[str]) -> list[list[str]]:
    """The names that each pattern is for; none may be for nothing."""
    patterns = patterns if isinstance(patterns, list) else [patterns]
    found = [[n for n in names if settings.fnmatchcase(n, p)] for p in patterns]
    assert all(found), patterns
    return found


@pytest.mark.parametrize("preset", settings.presets())
def test_every_rule_names_things_that_exist(preset: str) -> None:
    for rule in rules(preset):
        assert set(rule) <= {"dataset", "method", "data", "set", "option"}
        fits = [m for some in matches(methods, rule.get("method", "*")) for m in some]
        assert fits, rule
        general = {*options.fields_of(Backbone), *options.fields_of(Training)}
        for method in fits:  # what is set has to exist for every method the rule is for
            assert set(rule.get("set", {})) <= {*general, *options.fields_of(methods[method])}, (method, rule)
            # A method that settles needs trials, and they may be another rule's.
            resolve(method, {"trial": 5, **rule.get("set", {})}, preset="none")
        for key in rule.get("option", {}):
            assert any(key in options.fields_of(methods[m]) for m in fits), rule
        targets = [d for some in matches(datasets, rule["dataset"]) for d in some]
        for key in rule.get("data", {}):
            assert all(key in options.fields_of(datasets[d]) for d in targets), rule


@pytest.mark.parametrize("preset", settings.presets())
def test_every_search_names_things_that_exist(preset: str) -> None:
    for search in tomllib.loads((files(settings) / f"{preset}.toml").read_text()).get("search", []):
        assert set(search) == {"dataset", "methods", "trials"}
        assert matches(datasets, search["dataset"])
        assert set(search["methods"]) <= set(methods)
        assert search["trials"] > 0


def test_a_preset_says_how_many_trials_chose_it() -> None:
    assert trials("tuned", "nci1", "ciga-v2") == trials("tuned", "dd", "erm") == 8
    assert trials("ensemble", "nci1", "erm") == 8  # its settings are those of the preset below it
    assert trials("tuned", "nci1", "dir") == 0  # nobody searched it there
    assert trials("published", "nci1", "erm") == trials("none", "nci1", "erm") == 0


# ---------------------------------------------------------------- how they are put together


def test_tuned_is_published_where_nothing_was_searched_again() -> None:
    for dataset in ("graph-sst5", "drugood-ec50-assay", "cmnist-sp"):
        assert resolve("ciga-v2", dataset=dataset) == resolve("ciga-v2", dataset=dataset, preset="published")
    for dataset in ("nci1", "nci109", "proteins", "dd"):  # one rule for several datasets
        assert resolve("gib", dataset=dataset).training.balanced
        assert not resolve("gib", dataset=dataset, preset="published").training.balanced
    data = {"bias": 0.9, "variant": "clean"}
    tuned = resolve("ciga-v2", dataset="spmotif-struc", data=data).flat()
    published = resolve("ciga-v2", dataset="spmotif-struc", data=data, preset="published").flat()
    differing = {k for k in tuned if tuned[k] != published[k]}
    network = {"walks", "averaging", "gate_price", "gate_speed"}
    assert differing == {"budget", "classifier_input", "contrast_input", "alpha", "beta", *network}
    # Network and schedule are the same for every method, and so is the budget, for those that have one.
    for method in ("erm", "asap", "dir", "gsat", "ciga-v1", "ciga-complement"):
        for data in ({"variant": "clean"}, {"variant": "paper"}):
            other = resolve(method, dataset="spmotif-mixed", data=data)
            mine = resolve("ciga-v2", dataset="spmotif-struc", data=data)
            assert (other.backbone, other.training) == (mine.backbone, mine.training)
            assert other.backbone.undirected == (data["variant"] == "paper")  # edges stored once
            for option in ("budget", "size", "classifier_input"):
                assert other.flat().get(option, tuned[option]) == tuned[option]


def test_an_ensemble_is_tuned_with_three_networks_of_all_that_have_more_than_one_solution() -> None:
    for method in methods:
        for dataset in ("nci1", "dd"):
            one, three = (resolve(method, dataset=dataset, preset=p) for p in ("tuned", "ensemble"))
            assert three.training.members == (1 if methods[method].closed_form else 3), method
            assert {**three.flat(), "members": 1} == one.flat()
        assert resolve(method, dataset="cmnist-sp", preset="ensemble").training.members == 1


def test_the_users_word_wins_over_the_preset_over_the_default() -> None:
    plain = resolve("ciga-v2", preset="none").flat()
    assert (plain["dropout"], plain["width"]) == (0.0, 32)
    published = resolve("ciga-v2", dataset="nci1", preset="published").flat()
    assert published["dropout"] == 0.3
    mine = resolve("ciga-v2", {"dropout": "0.1", "budget": "count", "size": "8"}, dataset="nci1").flat()
    assert (mine["dropout"], mine["budget"], mine["size"]) == (0.1, "count", 8.0)


def test_what_differs_from_the_defaults() -> None:
    assert resolve("ciga-v2", preset="none").changed() == {}
    assert resolve("ciga-v2", {"beta": "0", "lr": "1e-3"}, preset="none").changed() == {"beta": 0.0}


def test_mistakes() -> None:
    with pytest.raises(UsageError, match=r"no setting of ciga-v2 called 'alhpa'\. Did you mean alpha"):
        resolve("ciga-v2", {"alhpa": 1})
    with pytest.raises(UsageError, match="no setting of erm called 'alpha'"):
        resolve("erm", {"alpha": 1})
    with pytest.raises(UsageError, match=r"no preset called 'publisht'\. Did you mean published"):
        resolve("erm", preset="publisht")
    with pytest.raises(UsageError, match="budget=count keeps a whole number"):
        resolve("ciga-v2", {"budget": "count"})


def test_the_groups_of_settings_share_no_name() -> None:
    """Otherwise one flat mapping could not say it all."""
    shared = {*options.fields_of(Backbone)} & {*options.fields_of(Training)}
    for name in methods:
        own = {*options.fields_of(methods[name])}
        shared |= own & {*options.fields_of(Backbone), *options.fields_of(Training)}
    assert shared == set()


def test_a_method_cannot_take_the_name_of_a_general_option(plugin: Callable[..., Path]) -> None:
    """The one would silently stand for the other."""
    file = plugin(
        "from dataclasses import dataclass\nfrom ciga.methods.erm import ERM\n"
        "from ciga.methods.base import register\n"
        "@register('greedy')\n@dataclass\nclass Greedy(ERM):\n    width: int = 3\n"
    )
    load_plugin(file)
    with pytest.raises(UsageError, match="class Greedy: every run has an option 'width' already"):
        resolve("greedy")


def test_settings_files(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text('alpha = 2.0\nbudget = "count"\nsize = 8\n')
    assert resolve("ciga-v2", read_settings(file), preset="none").changed() == {
        "alpha": 2.0,
        "budget": "count",
        "size": 8.0,
    }
    with pytest.raises(UsageError, match="There is no settings file"):
        read_settings(tmp_path / "nothing.toml")
    for text in (b"alpha = ", b"\xff\xfe"):
        file.write_bytes(text)
        with pytest.raises(UsageError, match="is not a valid TOML file"):
            read_settings(file)


# ---------------------------------------------------------------- one default for every entry point


def test_a_method_means_the_same_wherever_it_is_named() -> None:
    """`ciga run`, `tune`, `fit` and the classifier start from one preset unless told otherwise."""
    from ciga.runs.plan import plan
    from ciga.runs.spec import RunSpec
    from ciga.runs.tune import Search

    assert settings.default_preset("nci1") == "tuned"
    assert settings.default_preset("csv") == settings.default_preset("pyg") == "own-data"
    assert settings.default_preset() == "own-data"  # graphs in memory
    tuned = plan("nci1", "ciga-v2", preset="tuned")
    assert plan("nci1", "ciga-v2").config == plan(RunSpec("nci1", "ciga-v2")).config == tuned.config
    assert Search("nci1", "ciga-v2").plan("nci1", 1, {}).config == tuned.config
    assert resolve("ciga-v2") == resolve("ciga-v2", dataset="csv") == resolve("ciga-v2", preset="own-data")


def test_the_classifier_starts_from_the_same_settings() -> None:
    from ciga.estimator import GraphOODClassifier
    from tests.helpers import random_graph

    graphs = [random_graph(6, 7, seed, y=seed % 2) for seed in range(12)]
    fitted = GraphOODClassifier("erm", epochs=1, warmup=0).fit(graphs, [seed % 2 for seed in range(12)])
    expected = resolve("erm", {"epochs": 1, "warmup": 0}, preset="own-data").flat()
    assert fitted.model_.settings == expected


def test_every_command_says_where_settings_start() -> None:
    from typer.testing import CliRunner

    from ciga.cli import app

    for command in ("run", "tune", "fit"):
        said = " ".join(CliRunner().invoke(app, [command, "--help"], env={"COLUMNS": "1000"}).output.split())
        assert "else own-data for your own files, tuned for every other dataset" in said, command
    said = " ".join(CliRunner().invoke(app, ["bench", "--help"], env={"COLUMNS": "1000"}).output.split())
    assert "published (the default: these are the paper's tables)" in said
