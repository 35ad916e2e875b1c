"""What the figures and tables of chapters 9b and 10 are drawn from: gains by epsilon, names that one can read."""

from dplib.stats import Measured
from papers.labels import prior_rows, recipe_figures


def test_a_loss_turned_into_a_gain_has_its_ends_in_order():
    losses = {"a_less_b_eps_10": Measured(0.1, 0.05, 0.2), "a_less_b_eps_2": Measured(-1, -2, 1), "c_eps_1": None}
    gains = recipe_figures._by_epsilon(losses, "a_less_b_eps_", times=-1)
    assert gains.to_numpy().tolist() == [[2, 1, -1, 2], [10, -0.1, -0.2, -0.05]]


def test_attacks_have_names_that_one_can_read():
    areas = {
        "auc_of_membership_at_label_eps_1": 0.881,
        "auc_with_true_labels": 0.711,
        "least_auc_of_a_nearest_neighbour_rule": 1.0,
        "auc_for_dp_sgd_at_record_eps_4": 0.506,
    }
    found = prior_rows.attack_table(areas).iloc[:, 0].to_dict()
    assert found == {
        "true labels": "0.71",
        "randomised labels, ε = 1": "0.88",
        "nearest neighbour on randomised labels": "1.00",
        "DP-SGD, ε = 4": "0.51",
    }
