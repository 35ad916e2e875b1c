"""Every numeric argument of the library has bounds: a senseless number ends in ParameterError, which names it.

A walk over all public functions and classes: each needs a call that is right (:data:`CALLS`), of which one number after
another is replaced. So a new function without bounds fails here, and one without a call does, too.
"""

import dataclasses
import importlib
import inspect
import math
import pkgutil
import warnings

import numpy as np
import pandas as pd
import pytest
import torch

import dplib
from dplib import dpsgd, examples
from dplib.checks import ParameterError

# What serves the others; and whole settings (``Run``, ``Bounds``) that functions return and nobody makes.
INTERNAL = {
    "cache", "checks", "clipping", "devices", "failing", "files", "layers", "many_annealing", "secure", "stacked",
    "steps", "sums",
}  # fmt: skip
RETURNED = {
    "Bounds", "Run", "LowerBound", "Response", "Fit", "Constants", "Evidence", "Release", "Fisher", "Draws", "Measured",
    "Comparison", "Outcome", "Loss", "Energy", "FixedEnergy", "BatchEnergy", "Screen", "Learner",
}  # fmt: skip


def rng():
    return np.random.default_rng(0)


LABELS = np.arange(12) % 3
PRIOR = np.array([0.5, 0.3, 0.2])
ROWS = np.random.default_rng(1).standard_normal((12, 4))
TABLE = np.array([[0.7, 0.3], [0.3, 0.7]])
SCORES = np.random.default_rng(2).standard_normal((12, 3))
PHASES = [(1.0, 0.1, 10)]
GAUSS = {"noise_multiplier": 1.0, "sample_rate": 0.1, "steps": 10}


def log_density(x):
    return -(x**2) / 2 - math.log(math.sqrt(2 * math.pi))


def setting():
    return module("gmm").two_classes(4, 8, 1.0)


def module(name):
    return importlib.import_module(f"dplib.{name}")


def records():
    return examples.Examples((ROWS, LABELS), "train", torch.device("cpu"), torch.float32)


def training():
    given = {"data": dplib.Data((ROWS, LABELS)), "settings": dpsgd.DPSGD(1, 0.5, 0.1, 1.0, 1.0), "progress": False}
    return given | {"evaluate_every": 1}


def network():
    return module("models").mlp([4, 3])


