"""
Put the golden pages of `placement explain` and `placement plan --smallest` into docs/explain.md.

    python tests/cli/test_explain.py; python tests/cli/test_smallest.py     write the golden pages, which tests hold against the commands
    python docs/make_explain.py            write them into the page
    python docs/make_explain.py --check    fail if the page shows others
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from made import main

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "explain.md"
GOLDEN = ROOT / "tests" / "cli" / "golden"


def contents() -> str:
    """Return the page as it should be."""
    text = PAGE.read_text(encoding="utf-8")

    def filled(block: re.Match[str]) -> str:
        shown = (GOLDEN / f"{block[2]}.txt").read_text(encoding="utf-8")
        return f"{block[1]}\n```text\n{shown}```\n<!-- end -->"

    return re.sub(r"(<!-- golden ([\w-]+): [^\n]*-->)\n.*?<!-- end -->", filled, text, flags=re.DOTALL)


if __name__ == "__main__":
    sys.exit(main(__doc__, __file__, lambda: {PAGE: contents()}))
