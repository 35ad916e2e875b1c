"""Shared by the tests of loading: scratch folders, small sets in them, and a small MNIST."""

import numpy as np
import pytest

from tests.dplib.data.layouts import mnist_files, publish, write


@pytest.fixture
def folders(tmp_path, monkeypatch):
    """A scratch DPLIB_DATA and cache."""
    (tmp_path / "given").mkdir()
    monkeypatch.setenv("DPLIB_DATA", str(tmp_path / "given"))
    monkeypatch.setenv("DPLIB_CACHE", str(tmp_path / "cache"))
    return tmp_path


@pytest.fixture
def rng():
    return np.random.default_rng(1)


@pytest.fixture
def given(folders, monkeypatch):
    """A function that lays small files out in DPLIB_DATA, published as a set; returns their folder."""

    def lay(name, files, **fields):
        publish(monkeypatch, name, files, **fields)
        return write(folders / "given", name, files)

    return lay


@pytest.fixture
def mnist(given, rng):
    """A small MNIST in DPLIB_DATA; returns its folder and its files."""
    files = mnist_files(rng)
    return given("mnist", files), files
