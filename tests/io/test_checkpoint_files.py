"""Checkpoint files: what is kept where one cannot be written, and files of other versions."""

from __future__ import annotations

import errno
import hashlib
import os

import numpy as np
import pytest

from pulsemd.base.errors import InputError, OutputError
from pulsemd.io.checkpoint import NAME, PREVIOUS, Checkpoint, read_checkpoint, write_checkpoint


def checkpoint(step: int) -> Checkpoint:
    box, x = 3.0 * np.eye(3), np.arange(30, dtype=np.int32).reshape(-1, 3)
    return Checkpoint(
        step,
        box,
        box,
        np.eye(3, dtype=np.int64),
        x,
        x.astype(np.float32),
        None,
        None,
        1.2,
        0.5,
        "fast",
        {},
        "",
        {},
    )


def test_disk_full_in_a_third_checkpoint_leaves_the_two_before(tmp_path, monkeypatch):
    for step in (10, 20):
        write_checkpoint(tmp_path, checkpoint(step))

    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OutputError, match=r"checkpoint.pmd: cannot be written: No space left"):
        write_checkpoint(tmp_path, checkpoint(30))
    assert [read_checkpoint(tmp_path / name).step for name in (NAME, PREVIOUS)] == [20, 10]
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([NAME, PREVIOUS])


def test_checkpoint_reads_back_as_it_was_written(tmp_path):
    write_checkpoint(tmp_path, checkpoint(10))
    found, expected = read_checkpoint(tmp_path), checkpoint(10)
    assert (found.x == expected.x).all()
    assert (found.v == expected.v).all()
    assert (found.step, found.list_cutoff, found.thermostat_work) == (10, 1.2, 0.5)


def test_checkpoint_with_what_this_version_does_not_know_is_refused_by_name(tmp_path):
    write_checkpoint(tmp_path, checkpoint(10))
    content = (tmp_path / NAME).read_bytes()[:-32].replace(b'"nstlist":', b'"nstrest":')
    (tmp_path / NAME).write_bytes(content + hashlib.sha256(content).digest())
    with pytest.raises(InputError, match=r"checkpoint.pmd: is of a later version: it has nstrest"):
        read_checkpoint(tmp_path)
