"""Check the dependencies in pyproject.toml without a network: `python tools/check_pins.py`.

Each has a lower bound, and a cap by major version unless it numbers its releases by the calendar. None is
banned, and no range is made up of versions that are known to be bad.
"""

from __future__ import annotations

import sys
import tomllib
from importlib.metadata import PackageNotFoundError, version
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
    ("torch", "2.6.0", "CVE-2025-32434: torch.load ran code with weights_only=True"),
    ("numpy", "1.22.0", "CVE-2021-41496: buffer overflow in array_from_pyobj"),
    ("pyarrow", "14.0.1", "CVE-2023-47248: reading Parquet could run code"),
    ("scikit-learn", "1.0.1", "CVE-2020-28975: SVM input crashes the interpreter"),
    ("jinja2", "3.1.6", "CVE-2025-27516: templates could leave their sandbox"),
    ("distributed", "2021.10.0", "CVE-2021-42343: workers listened on all addresses"),
    ("onnx", "1.16.0", "CVE-2024-27318: external data could leave its folder"),
    ("mkdocs", "1.2.3", "CVE-2021-40978: its server showed files outside of the site"),
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
            if installed and _installed(name) is not None and _installed(name) < Version(below):  # type: ignore[operator]
                found.append(f"{name} {_installed(name)} is installed, which is below {below} ({why}).")
    return found


def _installed(name: str) -> Version | None:
    try:
        return Version(version(name))
    except PackageNotFoundError:
        return None


def main() -> int:
    file = Path(__file__).resolve().parents[1] / "pyproject.toml"
    found = problems(tomllib.loads(file.read_text(encoding="utf-8"))["project"])
    for line in found:
        print(f"{file.name}: {line}", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
