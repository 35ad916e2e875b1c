"""Results that need not be computed twice, kept in a folder: ``$DPLIB_CACHE``, or where this user's programs keep
such.
"""

import functools
import os
import sys
from pathlib import Path

import joblib


def cache_folder() -> Path:
    """``$DPLIB_CACHE``, or the folder where this user's programs keep what can be made or fetched again."""
    if os.environ.get("DPLIB_CACHE"):
        return Path(os.environ["DPLIB_CACHE"]).expanduser()
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", "~/AppData/Local")).expanduser() / "dplib" / "dplib" / "Cache"
    if sys.platform == "darwin":
        return Path("~/Library/Caches/dplib").expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "dplib"


def memory(name: str) -> joblib.Memory:
    """What keeps results of functions in a folder of the cache, with their checksums.

    Args:
        name: of the folder.
    """
    return _memory(str(cache_folder() / name))


@functools.cache
def _memory(folder: str) -> joblib.Memory:
    try:
        return joblib.Memory(folder, verbose=0, compress=1)  # compressed, damage is noticed, and it is computed again
    except OSError:  # a cache that cannot be written is no reason not to compute
        return joblib.Memory(None, verbose=0)
