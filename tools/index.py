"""Write the index of methods, datasets, tables and figures anew: python tools/index.py

`ciga methods`, `ciga datasets` and `ciga bench --list` read it, so that they need not load torch.
"""

from __future__ import annotations

import json

from ciga.cli.index import FILE, build, digest


def main() -> None:
    """Write the file, one line for each entry, so that changes can be read."""
    groups = []
    for name, rows in build().items():
        lines = ",\n".join(f"  {json.dumps(k)}: {json.dumps(v, ensure_ascii=False)}" for k, v in rows.items())
        groups.append(f" {json.dumps(name)}: {{\n{lines}\n }}")
    text = "{\n" + f' "source": "{digest()}",\n' + ",\n".join(groups) + "\n}\n"
    FILE.write_text(text, encoding="utf-8")
    print(f"{FILE.name}: {len(text) / 1024:.0f} KB")


if __name__ == "__main__":
    main()
