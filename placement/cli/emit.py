"""
`placement emit`: the files from which a framework or launcher starts a map.

When to modify: what the command reads, writes or says.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from placement.cli import kinds
from placement.cli.say import note
from placement.errors import InputError
from placement.targets.catalog import target as named
from placement.targets.start import read_start
from placement.targets.target import emit
from placement.text.output import json_text, refuse_unwritable, write_file, write_stdout
from placement.text.text_files import name_of, read_source

SCHEMA = "placement/emitted/v1"
MAX_BYTES = 1 << 22
"""No map is larger: nothing bigger is read into memory."""


def run(source: str, *, target: str, version: str | None, directory: Path | None, force: bool, as_json: bool) -> int:
    """Write the files and return the exit code."""
    chosen = named(target)
    start = kinds.reading("device-map", source, lambda: read_start(_text(source), name=name_of(source)))
    emitted = emit(chosen, start, version)
    if directory is not None:
        _write(directory, emitted.files, force=force)
    if as_json:
        document = {"schema": SCHEMA, "target": target, "files": dict(emitted.files), "notes": list(emitted.notes)}
        write_stdout(json_text(document))
    elif directory is None:
        write_stdout("\n".join(f"# ── {name} ──\n{text}" for name, text in emitted.files.items()))
    for line in emitted.notes:
        note(line)
    return 0


def _text(source: str) -> str:
    return read_source(source, what="device map", most=MAX_BYTES, hint=": `placement plan -o FILE` writes one")


def _write(directory: Path, files: Mapping[str, str], *, force: bool) -> None:
    """Write *files* into *directory*: none of them where one cannot be written."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"-d {directory}: {error.strerror}") from None
    for name in files:
        refuse_unwritable(directory / name, force=force)
    for name, text in files.items():
        write_file(directory / name, text, force=force)
        note(f"written to {directory / name}")