CALLS = {
    "annealing.train": lambda: {
        "net": network(), "data": (ROWS, LABELS), "settings": dpsgd.DPSGD(1, 0.5, 0.1), "rng": rng(), "accepted": 1,
    },
    "dpsgd.train": lambda: training() | {"net": network(), "seed": 3},
    "many.train": lambda: training() | {"nets": [network()], "rngs": [rng()], "at_once": 1},
    "logistic_grid.LogisticGrid": lambda: {
        "settings": [dpsgd.DPSGD(1, 0.5, 0.1)], "train": records(), "classes": 3, "generators": None,
    },
    "examples.evaluate": lambda: {
        "net": network(), "examples": records(), "loss": examples.cross_entropy, "metric": examples.correct, "size": 5,
    },
    "sgd.train": lambda: {
        "net": network(), "x": ROWS.astype(np.float32), "y": LABELS, "sgd": module("sgd").Sgd(1, 4), "seed": 1,
        "device": torch.device("cpu"),
    },
    "sgd.outputs": lambda: {
        "net": network(), "x": ROWS.astype(np.float32), "device": torch.device("cpu"), "batch_size": 5,
    },
    "sgd.seeded": lambda: {"build": network, "seed": 1},
    "models.two_branch": lambda: {"n_users": 3, "n_items": 3, "num_classes": 3, "factors": 4},
    "accounting.epsilon": lambda: GAUSS | {"delta": 1e-5, "accountant": "rdp"},
    "accounting.bounds": lambda: {"phases": PHASES, "delta": 1e-5, "accountant": "rdp"},
    "accounting.noise_multiplier": lambda: {
        "target_epsilon": 1.0, "sample_rate": 0.1, "steps": 10, "delta": 1e-5, "accountant": "rdp", "rtol": 1e-3,
    },
    "accounting.selection_epsilon": lambda: {"phases": [(2.0, 0.1, 5)], "delta": 1e-5, "mean_runs": 4.0, "shape": 1.0},
    "accounting.inverted_epsilon": lambda: GAUSS | {"noise_multiplier": 4.0, "delta": 1e-5},
    "annealing.simulated_annealing": lambda: {
        "f": abs, "start": np.array(1.0), "neighbour": lambda x, r: x + r.normal(), "rng": rng(), "temperature": 1.0,
        "cooling": 0.5, "rounds": 3,
    },
    "annealing.Witness": lambda: {"pair": (ROWS, LABELS), "every": 5},
    "annealing.Annealing": lambda: {"initial_temperature": 10.0, "rejection_limit": 10},
    "audit.epsilon_lower_bound": lambda: {
        "true_positives": 8, "positives": 10, "false_positives": 2, "negatives": 10, "delta": 0.1, "confidence": 0.9,
    },
    "audit.choose_threshold": lambda: {
        "scores_with": SCORES[:, 0], "scores_without": SCORES[:, 1], "delta": 0.1, "confidence": 0.9,
    },
    "audit.audit_scores": lambda: {
        "scores_with": SCORES[:, 0], "scores_without": SCORES[:, 1], "delta": 0.1, "rng": rng(), "confidence": 0.9,
    },
    "audit.audit_by_repetition": lambda: {
        "scores": lambda present, runs, r: r.normal(size=runs) + present, "runs": 8, "delta": 0.1, "rng": rng(),
        "confidence": 0.9,
    },
    "audit.one_run_p_value": lambda: {"canaries": 20, "guesses": 10, "correct": 8, "epsilon": 1.0, "delta": 0.1},
    "audit.one_run_epsilon": lambda: {
        "canaries": 20, "guesses": 10, "correct": 10, "delta": 1e-3, "confidence": 0.9,
    },
    "audit.one_run_limit": lambda: {"shift": 1.0, "delta": 1e-3, "canaries": 6, "confidence": 0.9},
    "audit.audit_guesses": lambda: {
        "scores": SCORES[:, 0], "included": SCORES[:, 1] > 0, "guesses": 4, "delta": 0.1, "confidence": 0.9,
    },
    "best_of_random.of_trainings": lambda: GAUSS
    | {"noise_multiplier": 4.0, "mean_runs": 4.0, "shape": 1.0, "delta": 1e-3},
    "best_of_random.training": lambda: GAUSS | {"interval": 1e-3},
    "best_of_random.epsilon": lambda: {
        "pairs": module("best_of_random").training(2.0, 0.1, 2, 1e-2), "gamma": 0.3, "shape": 1.0, "delta": 1e-3,
    },
    "debiased.debiased_gradient": lambda: {"gradients": ROWS, "noisy_label": 1, "epsilon": 1.0},
    "debiased.span_projector": lambda: {"gradients": ROWS, "tolerance": 1e-9},
    "debiased.project": lambda: {"weights": ROWS, "radius": 1.0},
    "debiased.debiased_loss": lambda: {"losses": SCORES, "epsilon": 1.0},
    "debiased.lipschitz_printed": lambda: {"k": 3, "epsilon": 1.0},
    "debiased.lipschitz_least": lambda: {"k": 3, "epsilon": 1.0},
    "debiased.softmax_loss": lambda: {"classes": 3},
    "debiased.thresholds_rademacher": lambda: {"n": 9},
    "debiased.deviation_bound": lambda: {"complexity": 0.1, "n": 9, "beta": 0.1, "width": 1.0},
    "debiased.theorem17_bound": lambda: {
        "miss": 0.1, "k": 3, "epsilon": 1.0, "n": 9, "beta": 0.1, "complexity": 0.1, "lipschitz": 1.0,
    },
    "debiased.LabelsOnLine": lambda: {"classes": 4, "k": 2, "rho": 0.3},
    "dpsgd.DPSGD": lambda: GAUSS | {
        "learning_rate": 0.1, "max_grad_norm": 1.0, "momentum": 0.5, "physical_batch": 9, "divisor": 3.0,
    },
    "dpsgd.generator_of": lambda: {"rng": None, "seed": 3, "secure": False},
    "exact_loss.discrete_delta": lambda: {"outputs": TABLE, "epsilon": 0.5},
    "exact_loss.discrete_epsilon": lambda: {"outputs": TABLE, "delta": 0.1},
    "exact_loss.density_delta": lambda: {
        "log_p": log_density, "log_q": lambda x: log_density(x - 1), "epsilon": 0.5, "limits": (-9.0, 9.0),
    },
    "exact_loss.density_epsilon": lambda: {
        "log_p": log_density, "log_q": lambda x: log_density(x - 1), "delta": 0.1, "limits": (-9.0, 9.0),
    },
    "exact_loss.quotient_epsilon": lambda: {
        "n": 3, "sample_rate": 0.5, "noise_multiplier": 1.0, "delta": 0.1, "divisor": "constant",
    },
    "exact_loss.count_epsilon": lambda: {"n": 9, "coordinates": 4, "delta": 0.1},
    "examples.check_labels": lambda: {"y": torch.as_tensor(LABELS), "classes": 3, "name": "train"},
    "examples.poisson": lambda: {"n": 12, "sample_rate": 0.5, "rng": rng()},
    "examples.poisson_table": lambda: {"n": 12, "sample_rate": 0.5, "rng": rng(), "steps": 3},
    "examples.Sampler": lambda: {"kind": "poisson", "n": 12, "sample_rate": 0.5, "rng": rng()},
    "gmm.Mixture": lambda: {
        "mu1": np.zeros(3), "mu2": np.ones(3), "variances": np.ones(3), "n_per_class": 8, "noise_sd": 0.5,
    },
    "gmm.two_classes": lambda: {"p": 4, "n_per_class": 8, "distance": 1.0, "informative": 2, "noise_sd": 0.5},
    "gmm.max_norms": lambda: {"setting": setting(), "order": 2, "replicates": 3, "rng": rng()},
    "gmm.draw": lambda: {"setting": setting(), "replicates": 3, "rng": rng()},
    "gmm.draw_mirrored": lambda: {"setting": setting(), "replicates": 4, "rng": rng()},
    "gmm.advantage": lambda: {"psi": np.array([0.5]), "n": 9},
    "gmm.theorem6_psi": lambda: {"gamma": 0.5, "p": 4, "n": 16},
    "gmm.theorem6": lambda: {"gamma": 0.5, "p": 4, "n": 16},
    "gmm.finite_n": lambda: {"n_per_class": 9},
    "gmm.gamma_chain": lambda: {"setting": setting(), "x1": ROWS, "x2": ROWS[::-1] + 1, "tau": 1.0},
    "logistic_grid.train_grid": lambda: {
        "data": dplib.Data((ROWS, LABELS)), "settings": [dpsgd.DPSGD(2, 0.5, 0.1)], "rng": rng(), "classes": 3,
        "progress": False,
    },
    "mechanisms.paper_sigma": lambda: {"epsilon": 1.0, "delta": 1e-5, "sensitivity": 2.0},
    "mechanisms.analytic_sigma": lambda: {"epsilon": 1.0, "delta": 1e-5, "sensitivity": 2.0},
    "mechanisms.gaussian_delta": lambda: {"sigma": 1.0, "sensitivity": 2.0, "epsilon": 1.0},
    "mechanisms.gaussian_log_delta": lambda: {"sigma": 1.0, "sensitivity": 2.0, "epsilon": 1.0},
    "mechanisms.gaussian_epsilon": lambda: {"sigma": 1.0, "sensitivity": 2.0, "delta": 1e-5},
    "mechanisms.two_gaussians_delta": lambda: {
        "distance": 1.0, "sigma_x": 1.0, "sigma_y": 1.5, "dimension": 3, "epsilon": 0.5,
    },
    "mechanisms.clip_rows": lambda: {"x": ROWS, "max_norm": 1.0},
    "models.mlp": lambda: {"sizes": [4, 3, 2], "dropout": 0.5},
    **{
        f"models.{name}": lambda: {"num_classes": 3, "in_channels": 1, "width": 8}
        for name in ("resnet18", "resnet50", "preact_resnet18", "small_cnn")
    },
    "models.group_norm": lambda: {"channels": 4},
    "models.LSTM": lambda: {"inputs": 3, "units": 4},
    "models.block_cnn": lambda: {
        "filters": [4], "units": 3, "num_classes": 3, "in_channels": 1, "image_size": 12, "dropout": 0.5,
    },
    "models.spam_lstm": lambda: {"lstm_units": 3, "dense_units": 4, "dropout": 0.5, "n_words": 9, "width": 4},
    "models.medical_cost": lambda: {"layers": 2, "units": 3, "n_features": 4},
    "models.small_inception": lambda: {"num_classes": 3, "in_channels": 1},
    "newton.minimise": lambda: {"x": ROWS, "linear": np.ones((1, 4)), "l2": np.ones((1, 4)), "tol": 1e-6},
    "objpert.fit": lambda: {
        "x": ROWS / 9, "y": LABELS % 2, "epsilon": 1.0, "regularisation": 1.0, "norm_bound": 1.0, "rng": rng(),
        "problems": 2, "tol": 1e-8,
    },
    "objpert.draw_noise": lambda: {"noise_rate": np.array([1.0]), "used": np.ones((1, 3), bool), "rng": rng()},
    "objpert.calibrate": lambda: {"epsilon": 1.0, "regularisation": 1.0, "norm_bound": 1.0},
    "objpert.privacy_loss": lambda: {"noise_rate": 1.0, "norm_bound": 1.0, "leverage": 1.0},
    "priors.groups": lambda: {"features": ROWS, "count": 2, "seed": 0},
    "priors.histograms": lambda: {"labels": LABELS, "group": LABELS % 2, "count": 2, "classes": 3},
    "priors.noisy_histograms": lambda: {"counts": np.ones((2, 3), int), "epsilon": 1.0, "rng": rng()},
    "priors.normalised": lambda: {"noisy": np.ones((2, 3)), "smoothing": 0.5},
    "priors.respond": lambda: {
        "labels": LABELS, "group": LABELS % 2, "count": 2, "classes": 3, "epsilon": 2.0, "epsilon_p": 1.0,
        "rng": rng(), "smoothing": 0.5,
    },
    "priors.discrete_laplace": lambda: {"n": 3, "parameter": 1.0, "rng": rng()},
    "priors.stay": lambda: {"parameter": 1.0},
    "priors.joint_table": lambda: {"n": 1, "classes": 2, "epsilon": 2.0, "epsilon_p": 1.0, "parameter": 0.5},
    "priors.log_cut": lambda: {"counts": np.array([1]), "outputs": np.array([2]), "parameter": 1.0},
    "privacy.data_sets": lambda: {"n": 2, "classes": 2},
    "privacy.joint": lambda: {
        "n": 2, "classes": 2, "parts": [[0], [1]], "prior": lambda stage, answers: np.full((1, 2), 0.5),
        "epsilon": 1.0,
    },
    "privacy.loss": lambda: {"log_joint": np.log(np.full((4, 3), 1 / 3)), "n": 2, "classes": 2, "differ": 1},
    "privacy.counting_prior": lambda: {"features": [0, 1], "parts": [[0], [1]], "classes": 2, "weight": 1.0},
    "randomised_response.rr": lambda: {"labels": LABELS, "classes": 3, "epsilon": 1.0, "rng": rng()},
    "randomised_response.rr_top_k": lambda: {"labels": LABELS, "prior": PRIOR, "k": 2, "epsilon": 1.0, "rng": rng()},
    "randomised_response.rr_with_prior": lambda: {"labels": LABELS, "prior": PRIOR, "epsilon": 1.0, "rng": rng()},
    "randomised_response.success": lambda: {"prior": PRIOR, "epsilon": 1.0},
    "randomised_response.best_k": lambda: {"prior": PRIOR, "epsilon": 1.0},
    "randomised_response.kept": lambda: {"prior": PRIOR, "epsilon": 1.0},
    "randomised_response.top": lambda: {"prior": PRIOR, "k": 2},
    "randomised_response.log_table": lambda: {"members": np.ones(3, bool), "epsilon": 1.0},
    "randomised_response.information": lambda: {"members": np.ones(3, bool), "epsilon": 1.0, "prior": PRIOR},
    "randomised_response.leave_words": lambda: {"k": 3, "epsilon": 1.0},
    "randomised_response.uniform_words": lambda: {"times": 1, "n": 3, "rng": rng()},
    "rdp.rdp": lambda: GAUSS | {"orders": 2.0},
    "rdp.to_epsilon": lambda: {"rdp": np.array([0.1]), "orders": np.array([2.0]), "delta": 1e-5},
    "rdp.epsilon": lambda: GAUSS | {"delta": 1e-5},
    "rdp.noise_multiplier": lambda: {
        "target_epsilon": 1.0, "sample_rate": 0.1, "steps": 10, "delta": 1e-5, "rtol": 1e-3,
    },
    "rdp.check_settings": lambda: GAUSS,
    "releases.plain": lambda: {"labels": LABELS, "classes": 3},
    "releases.debiased": lambda: {"answers": LABELS, "members": np.ones(3, bool), "epsilon": 1.0},
    "releases.answer_likelihood": lambda: {"answers": LABELS, "members": np.ones(3, bool), "epsilon": 1.0},
    "releases.laplace": lambda: {"labels": LABELS, "classes": 3, "epsilon": 1.0, "rng": rng()},
    "releases.laplace_likelihood": lambda: {"released": SCORES, "epsilon": 1.0},
    "releases.subset_size": lambda: {"classes": 3, "epsilon": 1.0},
    "releases.subset": lambda: {"labels": LABELS, "classes": 3, "epsilon": 1.0, "rng": rng()},
    "releases.subset_likelihood": lambda: {"members": np.ones((12, 3), bool), "epsilon": 1.0},
    "releases.vector": lambda: {"labels": LABELS, "classes": 3, "epsilon": 1.0, "rng": rng()},
    "search_budgets.Search": lambda: {"trainings": 3},
    "search_budgets.dpsgd_epsilon": lambda: GAUSS | {"search": module("search_budgets").Search(2), "delta": 1e-5},
    "search_budgets.noise_for": lambda: {
        "search": module("search_budgets").Search(2), "total_epsilon": 1.0, "delta": 1e-5, "sample_rate": 0.1,
        "steps": 10, "rtol": 1e-4,
    },
    "search_budgets.pure_epsilon": lambda: {"search": module("search_budgets").Search(2), "epsilon": 1.0},
    "search_budgets.composed_epsilon": lambda: {"epsilon": 1.0, "count": 3, "delta": 1e-5},
    "search_budgets.selection_rdp": lambda: {
        "divergence": np.array([0.1]), "mean_runs": 4.0, "shape": 1.0, "orders": np.array([2.0]),
    },
    "search_budgets.stopping": lambda: {"mean_runs": 4.0, "shape": 0.5},
    "search_budgets.run_probabilities": lambda: {"mean_runs": 4.0, "shape": 0.5, "most": 9},
    "search_budgets.equation_9": lambda: {"loss": 0.1, "validation": 1000, "count": 9, "failure": 0.1},
    "search_budgets.theorem_runs": lambda: {"selection_epsilon": 0.1, "failure": 0.1, "p": 0.1},
    "selection.top": lambda: {"scores": ROWS[0], "m": 2},
    "selection.moment_t_statistic": lambda: {
        "means": ROWS[:2], "variances": np.ones((2, 4)), "counts": np.array([5, 5]), "extra_variance": 0.5,
    },
    "selection.definition_sd": lambda: {"norm": 1.0, "epsilon": 1.0, "delta": 1e-5},
    "selection.literal_sd": lambda: {"norm": 1.0, "epsilon": 1.0, "delta": 1e-5},
    "selection.dfs": lambda: {
        "x": ROWS, "labels": LABELS % 2, "m": 2, "noise_sd": lambda norm: 1.0, "rng": rng(),
    },
    "selection.Budget": lambda: {"epsilon": 1.0, "delta": 1e-5, "norms": 0.1, "selection": 0.3, "release": 0.6},
    "selection.composed_epsilon": lambda: {"mus": [0.5, 0.5], "delta": 1e-5},
    "selection.private_quantile": lambda: {
        "values": ROWS[:, 0], "share": 0.5, "thresholds": np.arange(4.0), "mu": 1.0, "rng": rng(),
    },
    "selection.private_class_means": lambda: {
        "x": ROWS, "labels": LABELS % 2, "bound": 1.0, "mu": 1.0, "rng": rng(),
    },
    "selection.private_rows": lambda: {"x": ROWS, "bound": 1.0, "mu": 1.0, "rng": rng()},
    "selection.private_dfs": lambda: {
        "x": ROWS, "labels": LABELS % 2, "m": 2, "budget": module("selection").Budget(1.0, 1e-5),
        "thresholds": np.arange(1.0, 5.0), "rng": rng(),
    },
    "selection.private_selection": lambda: {
        "x": ROWS, "labels": LABELS % 2, "m": 2, "budget": module("selection").Budget(1.0, 1e-5),
        "thresholds": np.arange(1.0, 5.0), "rng": rng(),
    },
    "selection.log_separation": lambda: {
        "alpha": np.array([1.0, 0.0]), "sd": np.ones(2), "threshold": 0.5, "log_number": np.zeros(2),
    },
    "sgd.Sgd": lambda: {"epochs": 2, "batch_size": 4, "learning_rate": 0.1, "weight_decay": 1e-3},
    "stages.Labels": lambda: {"labels": LABELS, "classes": 3, "epsilon": 1.0, "rng": rng()},
    "stages.split": lambda: {"n": 12, "shares": [0.5, 0.5], "rng": rng()},
    "stages.tempered": lambda: {"scores": SCORES, "temperature": 1.0},
    "stages.likely": lambda: {"scores": SCORES, "labels": LABELS, "k": 2},
    "stages.covered": lambda: {"prior": np.tile(PRIOR, (12, 1)), "labels": LABELS, "epsilon": 1.0},
    "stats.mean_interval": lambda: {"values": ROWS[0], "level": 0.9},
    "stats.splits_interval": lambda: {"values": ROWS[0], "test_share": 0.25, "level": 0.9},
    "stats.proportion_interval": lambda: {"successes": 3, "trials": 9, "level": 0.9},
    "stats.visible_difference": lambda: {"n": 9, "power": 0.7, "level": 0.9},
    "stats.provable_margin": lambda: {"n": 9, "power": 0.7, "level": 0.9},
    "tables.Settings": lambda: {"moments": 0.1, "max_grad_norm": 1.5, "learning_rate": 1.6, "steps": 40},
    "tables.noise_for": lambda: {"n": 100.0, "attributes": 4, "epsilon": 1.0, "delta": 1e-5},
    "tables.find_ranges": lambda: {
        "x": ROWS, "low": np.full(4, np.nan), "high": np.full(4, np.nan), "epsilon": 1.0, "delta": 1e-5, "rng": rng(),
    },
    "tables.fit": lambda: {
        "z": ROWS.clip(-1, 1), "y": LABELS, "columns": module("tables").Columns(-np.ones(4), np.ones(4)), "classes": 3,
        "epsilon": 1.0, "delta": 1e-5, "rng": rng(),
    },
}  # fmt: skip
NEVER = (math.nan, -math.inf, -1e300, 10**400, True, "1", None, 1j)
EXTREME = (math.inf, 1e300, 5e-324, 0, -1, 2**63, 1e-300, 1e17)
NONE_IS_ALLOWED = {  # parameters that may be left out by None
    "canaries", "divisor", "epsilon of stages", "informative", "max_grad_norm", "parameter", "physical_batch",
    "problems", "rejection_limit", "seed", "accepted", "evaluate_every", "at_once", "size", "batch_size",
}  # fmt: skip


