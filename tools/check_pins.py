"""Check our dependencies without a network: `python tools/check_pins.py`.

Those in pyproject.toml have a lower bound, and a cap by major version unless they number their releases
by the calendar. None is banned, and no range begins with versions that are known to be bad. No version
that is installed because of them, however far down, is known to be bad.

The list below is ours. With a network, `pip-audit` knows more.
"""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Iterable, Mapping
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

#: Releases numbered by year, or (PyArrow) by a new major version every few months: a cap would only age.
BY_CALENDAR = {"rdkit", "distributed", "dask", "pyarrow"}
#: Why each may not be a dependency.
BANNED = {
    "torch-scatter": "often does not build",
    "torch-sparse": "often does not build",
    "pyg-lib": "often does not build",
    "dill": "runs code when it loads",
    "cloudpickle": "runs code when it loads",
    "jsonpickle": "runs code when it loads",
    "klepto": "runs code when it loads",
    "pyyaml": "its default loader runs code",
}
#: (package, versions below this are bad, why). Extended when a hole is published; lower bounds follow.
BAD_BELOW = [
    ("aiohttp", "3.12.14", "CVE-2025-53643: requests could be smuggled"),
    ("certifi", "2024.7.4", "CVE-2024-39689: it trusted an authority that is not trusted any more"),
    ("distributed", "2021.10.0", "CVE-2021-42343: workers listened on all addresses"),
    ("filelock", "3.20.3", "CVE-2025-68146, CVE-2026-22701: a link in place of a lock led elsewhere"),
    ("fonttools", "4.43.0", "CVE-2023-45139: a font could have other files read"),
    ("idna", "3.7", "CVE-2024-3651: a name could take very long"),
    ("jinja2", "3.1.6", "CVE-2025-27516: templates could leave their sandbox"),
    ("joblib", "1.2.0", "CVE-2022-21797: pre_dispatch could run code"),
    ("jupyter-core", "5.8.1", "CVE-2025-30167: on Windows, others could place its settings"),
    ("mako", "1.2.2", "CVE-2022-40023: a template could take very long"),
    ("mkdocs", "1.2.3", "CVE-2021-40978: its server showed files outside of the site"),
    ("nbconvert", "6.5.1", "CVE-2021-32862: a notebook could put scripts into a page"),
    ("numpy", "1.22.0", "CVE-2021-41496: buffer overflow in array_from_pyobj"),
    ("onnx", "1.16.0", "CVE-2024-27318: external data could leave its folder"),
    ("pillow", "10.3.0", "CVE-2024-28219: buffer overflow"),
    ("protobuf", "4.25.8", "CVE-2025-4565: deeply nested messages"),
    ("psutil", "5.6.7", "CVE-2019-18874: memory freed twice"),
    ("pyarrow", "14.0.1", "CVE-2023-47248: reading Parquet could run code"),
    ("pygments", "2.15.1", "CVE-2022-40896: a text could take very long"),
    ("pymdown-extensions", "10.0", "CVE-2023-32309: pages could show any file"),
    ("pyyaml", "5.4", "CVE-2020-14343: full_load ran code"),
    ("requests", "2.32.4", "CVE-2024-47081: passwords could go to another host"),
    ("scikit-learn", "1.5.0", "CVE-2024-5206: TfidfVectorizer kept words of the training data"),
    ("setuptools", "78.1.1", "CVE-2025-47273: a download could be written anywhere"),
    ("torch", "2.6.0", "CVE-2025-32434: torch.load ran code with weights_only=True"),
    ("tornado", "6.5", "CVE-2025-47287: its log could be flooded"),
    ("tqdm", "4.66.3", "CVE-2024-34062: an option of its command could run code"),
    ("urllib3", "2.5.0", "CVE-2025-50181: redirects were followed though switched off"),
    ("werkzeug", "3.0.6", "CVE-2024-49767: a form could use up the memory"),
    ("zipp", "3.19.1", "CVE-2024-5569: a zip file could be read for ever"),
]


def problems(project: dict[str, object], installed: bool = True) -> list[str]:
    """Everything that is wrong, one sentence each."""
    extras = project.get("optional-dependencies", {})
    assert isinstance(extras, dict)
    written = [*project.get("dependencies", []), *(line for some in extras.values() for line in some)]  # type: ignore[misc]
    found = []
    for line in written:
        need = Requirement(line)
        name = canonicalize_name(need.name)
        if name == project["name"]:
            continue
        operators = {spec.operator for spec in need.specifier}
        exact = "==" in operators
        if name in BANNED:
            found.append(f"{name} may not be a dependency: it {BANNED[name]}.")
        if not exact and not operators & {">=", ">", "~="}:
            found.append(f"{name} has no lower bound.")
        if not exact and not operators & {"<", "<=", "~="} and name not in BY_CALENDAR:
            found.append(f"{name} has no cap, and does not number its releases by the calendar.")
        for bad, below, why in BAD_BELOW:
            if name != bad:
                continue
            lower = [Version(s.version) for s in need.specifier if s.operator in (">=", ">", "==", "~=")]
            if not lower or max(lower) < Version(below):
                found.append(f"{name} may be installed below {below} ({why}): raise its lower bound.")
    if installed:
        found += installed_problems(closure(written))
    return found


def installed_problems(versions: Mapping[str, str]) -> list[str]:
    """The packages of `versions` that are known to be bad."""
    return [
        f"{name} {versions[name]} is installed, which is below {below} ({why}): install a newer one."
        for name, below, why in BAD_BELOW
        if name in versions and Version(versions[name]) < Version(below)
    ]


def closure(written: Iterable[str]) -> dict[str, str]:
    """What is installed of these requirements, and of those that they bring with them: name -> version."""
    found: dict[str, str] = {}
    seen: set[tuple[str, str]] = set()
    waiting = [(Requirement(line), "") for line in written]
    while waiting:
        need, extra = waiting.pop()
        if need.marker is not None and not need.marker.evaluate({"extra": extra}):
            continue
        name = canonicalize_name(need.name)
        for wanted in ("", *need.extras):
            if (name, wanted) in seen:
                continue
            seen.add((name, wanted))
            try:
                there = distribution(name)
            except PackageNotFoundError:  # an extra that this environment does without
                continue
            found[name] = there.version
            waiting += [(Requirement(line), wanted) for line in there.requires or ()]
    return found


def main() -> int:
    file = Path(__file__).resolve().parents[1] / "pyproject.toml"
    found = problems(tomllib.loads(file.read_text(encoding="utf-8"))["project"])
    for line in found:
        print(f"{file.name}: {line}", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
