"""Wrong command lines: each has to be refused with a sentence, at once, and nothing may change."""

from __future__ import annotations

import random
import shlex
import time
from pathlib import Path

from faults.attempt import ciga, fresh
from faults.commands import result
from faults.tally import Tally, judged

TINY = "--data train_per_class=2 --data val_per_class=2 --data test_per_class=2 --set epochs=1 --set layers=1"
#: Every one is wrong. `{run}` and `{fit}` are the beginnings of right ones.
RIGHT = {
    "{run}": f"run spmotif-struc ciga-v2 {TINY}",
    "{bench}": f"bench table-spmotif --methods erm --datasets spmotif-struc-0.33 {TINY} --workers 1",
    "{tune}": f"tune spmotif-struc erm {TINY} --trials 1",
    "{fit}": "fit mols.csv --label active --out new --epochs 1 --seeds 1",
    "{predict}": "predict model mols.csv --out p.csv",
    "{explain}": "explain model mols.csv --out r.html",
}
LINES = """
nonsense
--nonsense
run
run spmotif-struc
run spmotif-struck erm
run spmotif-struc ermm
run erm spmotif-struc
{run} --seed -1
{run} --seed x
{run} --seed 1.5
{run} --epochs 0
{run} --epochs -3
{run} --epochs x
{run} --set lr=inf
{run} --set lr=nan
{run} --set lr=-1
{run} --set lr=
{run} --set lr
{run} --set =1
{run} --set width=100000000000
{run} --set width=1e11
{run} --set width=0
{run} --set layers=0
{run} --set layers=99999999
{run} --set batch_size=0
{run} --set conv=nope
{run} --set readout=
{run} --set epochs=1e9x
{run} --set nonsense=1
{run} --set members=0
{run} --set averaging=2
{run} --set balanced=maybe
{run} --data bias=2
{run} --data bias=nan
{run} --data train_per_class=0
{run} --data train_per_class=-5
{run} --data nonsense=1
{run} --data bias
{run} --settings nowhere.toml
{run} --settings mols.csv
{run} --settings .
{run} --settings model/model.json
{run} --preset nope
{run} --protocol nope
{run} --device nope
{run} --device cuda:99
{run} --threads 0
{run} --threads x
{run} --plugin nowhere.py
{run} --plugin mols.csv
{run} --plugin model
{run} --log nope
{run} --runs-dir mols.csv
{run} --runs-dir mols.csv/deeper
{run} --report .
{run} --report mols.csv/x.html
{run} --json yes
{run} extra
methods nope --nope
datasets --nope
data
data nope
data prepare
data prepare nope
data prepare csv
data prepare csv --data path=nowhere.csv
data prepare csv --data path=.
data prepare csv --data path=model/model.json
data prepare csv --data path=mols.csv --data label=nope
data prepare csv --data path=mols.csv --data label=id
data prepare csv --data path=mols.csv --data label=active --data smiles=id
data prepare csv --data path=mols.csv --data label=active --data split=nope
data prepare csv --data path=mols.csv --data label=active --data split=order:nope
data prepare csv --data path=mols.csv --data label=active --data fractions=1,2,3
data prepare csv --data path=mols.csv --data label=active --data fractions=a,b,c
data prepare csv --data path=mols.csv --data label=active --data fractions=0.5
data prepare pyg --data path=mols.csv
data prepare pyg --data path=nowhere.json
data prepare spmotif-struc --data bias=x
data check
data check nope
data check nowhere.csv
data check model/weights-1.safetensors
data check mols.csv --label nope
data check mols.csv --label active --split size:nope
data check spmotif-struc --label active
fit
fit mols.csv
fit mols.csv --label active
fit mols.csv --out new --label nope
fit mols.csv --out new --smiles nope --label active
fit mols.csv --out new --label active --env nope
fit mols.csv --out new --label active --split nope
fit nowhere.csv --out new
fit model --out new
fit . --out new
fit spmotif-struck --out new
fit spmotif-struc --out new --label active
{fit} --out mols.csv
{fit} --out .
{fit} --out mols.csv/new
{fit} --method nope
{fit} --seeds 0
{fit} --seeds x
{fit} --seeds -1
{fit} --tune -1
{fit} --tune x
{fit} --epochs 0
{fit} --set members=3
{fit} --set lr=inf
{fit} --set nope=1
{fit} --data nope=1
{fit} --data path=other.csv --data nope
{fit} --settings nowhere.toml
{fit} --preset nope
{fit} --plugin nowhere.py
{fit} --device nope
{fit} --runs-dir mols.csv
predict
predict model
predict model mols.csv
predict nowhere mols.csv --out p.csv
predict . mols.csv --out p.csv
predict mols.csv mols.csv --out p.csv
predict model nowhere.csv --out p.csv
predict model model --out p.csv
predict model model/model.json --out p.csv
predict model model/weights-1.safetensors --out p.csv
{predict} --smiles nope
{predict} --out mols.csv
{predict} --out model
{predict} --out p.xlsx
{predict} --out p.json
{predict} --out mols.csv/p.csv
{predict} --device nope
{predict} --plugin nowhere.py
{predict} --plugin mols.csv
{predict} extra
explain
explain nowhere
explain mols.csv
explain model nowhere.csv
explain model model/story.json
{explain} --label nope
{explain} --smiles nope
{explain} --part nope
explain model --part nope --out r.html
{explain} --most 0
{explain} --gallery 0
{explain} --gallery x
{explain} --out model
{explain} --out mols.csv/r.html
{explain} --device nope
export
export nowhere
export mols.csv
export model --format nope
export model --out .
export model --out model
export model --out mols.csv/x.pt2
export model --format onnx --out .
bench
bench nope
bench table-spmotif --methods nope --dry-run
bench table-spmotif --datasets nope --dry-run
bench table-spmotif --seeds x --dry-run
bench table-spmotif --seeds 5-1 --dry-run
bench table-spmotif --seeds -1 --dry-run
bench table-spmotif --seeds 1-1000000000 --dry-run
bench table-spmotif --seeds 1-99999999999999999999 --dry-run
bench table-spmotif --seeds "" --dry-run
bench table-spmotif --seeds , --dry-run
bench table-spmotif --epochs 0 --dry-run
bench table-spmotif --set nope=1 --dry-run
bench table-spmotif --set lr=inf --dry-run
bench table-spmotif --data nope=1 --dry-run
bench table-spmotif --preset nope --dry-run
bench table-spmotif --row nope --dry-run
bench table-spmotif --row a=nope --dry-run
bench table-spmotif --row a=erm:nope=1 --dry-run
bench table-spmotif --plugin nowhere.py --dry-run
{bench} --workers 0
{bench} --workers x
{bench} --cluster nope
{bench} --cluster tcp://127.0.0.1:1
{bench} --cluster tcp://127.0.0.1:999999
{bench} --limit-hours -1
{bench} --limit-hours nan
{bench} --limit-hours x
{bench} --device nope
{bench} --runs-dir mols.csv
{bench} --seeds 1 --report .
table
table nope
table table-spmotif --format nope
table table-spmotif --select nope
table table-spmotif --metric nope
table table-spmotif --methods nope
table table-spmotif --datasets nope
table table-spmotif --seeds x
table table-spmotif --seeds ""
table table-spmotif --set nope=1
table table-spmotif --preset nope
table table-spmotif --row nope
table table-spmotif --out .
table table-spmotif --out mols.csv/t.md
table figure-alpha
figure
figure nope
figure figure-alpha
figure figure-alpha --out mols.csv
figure figure-alpha --seeds x
figure figure-alpha --select nope
figure figure-alpha --datasets nope
tune
tune spmotif-struc
tune nope erm
tune spmotif-struc nope
{tune} --trials 0
{tune} --trials x
{tune} --over alpha=abc
{tune} --over lr=abc
{tune} --over lr=-5
{tune} --over lr=
{tune} --over nope
{tune} --over nope=1
{tune} --over lr=inf
{tune} --space nope
{tune} --storage mols.csv
{tune} --storage model
{tune} --storage mols.csv/x
{tune} --seeds x
{tune} --seeds 1-1000000000
{tune} --workers 0
{tune} --out .
{tune} --device nope
{tune} --preset nope
runs show
runs show nope
runs compare nope nope
runs export
runs export out.nope
runs nope
runs --runs-dir mols.csv show x
demo --nope
"""


