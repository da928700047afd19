"""From names to a record: planned before anything is done, found again, finished after any end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import ciga.runs.plan
from ciga.data import load
from ciga.data.datasets.spmotif import MotifDataset
from ciga.errors import CigaError, MissingExtra, UsageError
from ciga.files import read_tensors
from ciga.methods.erm import ERM
from ciga.runs.plan import Plan, execute, plan
from ciga.runs.records import Busy
from ciga.training.fitted import Fitted
from tests.helpers import SHORT, TINY, in_own_process, pairs_of, same_tensors, without_time

Plugin = Callable[..., Path]

#: CIGAv2, which takes its time where the environment says so: another process can then be met in mid-run.
SLOW = """
import os, time
from dataclasses import dataclass
from ciga.methods.ciga import CIGAv2
from ciga.methods.base import register

@register("slow")
@dataclass
class Slow(CIGAv2):
    "CIGAv2, slowly."

    def loss(self, network, batch, step):
        time.sleep(float(os.environ.get("SECONDS_A_STEP", 0)))
        return super().loss(network, batch, step)
"""


def tiny(method: str = "erm", **options: Any) -> Plan:
    settings = {**SHORT, **options.pop("settings", {})}
    return plan("spmotif-struc", method, data=TINY, settings=settings, **options)


def stop(*_: Any, **__: Any) -> Fitted:
    raise AssertionError("this must not train")


# ---------------------------------------------------------------- plans


@pytest.mark.parametrize(
    ("words", "options", "says"),
    [
        (("spmotif-strc", "erm"), {}, "no dataset called 'spmotif-strc'. Did you mean spmotif-struc"),
        (("spmotif-struc", "cigav2"), {}, "no method called 'cigav2'. Did you mean ciga-v2"),
        (("spmotif-struc", "erm"), {"settings": {"widht": 3}}, "called 'widht'. Did you mean width"),
        (("spmotif-struc", "erm"), {"data": {"bais": 0.5}}, "called 'bais'. Did you mean bias"),
        (("spmotif-struc", "erm"), {"data": {"bias": 1.5}}, "bias=1.5 is too large"),
        (("spmotif-struc", "erm"), {"settings": {"epochs": 0}}, "epochs=0 is too small"),
        (("spmotif-struc", "erm"), {"protocol": "odd"}, "no protocol 'odd': use ood or iid"),
        (("spmotif-struc", "erm"), {"preset": "mine"}, "no preset called 'mine'"),
        (("spmotif-struc", "erm"), {"plugins": ["nothing.py"]}, "There is no plugin file"),
    ],
)
def test_every_mistake_surfaces_before_any_work(
    words: tuple[str, str], options: dict[str, Any], says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(MotifDataset, "build", stop)
    with pytest.raises(UsageError) as error:
        plan(*words, **options)
    assert says in str(error.value)


def test_a_plan_is_named_by_what_differs() -> None:
    base = tiny()
    assert base.config.hash == tiny().config.hash
    assert base.config.hash == tiny(settings={"lr": 0.001}).config.hash  # the default, said aloud
    others = [
        tiny(seed=2),
        tiny("ciga-v2"),
        tiny(settings={"lr": 0.01}),
        tiny(protocol="iid"),
        plan("spmotif-mixed", "erm", data=TINY, settings=SHORT),
        plan("spmotif-struc", "erm", data={**TINY, "bias": 0.5}, settings=SHORT),
    ]
    assert len({p.config.hash for p in [base, *others]}) == 1 + len(others)


def test_an_edited_plugin_makes_another_run(plugin: Plugin) -> None:
    one, two = (tiny(plugins=[plugin(f"A = {i}", "same_name.py")]).config for i in range(2))
    assert "plugin:same_name.py" in one.identity
    assert one.hash != two.hash


def test_a_corrected_method_finds_no_record_from_before(monkeypatch: pytest.MonkeyPatch) -> None:
    before = tiny().config
    assert "revision" not in before.identity
    monkeypatch.setattr(ERM, "revision", 2)
    after = tiny().config
    assert after.identity == {**before.identity, "revision": 2}
    assert after.hash != before.hash


# ---------------------------------------------------------------- records


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Plan, Path, dict[str, Any]]:
    folder, planned = tmp_path_factory.mktemp("runs"), tiny("ciga-v2")
    return planned, folder, execute(planned, folder)


def test_what_a_run_leaves_behind(finished: tuple[Plan, Path, dict[str, Any]]) -> None:
    planned, runs, record = finished
    folder = runs / planned.config.hash
    names = {p.name for p in folder.iterdir()}
    weights = {f"weights.{s}.safetensors" for s in ("id-val", "ood-val", "ood-val-rest", "oracle", "last")}
    assert names == {"record.json", "lock", *weights}
    assert json.loads((folder / "record.json").read_text()) == json.loads(json.dumps(record))
    assert record["fingerprint"] == planned.load().fingerprint()
    assert record["epochs"] == len(record["history"]) == 2
    assert record["selection"] == "ood-val"
    assert record["settings"] == planned.settings.flat()
    assert record["seconds"] > 0
    assert record["peak_memory_mb"] > 0
    assert record["threads"] == 1


def test_the_weights_on_disk_give_the_scores_in_the_record(
    finished: tuple[Plan, Path, dict[str, Any]],
) -> None:
    from ciga.nn import Spec
    from ciga.training.evaluation import evaluate

    planned, runs, record = finished
    splits = planned.load()
    network = planned.settings.method.network(Spec.of(splits), planned.settings.backbone)
    tensors, meta = read_tensors(runs / planned.config.hash / "weights.ood-val.safetensors")
    assert meta == {"run": planned.config.hash}
    network.load_state_dict(tensors)
    found = evaluate(planned.settings.method, [network], splits["ood_test"])
    assert found == record["selected"]["ood-val"]["ood_test"]


def test_a_finished_run_returns_at_once(
    finished: tuple[Plan, Path, dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    planned, runs, record = finished
    monkeypatch.setattr(ciga.runs.plan, "fit_members", stop)
    monkeypatch.setattr(MotifDataset, "build", stop)
    assert execute(planned, runs) == json.loads(json.dumps(record))
    with pytest.raises(AssertionError, match="must not train"):
        execute(tiny("ciga-v2", seed=2), runs)


def test_the_iid_protocol_deals_the_same_graphs_out_again() -> None:
    ood, iid = (tiny(protocol=p).load() for p in ("ood", "iid"))
    # The paper's three parts keep their sizes; the in-distribution parts are ours and are left out.
    assert set(ood) == {"train", "id_val", "ood_val", "id_test", "ood_test"}
    assert {s: iid[s].num_graphs for s in iid} == {
        s: ood[s].num_graphs for s in ("train", "ood_val", "ood_test")
    }
    assert ood.fingerprint() != iid.fingerprint()
    assert ood.fingerprint() == load("spmotif-struc", **TINY).fingerprint()
    assert iid.notes["protocol"] == "iid"


@pytest.mark.parametrize(
    "error", [CigaError("it broke"), UsageError("it broke"), MissingExtra("it broke", "x")]
)
def test_a_failure_names_the_folder_and_keeps_its_kind(
    error: CigaError, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def fail(*_: Any) -> None:
        raise error

    monkeypatch.setattr(ERM, "loss", fail)
    with pytest.raises(type(error)) as caught:
        execute(tiny(), tmp_path)
    assert "it broke" in str(caught.value)
    assert str(caught.value).endswith(f"(run folder: {tmp_path / tiny().config.hash})")


# ---------------------------------------------------------------- interrupted, killed, continued


def wait_for(condition: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + 240
    while not condition():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline, "nothing happened"
        time.sleep(0.02)


def test_stopped_by_ctrl_c_then_by_kill_a_run_ends_as_if_nothing_had_been(
    plugin: Plugin, tmp_path: Path
) -> None:
    file = plugin(SLOW)
    settings = {**SHORT, "epochs": 5, "dropout": 0.3}
    planned = plan("spmotif-struc", "slow", data=TINY, settings=settings, plugins=[file])
    undisturbed = execute(planned, tmp_path / "undisturbed")

    runs = tmp_path / "disturbed"
    folder = runs / planned.config.hash
    checkpoint = folder / "checkpoint.safetensors"
    words = [
        "run", "spmotif-struc", "slow", "--plugin", file, "--runs-dir", runs, "--json",
        *pairs_of("--data", TINY), *pairs_of("--set", settings),
    ]  # fmt: skip
    command, environment = in_own_process(*words, SECONDS_A_STEP="0.4")

    def start() -> subprocess.Popen[str]:
        return subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    with start() as process:
        try:
            wait_for(checkpoint.exists, process)
            with pytest.raises(Busy, match=f"process {process.pid}"):  # it is at this very run
                execute(planned, runs)
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=120)
        finally:
            process.kill()
    assert process.returncode == 130
    assert out == ""
    assert "continues where this one left off" in err
    assert "Traceback" not in err
    assert checkpoint.exists()
    assert not (folder / "record.json").exists()

    stamp = checkpoint.stat().st_mtime_ns
    with start() as process:
        try:
            wait_for(lambda: checkpoint.stat().st_mtime_ns != stamp, process)
        finally:
            os.kill(process.pid, signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL
    assert not (folder / "record.json").exists()

    seen: list[int] = []
    record = execute(planned, runs, on_epoch=lambda row, _: seen.append(row["epoch"]))
    assert seen[0] >= 2  # two epochs at least were done by the processes that were stopped
    assert seen[-1] == 4
    assert record["selected"] == undisturbed["selected"]
    assert without_time(record["history"]) == without_time(undisturbed["history"])
    for selector in record["selected"]:
        one, two = (
            read_tensors(tmp_path / name / planned.config.hash / f"weights.{selector}.safetensors")[0]
            for name in ("disturbed", "undisturbed")
        )
        assert same_tensors(one, two)
