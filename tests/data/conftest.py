"""Shared by the tests of loading: scratch folders, and a small MNIST in them."""

import numpy as np
import pytest

from tests.data.layouts import mnist_files, publish, write


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
def mnist(folders, rng, monkeypatch):
    """A small MNIST in DPLIB_DATA; returns its folder and its files."""
    files = mnist_files(rng)
    publish(monkeypatch, "mnist", files)
    return write(folders / "given", "mnist", files), files
