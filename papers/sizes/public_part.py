"""A data set in three: records to be private, a public part on which everything is chosen, and test records.

The last sixth of the training records plays the public set: principal components are fitted on it, and rates and steps
are chosen on it. It is trained on by nobody, and no reported number is of it. So epsilon covers everything that touches
the private records.
"""

import functools

import numpy as np

from dplib import data
from dplib.data import preprocess

Part = tuple[np.ndarray, np.ndarray]


@functools.lru_cache(maxsize=2)
def parts(dataset: str, components: int | None) -> dict[str, Part]:
    """ "pool" (private), "public" and "test": rows of pixels, or of principal components of the public part."""
    flat = preprocess.flatten(data.load(dataset))
    cut = len(flat.y_train) * 5 // 6
    x = {"pool": flat.x_train[:cut], "public": flat.x_train[cut:], "test": flat.x_test}
    y = {"pool": flat.y_train[:cut], "public": flat.y_train[cut:], "test": flat.y_test}
    if components:
        from sklearn.decomposition import PCA

        fitted = PCA(components, svd_solver="covariance_eigh").fit(x["public"])
        x = {name: fitted.transform(rows).astype(np.float32) for name, rows in x.items()}
    return {name: (x[name], y[name]) for name in x}
