"""Files are written whole or not at all."""

from __future__ import annotations

import io
import os
import stat

import pytest

from placement.errors import OutputError
from placement.text.output import refuse_unwritable, write_file, write_stdout


def test_a_new_file_holds_the_text_and_nothing_else_is_left(tmp_path):
    write_file(tmp_path / "map.yaml", "a: 1\n")
    assert (tmp_path / "map.yaml").read_text() == "a: 1\n"
    assert os.listdir(tmp_path) == ["map.yaml"]


def test_a_new_file_has_the_permissions_that_any_new_file_has(tmp_path):
    write_file(tmp_path / "map.yaml", "")
    (tmp_path / "plain").touch()
    assert stat.S_IMODE((tmp_path / "map.yaml").stat().st_mode) == stat.S_IMODE((tmp_path / "plain").stat().st_mode)


def test_an_existing_file_is_kept_without_force(tmp_path):
    target = tmp_path / "map.yaml"
    target.write_text("mine")
    with pytest.raises(OutputError, match="exists; --force replaces it"):
        write_file(target, "yours")
    assert target.read_text() == "mine"
    assert os.listdir(tmp_path) == ["map.yaml"]


def test_force_replaces_it(tmp_path):
    target = tmp_path / "map.yaml"
    target.write_text("old")
    write_file(target, "new", force=True)
    assert target.read_text() == "new"


def test_a_file_that_appears_meanwhile_is_kept(tmp_path, monkeypatch):
    target = tmp_path / "map.yaml"
    real = os.fsync

    def somebody_is_faster(handle):
        target.write_text("theirs")
        real(handle)

    monkeypatch.setattr(os, "fsync", somebody_is_faster)
    with pytest.raises(OutputError, match="exists"):
        write_file(target, "ours")
    assert target.read_text() == "theirs"
    assert os.listdir(tmp_path) == ["map.yaml"]


@pytest.mark.parametrize("missing", ["no/such/folder/map.yaml", "file/map.yaml"])
def test_a_folder_that_cannot_hold_it_is_named(tmp_path, missing):
    (tmp_path / "file").touch()
    with pytest.raises(OutputError, match="cannot write"):
        write_file(tmp_path / missing, "x")


def test_a_folder_is_no_file(tmp_path):
    with pytest.raises(OutputError, match="is a folder"):
        write_file(tmp_path, "x", force=True)


def test_a_full_disk_leaves_no_half_file(tmp_path, monkeypatch):
    def full(handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OutputError, match="No space left"):
        write_file(tmp_path / "map.yaml", "x")
    assert os.listdir(tmp_path) == []


def test_a_link_is_followed(tmp_path):
    (tmp_path / "there").mkdir()
    link = tmp_path / "map.yaml"
    link.symlink_to(tmp_path / "there" / "map.yaml")
    write_file(link, "one")
    write_file(link, "two", force=True)
    assert link.is_symlink()
    assert (tmp_path / "there" / "map.yaml").read_text() == "two"
    assert os.listdir(tmp_path / "there") == ["map.yaml"]


def test_a_device_is_not_replaced(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for write in (lambda: write_file(pipe, "x", force=True), lambda: refuse_unwritable(pipe, force=True)):
        with pytest.raises(OutputError, match="device"):
            write()
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_a_name_that_cannot_be_is_refused_early(tmp_path):
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    for path in (loop, tmp_path / ("a" * 300)):
        with pytest.raises(OutputError, match="cannot write"):
            refuse_unwritable(path, force=False)


def test_a_character_that_standard_output_cannot_take_is_no_traceback(monkeypatch):
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(io.BytesIO(), encoding="ascii"))
    with pytest.raises(OutputError, match="PYTHONIOENCODING"):
        write_stdout("–")
