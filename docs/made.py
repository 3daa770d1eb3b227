"""
What the scripts that make pages have in common: write them, or check that they are as they should be.

When to modify: `--check` says more, or pages are written in another way.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from pathlib import Path

ROOT = Path(__file__).parent.parent


def main(doc: str, script: str, contents: Callable[[], Mapping[Path, str]]) -> int:
    """
    Write the pages that *contents* returns, by path; with ``--check`` return 1 if one of them is not so.

    Parameters
    ----------
    doc
        The docstring of the script, whose first line says what it does.
    script
        Its file.
    """
    parser = argparse.ArgumentParser(description=doc.splitlines()[1])
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    pages = contents()
    if not check:
        for path, text in pages.items():
            path.write_text(text, encoding="utf-8")
        return 0
    stale = [path for path, text in pages.items() if not path.exists() or path.read_text(encoding="utf-8") != text]
    for path in stale:
        print(f"{path.relative_to(ROOT)} is stale: run python docs/{Path(script).name}")
    if not stale:
        print(f"{', '.join(str(path.relative_to(ROOT)) for path in pages)}: fresh")
    return 1 if stale else 0
