"""
Texts that are nearly a topology document, or belong beside one: what they are, for whoever cannot read them.

When to modify: another document is given where a machine is asked for.
"""

from __future__ import annotations

import re

from topologies.documents.document import SCHEMA

_HEAD = 1 << 16
_KEY = r"""(?:^|[{,])[ \t]*["']?(?:%s)["']?[ \t]*:"""
_GPUS = re.compile(_KEY % "gpus", re.MULTILINE)
_OF_GPUS = re.compile(_KEY % "links|links_complete|gpu_nic|format", re.MULTILINE)
_NETWORK = re.compile(_KEY % "network|rails|domains" + r"|^[ \t]*SwitchName[ \t]*=", re.MULTILINE)


def look(text: str) -> str | None:
    """Return what *text* seems to be and what to do with it, in one sentence; None if it looks like no document of ours."""
    head = text[:_HEAD]
    if _GPUS.search(head) and _OF_GPUS.search(head):
        return f"this looks like a topology document, which must begin with the line 'schema: {SCHEMA}'"
    if _NETWORK.search(head):
        return "this seems to describe a network, not a machine: `placement collect node0.txt node1.txt --network FILE` joins it to hosts"
    return None
