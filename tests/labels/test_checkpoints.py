"""A training's state on disk: whole or not at all, and of one training."""

import pytest
import torch

from dplib.checks import ParameterError
from dplib.labels import checkpoints


def test_a_checkpoint_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    checkpoint = checkpoints.Checkpoint(tmp_path / "state.pt")
    checkpoint.save("a", {"w": torch.ones(3)}, {"steps": 1})
    save = torch.save

    def half(state, out):
        save(state, out)
        out.truncate(100)
        raise OSError("no space left")

    monkeypatch.setattr(torch, "save", half)
    with pytest.raises(OSError, match="no space"):
        checkpoint.save("a", {"w": torch.zeros(3)}, {"steps": 2})
    tensors, plain = checkpoint.load("a")
    assert tensors["w"].sum() == 3
    assert plain == {"steps": 1}
    assert [path.name for path in tmp_path.iterdir()] == ["state.pt"]
    with pytest.raises(ParameterError, match="another"):
        checkpoint.load("b")
    checkpoint.path.write_bytes(checkpoint.path.read_bytes()[:200])
    with pytest.raises(ParameterError, match="cannot be read"):
        checkpoint.load("a")
