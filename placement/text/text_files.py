"""
The text of a user's file, or of standard input: bounded, and refused in one line that names it.

When to modify: another place that text comes from. What `topologies` reads it reads itself (`topologies.files`).
"""

from __future__ import annotations

import sys
from pathlib import Path

from placement.errors import InputError

STDIN = "-"


def read_source(source: str, *, what: str, most: int, hint: str = "") -> str:
    """
    Return the text of the file *source*, of standard input for ``-``; otherwise as `read_text`.

    Raises
    ------
    InputError
        As `read_text`, and if standard input is closed.
    """
    if source != STDIN:
        return read_text(source, what=what, most=most, hint=hint)
    if sys.stdin is None:
        raise InputError("standard input is closed, so - cannot be read")
    return _decoded(sys.stdin.buffer.read(most + 1), what, most, name_of(source))


def read_text(path: Path | str, *, what: str, most: int, hint: str = "") -> str:
    """
    Return the text of *path*.

    Parameters
    ----------
    what
        What it should be, for messages: ``constants file``.
    most
        Bytes that no such file exceeds; no more are read into memory.
    hint
        What is said further where there is no such file.

    Raises
    ------
    InputError
        If there is no such file, it cannot be read, is larger than *most* bytes, or no text.
    """
    return _decoded(read_bytes(path, what=what, most=most, hint=hint), what, most, str(path))


def read_bytes(path: Path | str, *, what: str, most: int, hint: str = "") -> bytes:
    """
    Return the bytes of *path*, but not (many) more than *most*: whoever decodes them refuses what is longer.

    Raises
    ------
    InputError
        If there is no such file, or it cannot be read.
    """
    try:
        with Path(path).expanduser().open("rb") as file:
            return file.read(most + 1)
    except (FileNotFoundError, RuntimeError):  # RuntimeError: the home of nobody
        raise InputError(f"there is no {what} {str(path)!r}{hint}") from None
    except (OSError, ValueError) as error:  # ValueError: a name with a null byte
        words = (error.strerror if isinstance(error, OSError) else None) or error
        raise InputError(f"cannot read the {what}: {words}", where=str(path)) from None


def name_of(source: str) -> str:
    """Return what *source* is called in messages."""
    return "<stdin>" if source == STDIN else source


def _decoded(raw: bytes, what: str, most: int, name: str) -> str:
    if len(raw) > most:
        raise InputError(f"larger than {most >> 20} MiB: this is no {what}", where=name)
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InputError(f"this is no text (UTF-8), so no {what}", where=name) from None
