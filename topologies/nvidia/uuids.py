"""
UUIDs of GPUs: which of them say who is who.

People shorten and redact them (``GPU-...``, ``GPU-xxxx``), or write the same for all: such a word tells nothing, whatever output has it.

When to modify: UUIDs get another form.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping

from topologies.pages.reading import listing

UUID = r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"

_WHOLE = re.compile(rf"(?:GPU|MIG-GPU|MIG)-{UUID}(?:/[0-9]{{1,4}}){{0,2}}")


def whole(word: str | None) -> str | None:
    """Return *word* if it is a whole UUID of a GPU or an instance."""
    return word if word and _WHOLE.fullmatch(word) else None


def telling(words: Mapping[int, str | None], what: str, warnings: list[str], *, said: Collection[int] = ()) -> dict[int, str]:
    """
    Return which of *words*, by GPU, say who is who: whole UUIDs that no two share.

    Parameters
    ----------
    words
        As printed; None where there is none.
    what
        What messages call the output.
    warnings
        Gets a sentence for those that are left unknown.
    said
        GPUs of which the output says that it has a UUID, though it has no word.
    """
    found = {index: uuid for index, word in words.items() if (uuid := whole(word)) is not None}
    counts = Counter(uuid.lower() for uuid in found.values())
    if broken := [f"GPU{index}" for index, word in words.items() if (word or index in said) and index not in found]:
        warnings.append(f"{what} shows no whole UUID of {listing(broken)}, so that is left unknown")
    if alike := [f"GPU{index}" for index, uuid in found.items() if counts[uuid.lower()] > 1]:
        warnings.append(f"{listing(alike)} have the same UUID, so that is left unknown")
    return {index: uuid for index, uuid in found.items() if counts[uuid.lower()] == 1}