def public():
    """Functions and classes of the library by name, but for what is internal or is only returned."""
    for name in sorted(info.name for info in pkgutil.iter_modules(dplib.__path__)):
        if name in INTERNAL or name.startswith("__") or name == "data":
            continue
        for key, value in vars(module(name)).items():
            if key.startswith("_") or getattr(value, "__module__", "") != f"dplib.{name}" or key in RETURNED:
                continue
            if inspect.isfunction(value) or inspect.isclass(value):
                yield f"{name}.{key}", value


def is_numeric(parameter):
    """Whether an argument is a number, by its annotation or default, or by its name where it has none."""
    said = str(parameter.annotation)
    if parameter.annotation is inspect.Parameter.empty and parameter.default is inspect.Parameter.empty:
        return parameter.name in {"epsilon", "delta", "steps", "sample_rate", "noise_multiplier", "k", "n", "sigma"}
    number = type(parameter.default) in (int, float)
    plain = said.replace("<class '", "").replace("'>", "").split(" | ")[0] in ("int", "float")
    return number or plain


PUBLIC = dict(public())
NUMBERS = {name: [key for key, value in call().items() if type(value) in (int, float)] for name, call in CALLS.items()}


def test_every_function_with_numbers_is_walked():
    missing = {}
    for name, value in PUBLIC.items():
        parameters = inspect.signature(value).parameters.values()
        left = [p.name for p in parameters if is_numeric(p) and p.name not in NUMBERS.get(name, ())]
        if left:
            missing[name] = left
    assert missing == ALLOWED_TO_MISS
    assert not set(CALLS) - set(PUBLIC)