def lines() -> list[list[str]]:
    """All of them, split into words."""
    out = []
    for line in LINES.strip().splitlines():
        for name, words in RIGHT.items():
            line = line.replace(name, words)
        out.append(shlex.split(line))
    return out


def wrong(base: Path, work: Path, rng: random.Random, tries: int) -> Tally:
    """Give wrong command lines; `tries` beyond their number are right ones with a word spoiled."""
    tally, began = Tally("wrong command lines"), time.monotonic()
    every = lines()
    if tries < len(every):
        every = rng.sample(every, tries)
    fresh(base, work)
    before = result(work, ("mols.csv", "model"))
    for words in every:
        found = ciga(words, work, longest=30.0)
        said = shlex.join(words)
        if judged(found.err):
            tally.add("traceback", f"ciga {said}: {found.err[-1500:]}")
        elif found.code == 124:
            tally.add("lost", f"ciga {said}: it hangs")
        elif found.code not in (1, 2):
            tally.add("silent", f"ciga {said}: exit code {found.code}, {found.out[-300:]} {found.err[-300:]}")
        elif not found.err.strip() and not found.out.strip():
            tally.add("silent", f"ciga {said}: refused without a word")
        elif result(work, ("mols.csv", "model")) != before:
            tally.add("lost", f"ciga {said}: files of the user changed")
            fresh(base, work)
        else:
            tally.add("survived")
    tally.seconds = time.monotonic() - began
    return tally
