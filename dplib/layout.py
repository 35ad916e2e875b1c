"""The order in memory of images and of the networks on them: channels-last, but for networks that this would break.

PyTorch's convolutions and pooling are fastest on a CPU channels-last. But in PyTorch 2.13.0, on processors with AVX2
and no AVX-512, the backward pass of a float32 convolution then writes past its memory if its kernel is 1x1, its
stride above 1 and its input of fewer than 8 channels, one vector: the shortcut of a narrow ResNet. Weights or images
channels-last, either is enough to bring that about; in the plain order both are safe. And of instance normalisation
PyTorch computes other gradients channels-last where a batch has one image.
"""

import numpy as np
import torch
from torch import Tensor, nn

from dplib.examples import Array

VECTOR = 8  # float32 numbers in a register of AVX2


def of(net: nn.Module, x: Array) -> torch.memory_format:
    """What a network on examples x (n, ...) is to be kept in: channels-last for images, or the plain order where a
    layer calls for it; other examples leave the network as it is.
    """
    if np.ndim(x) != 4:
        return torch.preserve_format
    return torch.contiguous_format if any(map(_breaks, net.modules())) else torch.channels_last


def follow(x: Tensor, layout: torch.memory_format) -> Tensor:
    """Images (n, ...) in the plain order where the network is kept in it; elsewhere as they are."""
    return x.contiguous() if layout == torch.contiguous_format else x


def _breaks(module: nn.Module) -> bool:
    """Whether this is instance normalisation or such a convolution; padded ones are spared, but not worth the risk."""
    if isinstance(module, nn.InstanceNorm2d):
        return True
    if not isinstance(module, nn.Conv2d | nn.ConvTranspose2d):
        return False
    # A transposed convolution is the backward pass of one that has input and output exchanged.
    channels = module.out_channels if isinstance(module, nn.ConvTranspose2d) else module.in_channels
    return max(module.kernel_size) == 1 and max(module.stride) > 1 and channels < VECTOR
