"""Where compiled programs are kept when some folders cannot be written."""

from __future__ import annotations

import tempfile

import pytest

from pulsemd.base import cache
from pulsemd.base.errors import ConfigError
from pulsemd.cli.main import main


@pytest.fixture
def places(tmp_path, monkeypatch):
    """Home and temporary files in a folder of the test; a function that makes folders ones that cannot be written."""
    monkeypatch.delenv("PULSEMD_CACHE_DIR", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    can_write = cache._can_write

    def deny(*folders):
        monkeypatch.setattr(
            cache, "_can_write", lambda f: not any(f.is_relative_to(d) for d in folders) and can_write(f)
        )

    return deny


def test_kernels_are_kept_in_the_home_folder_or_among_temporary_files(places, tmp_path):
    assert cache.cache_folder("cuda") == tmp_path / "home" / ".cache" / "pulsemd" / "cuda"
    places(tmp_path / "home")
    folder = cache.cache_folder("cuda")
    assert folder.name == "cuda"
    assert folder.parent.parent == tmp_path
    assert folder.parent.stat().st_mode & 0o077 == 0
    assert cache.cache_folder("cuda") == folder


def test_temporary_folder_that_others_can_write_is_refused(places, tmp_path):
    places(tmp_path / "home")
    cache.cache_folder("cuda").parent.chmod(0o777)
    with pytest.raises(ConfigError, match=r"others can write to .*; set PULSEMD_CACHE_DIR"):
        cache.cache_folder("cuda")


def test_without_any_folder_the_error_says_what_to_set(places, tmp_path, monkeypatch):
    places(tmp_path / "home")
    (tmp_path / "file").touch()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "file"))
    with pytest.raises(
        ConfigError, match=r"no folder for compiled kernels can be written.*set PULSEMD_CACHE_DIR"
    ):
        cache.cache_folder("cuda")


def test_numba_keeps_kernels_elsewhere_only_where_the_package_cannot_be_written(
    places, tmp_path, monkeypatch
):
    monkeypatch.setattr(cache.os, "environ", {"HOME": str(tmp_path / "home")})
    with monkeypatch.context() as patch:
        patch.setattr(cache, "_can_write", lambda folder: True)
        cache.place_numba_cache()
    assert "NUMBA_CACHE_DIR" not in cache.os.environ
    places(cache._PACKAGE)
    cache.place_numba_cache()
    assert cache.os.environ["NUMBA_CACHE_DIR"] == str(tmp_path / "home" / ".cache" / "pulsemd" / "numba")
    cache.os.environ["NUMBA_CACHE_DIR"] = "mine"
    cache.place_numba_cache()
    assert cache.os.environ["NUMBA_CACHE_DIR"] == "mine"


def test_chosen_folder_that_cannot_be_written_is_refused_by_the_command_line(
    places, tmp_path, monkeypatch, capsys
):
    monkeypatch.setenv("PULSEMD_CACHE_DIR", str(tmp_path / "kernels"))
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "kernels"))
    assert main(["systems"]) == 0
    places(tmp_path)
    assert main(["systems"]) == 2
    assert "kernels, which cannot be written; set PULSEMD_CACHE_DIR" in capsys.readouterr().err
