"""The two networks that baselines train: a small MLP and ResNet-18 for small images."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn.functional import relu

BACKBONES = ("mlp", "resnet18")


class Backbone(nn.Module):
    """Features, then one linear output for each class.

    Parameters
    ----------
    body : Module
        From images, (n, channels, height, width), to features, (n, width).
    width : int
    n_outputs : int
    """

    def __init__(self, body: nn.Module, width: int, n_outputs: int) -> None:
        super().__init__()
        self.body = body
        self.head = nn.Linear(width, n_outputs)

    def forward(self, x: Tensor) -> Tensor:
        """Outputs, (n, n_outputs)."""
        features = self.body(x)
        # In mixed precision too the outputs are exact ones: they are remembered and compared.
        with torch.autocast(x.device.type, enabled=False):
            outputs: Tensor = self.head(features.to(self.head.weight.dtype))
        return outputs


def make_backbone(name: str, input_shape: Sequence[int], n_outputs: int, seed: int) -> Backbone:
    """A backbone with the initial weights of a seed, the same on every device.

    Parameters
    ----------
    name : {"mlp", "resnet18"}
    input_shape : sequence of int
        Height, width and, for colour, channels.
    n_outputs : int
    seed : int
        Of the weights; the global generator is left as it was.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        if name == "mlp":
            return _mlp(math.prod(input_shape), n_outputs)
        return _resnet18(input_shape[2] if len(input_shape) == 3 else 1, n_outputs)


def _mlp(n_inputs: int, n_outputs: int, width: int = 100) -> Backbone:
    """Two hidden layers of 100 ReLU units; Xavier-uniform weights, zero bias."""
    body = nn.Sequential(
        nn.Flatten(),
        nn.Linear(n_inputs, width),
        nn.ReLU(),
        nn.Linear(width, width),
        nn.ReLU(),
    )
    network = Backbone(body, width, n_outputs)
    for module in network.modules():
        if isinstance(module, nn.Linear):
            nn.init.xavier_uniform_(module.weight)
            nn.init.zeros_(module.bias)
    return network


def _resnet18(channels: int, n_outputs: int) -> Backbone:
    """ResNet-18 with a 3 × 3 stem and no max-pooling, as is usual for 32 × 32 images."""
    layers: list[nn.Module] = [
        nn.Conv2d(channels, 64, 3, padding=1, bias=False),
        nn.BatchNorm2d(64),
        nn.ReLU(),
    ]
    before = 64
    for width, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
        layers += [_Block(before, width, stride), _Block(width, width, 1)]
        before = width
    return Backbone(nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten()), 512, n_outputs)


class _Block(nn.Module):
    """Two 3 × 3 convolutions around which the input is led past."""

    def __init__(self, before: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(before, width, 3, stride, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(width)
        self.past: nn.Module = nn.Identity()
        if stride != 1 or before != width:
            self.past = nn.Sequential(
                nn.Conv2d(before, width, 1, stride, bias=False), nn.BatchNorm2d(width)
            )

    def forward(self, x: Tensor) -> Tensor:
        """Features, (n, width, height / stride, width / stride)."""
        inside = relu(self.norm1(self.conv1(x)))
        return relu(self.norm2(self.conv2(inside)) + self.past(x))
