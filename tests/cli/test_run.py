"""`ciga run` and `ciga methods` as a user calls them: what is printed, where, and the exit code."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ciga.methods.base import methods
from tests.helpers import SHORT, TINY, ciga, in_own_process, pairs_of

Command = Callable[..., tuple[int, str, str]]

BROKEN = """
from dataclasses import dataclass
from ciga.methods.erm import ERM
from ciga.methods.base import register

@register("broken")
@dataclass
class Broken(ERM):
    "Fails in its first step."

    def loss(self, network, batch, step):
        return {"risk": super().loss(network, batch, step)["risk"] * float("nan")}
"""


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Command:
    monkeypatch.chdir(tmp_path)
    return lambda *words: ciga(monkeypatch, capsys, *words)


def run_words(method: str = "ciga-v2", *more: object, **settings: Any) -> list[object]:
    chosen = {**SHORT, **settings}
    return ["run", "spmotif-struc", method, *pairs_of("--data", TINY), *pairs_of("--set", chosen), *more]


# ---------------------------------------------------------------- done: exit code 0


def test_json_is_one_object_with_everything_in_it(command: Command, tmp_path: Path) -> None:
    code, out, _ = command(*run_words("ciga-v2", "--seed", 7, "--epochs", 1, "--json"))
    assert code == 0
    assert out.count("\n") == 1
    record = json.loads(out)
    wanted = {
        "dataset", "method", "seed", "settings", "data", "fingerprint", "epochs", "seconds", "peak_memory_mb",
        "selected",
    }  # fmt: skip
    assert wanted <= set(record)
    assert (record["dataset"], record["method"], record["seed"]) == ("spmotif-struc", "ciga-v2", 7)
    assert record["data"]["train_per_class"] == 6
    assert record["settings"]["width"] == 8
    assert record["epochs"] == record["settings"]["epochs"] == 1
    assert set(record["selected"]) == {"id-val", "ood-val", "ood-val-rest", "oracle", "last"}
    for chosen in record["selected"].values():
        assert set(chosen) == {"epoch", "train", "id_val", "ood_val", "id_test", "ood_test"}
        for split in chosen.keys() - {"epoch"}:
            assert {"accuracy", "edge_auroc", "precision_at_k"} <= set(chosen[split])
    assert 0 <= record["selected"]["ood-val"]["ood_test"]["accuracy"] <= 1
    assert (tmp_path / "runs" / record["hash"] / "record.json").is_file()


def test_the_same_run_again_prints_the_same_record(command: Command) -> None:
    words = run_words("erm", "--json", epochs=1)
    first, second = (command(*words)[1] for _ in range(2))
    assert json.loads(first) == json.loads(second)


def test_for_people_there_is_a_table(command: Command, tmp_path: Path) -> None:
    code, out, _ = command(*run_words("ciga-v2", "--runs-dir", tmp_path / "mine", epochs=1))
    assert code == 0
    assert "ood-val *" in out
    assert "ood-val-rest" in out
    assert "oracle looks at test data" in out
    assert "edge AUROC" in out
    assert str(tmp_path / "mine") in out.replace("\n", "")
    plain = command(*run_words("erm", epochs=1))[1]
    assert "edge AUROC" not in plain


def test_a_plugin_on_the_command_line(command: Command, plugin: Callable[..., Path]) -> None:
    text = BROKEN.replace(' * float("nan")', "").replace("broken", "mended").replace("Broken", "Mended")
    file = plugin(text)
    code, out, _ = command(*run_words("mended", "--plugin", file, "--json", epochs=1))
    assert code == 0
    record = json.loads(out)
    assert record["method"] == "mended"
    assert "plugin:mine.py" in record["identity"]
    assert "mended" in json.loads(command("methods", "--plugin", file, "--json")[1])


def test_a_run_of_several_networks_has_a_report(command: Command, tmp_path: Path) -> None:
    words = run_words("ciga-v1", "--set", "members=2", "--report", "x.html", "--json", epochs=1)
    code, out, err = command(*words)
    assert code == 0, err
    assert json.loads(out)["settings"]["members"] == 2
    assert "edge AUROC" in (tmp_path / "x.html").read_text()


def test_a_settings_file_and_words_that_overrule_it(command: Command, tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text("alpha = 3.0\nbeta = 0.25\n")
    words = run_words("ciga-v2", "--settings", "mine.toml", "--json", alpha=5, epochs=1)
    found = json.loads(command(*words)[1])["settings"]
    assert (found["alpha"], found["beta"]) == (5.0, 0.25)


def test_methods_are_listed_with_their_hyper_parameters(command: Command) -> None:
    code, out, _ = command("methods", "--json")
    assert code == 0
    listed = json.loads(out)
    assert set(listed) == set(methods)
    alpha = listed["ciga-v2"]["hyperparameters"]["alpha"]
    assert set(alpha) == {"default", "grid", "help"}
    assert len(alpha["grid"]) > 2
    code, out, _ = command("methods")
    assert code == 0
    assert "ciga-v2" in out
    code, out, said = command("methods", "ciga-v2")
    assert code == 0
    for word in ("spurious_gradient", "beta", "0.5 1 2 4", "Loss: CIGAv1's"):
        assert word in out
    assert "Next:  ciga run spmotif-struc ciga-v2" in said
    assert command("methods", "cigar")[0] == 2


# ---------------------------------------------------------------- wrong usage: exit code 2


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["run", "spmotif-strc", "erm"], "Did you mean spmotif-struc"),
        (["run", "spmotif-struc", "cigav2"], "Did you mean ciga-v2"),
        (["run", "spmotif-struc", "ciga-v2", "--set", "alhpa=3"], "Did you mean alpha"),
        (["run", "spmotif-struc", "erm", "--set", "alpha=3"], "no setting of erm called 'alpha'"),
        (["run", "spmotif-struc", "erm", "--set", "epochs"], "--set takes key=value"),
        (["run", "spmotif-struc", "erm", "--set", "epochs=many"], "not a valid whole number"),
        (["run", "spmotif-struc", "erm", "--data", "bias=2"], "bias=2.0 is too large"),
        (["run", "spmotif-struc", "erm", "--data", "motifs=cycle,hose"], "house"),
        (["run", "spmotif-struc", "erm", "--epochs", "0"], "epochs=0 is too small"),
        (["run", "spmotif-struc", "erm", "--plugin", "no.py"], "There is no plugin file"),
        (["run", "spmotif-struc", "erm", "--settings", "no.toml"], "There is no settings file"),
        (["run", "spmotif-struc", "erm", "--protocol", "iit"], "There is no protocol"),
        (["run", "spmotif-struc", "erm", "--seed", "-1"], "--seed"),
        (["run", "spmotif-struc", "erm", "--sede", "1"], "--sede"),
        (["run", "spmotif-struc"], "Missing argument"),
        (["rnu"], "rnu"),
        (["run", "spmotif-struc", "erm", "--device", "tpu", *pairs_of("--data", TINY)], "There is no device"),
    ],
)
def test_wrong_usage(command: Command, words: list[str], says: str) -> None:
    code, out, err = command(*words)
    assert code == 2
    assert says in err
    assert out == ""
    assert "Traceback" not in err


def test_a_broken_plugin_gets_one_sentence(command: Command, plugin: Callable[..., Path]) -> None:
    code, out, err = command(*run_words("erm", "--plugin", plugin("import no_such_package_at_all")))
    assert code == 2
    assert out == ""
    assert err.startswith("ciga: The plugin ")
    assert err.endswith("failed on import: ModuleNotFoundError: No module named 'no_such_package_at_all'\n")
    assert err.count("\n") == 1


# ---------------------------------------------------------------- failed: exit code 1


def test_a_run_that_fails(command: Command, plugin: Callable[..., Path]) -> None:
    code, out, err = command(*run_words("broken", "--plugin", plugin(BROKEN), "--json"))
    assert code == 1
    assert out == ""
    assert "The loss term 'risk' became nan in epoch 0: try a smaller learning rate" in err
    assert "run folder: runs" in err
    assert "Traceback" not in err


def test_a_damaged_record_is_named(command: Command, tmp_path: Path) -> None:
    words = run_words("erm", "--json", epochs=1)
    file = tmp_path / "runs" / json.loads(command(*words)[1])["hash"] / "record.json"
    file.write_text(file.read_text()[:100])
    code, out, err = command(*words)
    assert code == 1
    assert out == ""
    assert "record.json is damaged: delete it to run again" in err


# ---------------------------------------------------------------- a process of its own


def test_help_does_not_wait_for_torch() -> None:
    """Neither torch nor anything that takes as long to import."""
    script = (
        "import sys\nfrom ciga.cli import main\nsys.argv = ['ciga', *sys.argv[1:]]\n"
        "try:\n    main()\nexcept SystemExit as stop:\n    assert not stop.code, stop.code\n"
        "slow = {'torch', 'torch_geometric', 'sklearn', 'scipy', 'pandas', 'matplotlib', 'rdkit', 'numpy'}\n"
        "print('LOADED', sorted(slow & set(sys.modules)))\n"
    )
    _, environment = in_own_process()
    for words in (["--help"], ["run", "--help"]):
        done = subprocess.run(
            [sys.executable, "-c", script, *words],
            capture_output=True,
            text=True,
            env=environment,
            timeout=120,
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout.rstrip().endswith("LOADED []")
        assert "Usage" in done.stdout