# What the library calls by itself: at each step, or with numbers that others have checked.
ALLOWED_TO_MISS = {
    "accounting.inverted": ["steps", "delta", "c", "gap"],
    "annealing.acceptance_probability": ["change", "factor"],
    "annealing.add_evaluation": ["energy"],
    "dpsgd.check_network": ["expected", "most"],
    "examples.room": ["n", "sample_rate"],
    "examples.fill_normal": ["sd"],
    "many.fitting": ["expected"],
    "models.dropped": ["share"],
    "models.TwoBranches": ["n_users", "n_items", "factors"],
    "stages.run": ["epsilon", "classes", "temperature"],
    "tables.Noise": ["gradient", "moments"],
    "tables.Model": ["most"],
    "tables.count_noise": ["epsilon", "delta"],
    "tables.most_moments": ["attributes"],
    "tables.moments": ["n", "noise"],
    "tables.scaled": ["most"],
    "tables.descend": ["classes", "n", "noise_multiplier"],
}


def failures(name):
    function, call = PUBLIC[name], CALLS[name]
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        right = function(**call())
        for key in NUMBERS[name]:
            for value in (*NEVER, *EXTREME):
                if value is None and (key in NONE_IS_ALLOWED or f"{key} of {name.split('.')[0]}" in NONE_IS_ALLOWED):
                    continue
                try:
                    result = function(**call() | {key: value})
                except ParameterError as refusal:
                    if key not in str(refusal):
                        yield key, value, f"does not name it: {refusal}"
                    continue
                except Exception as problem:
                    yield key, value, f"{type(problem).__name__}: {problem}"
                    continue
                if any(value is never for never in NEVER) or not is_number(result):
                    yield key, value, f"gives {result!r}"
            kinds = (np.float32, np.float64) if type(call()[key]) is float else (np.int64, np.int32)
            for kind in kinds:
                result_ = function(**call() | {key: kind(call()[key])})
                if type(result_) is float and not math.isclose(result_, right, rel_tol=1e-3):
                    yield key, kind, f"gives {result_}, not {right}"


