"""Interrupted trainings: a file that is written whole or not at all, and that belongs to one training."""

import hashlib
import json
import os
import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from dplib.checks import ParameterError


@dataclass(frozen=True)
class Checkpoint:
    """Where a training keeps its state.

    The file holds weights between noisy steps and the states of generators: as secret as the data.
    """

    path: str | Path

    def save(self, key: str, tensors: dict[str, Tensor], plain: dict[str, Any]) -> None:
        """Write the state in one step: a killed process leaves the old file or the new one."""
        path = Path(self.path)
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(f"{path.name}.{uuid.uuid4().hex[:8]}.part")
        try:
            with open(part, "xb") as out:
                torch.save({"key": key, "tensors": tensors, "plain": json.dumps(plain)}, out)
                out.flush()
                os.fsync(out.fileno())
            os.replace(part, path)
        finally:
            part.unlink(missing_ok=True)

    def load(self, key: str) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
        """(tensors, plain) of the training that ``key`` names, or None; ParameterError for a file of another one."""
        if not Path(self.path).exists():
            return None
        try:
            state = torch.load(self.path, map_location="cpu", weights_only=True)
            found, tensors, plain = state["key"], state["tensors"], json.loads(state["plain"])
        except Exception as error:
            raise ParameterError(
                f"checkpoint {self.path} cannot be read ({error}): remove it to start again."
            ) from error
        if found != key:
            raise ParameterError(
                f"checkpoint {self.path} is of a training with other settings, data, weights or seeds: "
                "remove it, or name another file."
            )
        return tensors, plain


def fingerprint(tensors: Iterable[Tensor], *plain: Any) -> str:
    """SHA-256 of tensors and of whatever else decides a training."""
    digest = hashlib.sha256(repr(plain).encode())
    for tensor in tensors:
        digest.update(repr((tensor.shape, tensor.dtype)).encode())
        digest.update(tensor.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy())
    return digest.hexdigest()
