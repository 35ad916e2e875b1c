"""What was looked at before more runs were added decides nothing beside them."""

import numpy as np

from papers.common.extended import added


def test_runs_that_were_added_after_a_look_stand_alone_and_without_any_all_do():
    values = np.arange(6.0)
    assert added(values, 4).tolist() == [4.0, 5.0]
    assert added(values, 6).tolist() == values.tolist()