def is_number(result):
    """Whether nothing of a result is nan."""
    if dataclasses.is_dataclass(result):
        return all(is_number(getattr(result, f.name)) for f in dataclasses.fields(result) if f.name != "threshold")
    if isinstance(result, tuple | list):
        return all(map(is_number, result))
    if isinstance(result, float | np.ndarray | np.floating) and np.asarray(result).dtype.kind == "f":
        return not np.isnan(result).any()
    return True


@pytest.mark.parametrize("name", CALLS)
def test_senseless_numbers_are_refused_by_name(name):
    values = [f"{key} = {str(value)[:30]}: {said[:200]}" for key, value, said in failures(name)]
    assert not values, "\n".join(values)


# Calls of what takes arrays and no number; and arrays that are walked: in these functions, all of them.
ARRAY_CALLS = {
    "debiased.empirical_rademacher": lambda: {"values": ROWS},
    "priors.vote": lambda: {"noisy": np.ones((2, 3))},
    "privacy.losses": lambda: {"log_joint": np.log(np.full((4, 3), 1 / 3)), "pairs": np.ones((4, 4), bool)},
    "randomised_response.switch_points": lambda: {"prior": PRIOR},
    "randomised_response.objective": lambda: {"table": np.log(np.full((3, 3), 1 / 3)), "prior": PRIOR},
    "randomised_response.max_log_ratio": lambda: {"table": np.log(np.full((3, 3), 1 / 3))},
    "reconstruction.from_sums": lambda: {"groups": np.eye(3), "sums": np.ones(3)},
    "releases.posterior": lambda: {
        "prior": np.tile(PRIOR, (12, 1)), "evidence": module("releases").subset_likelihood(np.ones((12, 3), bool), 1.0),
    },
    "selection.mean_distance": lambda: {"means": ROWS[:2]},
    "stats.paired": lambda: {"a": ROWS[0], "b": ROWS[1]},
    "stats.independent": lambda: {"a": ROWS[0], "b": ROWS[1]},
    "stats.holm": lambda: {"p_values": np.array([0.1, 0.2, 0.01])},
} | {
    name: CALLS[name]
    for name in CALLS
    if name.split(".")[0] in ("debiased", "gmm", "priors", "privacy", "randomised_response", "releases", "stages")
    or name in ("newton.minimise", "objpert.draw_noise", "selection.top", "selection.moment_t_statistic",
                "selection.log_separation", "search_budgets.selection_rdp")
}  # fmt: skip
NAN_SAYS_NOTHING = {"selection.top", "selection.moment_t_statistic", "selection.mean_distance"}


