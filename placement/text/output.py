"""
Writing results: whole or not at all, never over what is there without being told.

When to modify: a new kind of destination.
"""

from __future__ import annotations

import contextlib
import json
import os
import stat
import sys
import tempfile
from pathlib import Path

from placement.errors import OutputError


class ReaderGone(Exception):
    """Whoever read our standard output has left (``| head``): nobody is there to be told."""


def refuse_unwritable(path: Path, *, force: bool) -> None:
    """
    Raise early what `write_file` would raise late, before the work is done.

    Raises
    ------
    OutputError
        If *path* is a folder or a device, or exists and *force* is false, or no file can be made beside it.
    """
    target = _target(path, force=force)
    try:
        # Permissions do not tell: a file system can be read-only, full, or no place for files.
        with tempfile.TemporaryFile(dir=target.parent, prefix=".placement."):
            pass
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror or error}") from error


def _target(path: Path, *, force: bool) -> Path:
    """Return the file that *path* means, a link followed to its end."""
    try:
        target = path.resolve()
        mode = target.stat().st_mode if target.exists() else None
    except (OSError, RuntimeError) as error:
        # Too long a name; or links that lead to each other, which the path module reports in its own way.
        raise OutputError(f"cannot write {path}: {getattr(error, 'strerror', None) or error}") from error
    if mode is None:
        return target
    if stat.S_ISDIR(mode):
        raise OutputError(f"{path} is a folder; name a file")
    if not stat.S_ISREG(mode):
        raise OutputError(f"{path} is a device, a pipe or a socket, and would be replaced by a file; print to it with >")
    if not force:
        raise OutputError(f"{path} exists; --force replaces it")
    return target


def write_file(path: Path, text: str, *, force: bool = False) -> None:
    """
    Write *text* to *path* through a temporary file beside it and a rename.

    Raises
    ------
    OutputError
        If *path* exists and *force* is false, or is a folder or a device, or the folder cannot be written.
    """
    target = _target(path, force=force)
    try:
        handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=".placement.")
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror or error}") from error
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o666 & ~_umask())
        if force:
            os.replace(temporary, target)
        else:
            os.link(temporary, target)    # fails if somebody made the file meanwhile
            os.unlink(temporary)
    except FileExistsError as error:
        raise OutputError(f"{path} exists; --force replaces it") from error
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror or error}") from error
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def json_text(document: object) -> str:
    """Return *document* as JSON for people and machines: indented, one line break at the end."""
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def write_stdout(text: str) -> None:
    """
    Write *text* to standard output.

    Raises
    ------
    OutputError
        If standard output is closed, or cannot take a character.
    ReaderGone
        If its reader has left.
    """
    if sys.stdout is None:
        raise OutputError("standard output is closed; use -o FILE")
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except UnicodeEncodeError as error:
        raise OutputError(
            f"standard output takes {sys.stdout.encoding} only; use -o FILE, or set PYTHONIOENCODING=utf-8"
        ) from error
    except BrokenPipeError:
        raise ReaderGone from None
    except OSError as error:
        raise OutputError(f"cannot write to standard output: {error.strerror or error}") from error