def senseless(given):
    """What nobody means by an array such as this one, by what it is called below."""
    yield "None", None
    yield "a text", "text"
    yield "nan", math.nan
    yield "texts", given.astype(str)
    yield "complex", given.astype(complex)
    yield "rows of different lengths", [[1], [1, 2]]
    yield "masked", np.ma.masked_array(given, np.zeros(given.shape, bool))
    if given.dtype.kind == "f":
        yield "a nan in it", np.where(np.arange(given.size).reshape(given.shape) == 0, math.nan, given)
    if given.ndim > 1:
        yield "no columns", given[..., :0]


def tried(function, call, key, value):
    """What came of it: nothing, where it is refused or a result without nan."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            result = function(**call | {key: value})
    except ParameterError:
        return ""
    except Exception as problem:
        return f"{type(problem).__name__}: {problem}"
    return "" if is_number(result) else f"gives {result!r}"


def arrays(call):
    return {key: value for key, value in call.items() if isinstance(value, np.ndarray) and value.ndim}


@pytest.mark.parametrize("name", ARRAY_CALLS)
def test_senseless_arrays_are_refused(name):
    """Numbers in a text, a masked array and complex ones were computed with; an infinite gradient was never done."""
    function, found = PUBLIC[name], []
    for key, given in arrays(ARRAY_CALLS[name]()).items():
        for said, value in senseless(given):
            if said == "a nan in it" and name in NAN_SAYS_NOTHING:
                continue
            came = tried(function, ARRAY_CALLS[name](), key, value)
            unseen = said in ("a text", "texts", "complex", "masked", "a nan in it") and not came
            if unseen:
                with pytest.raises(ParameterError):
                    function(**ARRAY_CALLS[name]() | {key: value})
            if came:
                found.append(f"{key}, {said}: {came[:150]}")
        for less in (given[:-1], given[0], given[:0], given[..., None]):
            if came := tried(function, ARRAY_CALLS[name](), key, less):
                found.append(f"{key} of shape {less.shape}: {came[:150]}")
    assert not found, "\n".join(found)


@pytest.mark.parametrize("name", ARRAY_CALLS)
def test_arrays_of_another_kind_count_the_same(name):
    """A list, a tensor and a pandas column whose index runs backwards are read by their places."""
    function = PUBLIC[name]
    right = function(**ARRAY_CALLS[name]())
    for key, given in arrays(ARRAY_CALLS[name]()).items():
        kinds = [given.tolist(), torch.tensor(given)]
        kinds += [pd.Series(given, index=np.arange(len(given))[::-1])] if given.ndim == 1 else []
        for kind in kinds:
            again = function(**ARRAY_CALLS[name]() | {key: kind})
            assert " at 0x" in repr(right) or repr(again) == repr(right), (key, kind)


@pytest.mark.parametrize("wrong", [math.inf, -math.inf, math.nan])
def test_gradients_that_are_not_finite_are_refused(wrong):
    """LAPACK sought the singular values of an infinite matrix without end."""
    gradients = np.full((3, 2), wrong)
    with pytest.raises(ParameterError, match="gradients = float64 of shape"):
        module("debiased").span_projector(gradients)


@pytest.mark.parametrize(
    ("name", "key"),
    [("newton.minimise", "used"), ("objpert.draw_noise", "used"), ("releases.subset_likelihood", "members"),
     ("randomised_response.log_table", "members")],
)  # fmt: skip
def test_a_half_is_no_truth(name, key):
    shape = {"newton.minimise": (1, 4), "randomised_response.log_table": (3,)}.get(name, (1, 3))
    with pytest.raises(ParameterError, match="it must be true or false"):
        PUBLIC[name](**CALLS[name]() | {key: np.full(shape, 0.5)})


def test_a_label_of_a_million_needs_no_table_of_a_million_squared():
    """Plain and Laplace answers took K^2 numbers for their one-hot rows: four terabytes."""
    releases = module("releases")
    assert releases.plain([999_999], 10**6).values.sum() == 1
    assert releases.laplace([999_999], 10**6, 1.0, rng()).shape == (1, 10**6)
    assert releases.vector([999_999], 10**6, 1.0, rng()).shape == (1, 10**6)
