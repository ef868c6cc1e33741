"""Settings of the gradient rivals, as published with the benchmark that the paper follows.

Buzzega et al., "Dark Experience for General Continual Learning" (2020): plain
SGD without momentum or schedule, the learning rates and weights found there by
grid search with 200 exemplars.
"""

from __future__ import annotations

from typing import Any

_MNIST: dict[str, dict[str, Any]] = {
    "finetune": {"lr": 0.03},
    "joint": {"lr": 0.03},
    "ewc": {"lr": 0.03, "penalty": 90.0, "decay": 1.0},
    "si": {"lr": 0.1, "strength": 1.0, "damping": 0.9},
    "lwf": {"lr": 0.03, "alpha": 1.0, "temperature": 2.0, "weight_decay": 5e-4},
    "icarl": {"lr": 0.1, "n_exemplars": 200},
    "er": {"lr": 0.01, "n_exemplars": 200, "replay_size": 10},
    "derpp": {"lr": 0.03, "n_exemplars": 200, "replay_size": 128, "alpha": 0.2, "beta": 1.0},
}
_CIFAR10: dict[str, dict[str, Any]] = {
    "finetune": {"lr": 0.1},
    "joint": {"lr": 0.1},
    "ewc": {"lr": 0.03, "penalty": 10.0, "decay": 1.0},
    "si": {"lr": 0.03, "strength": 0.5, "damping": 1.0},
    "lwf": {"lr": 0.01, "alpha": 3.0, "temperature": 2.0, "weight_decay": 5e-4},
    "icarl": {"lr": 0.1, "weight_decay": 1e-5, "n_exemplars": 200},
    "er": {"lr": 0.1, "n_exemplars": 200, "replay_size": 32},
    "derpp": {"lr": 0.03, "n_exemplars": 200, "replay_size": 32, "alpha": 0.1, "beta": 0.5},
}
_SMALL = {"backbone": "mlp", "batch_size": 10, "epochs": 1}
_LARGE = {
    "backbone": "resnet18",
    "batch_size": 32,
    "epochs": 50,
    "augment": True,
    "mixed_precision": True,
}


def settings(method: str, data: str) -> dict[str, Any]:
    """Settings of a method for a data set.

    MNIST's and CIFAR-10's are the published ones, the latter in mixed
    precision. Fashion-MNIST takes MNIST's, and so do the digits, which have a
    fiftieth of the images, with 20 epochs.
    """
    if data == "cifar10":
        return {**_LARGE, **_CIFAR10[method]}
    if data == "digits":
        return {**_SMALL, "epochs": 20, "white": 16.0, **_MNIST[method]}
    return {**_SMALL, **_MNIST[method]}
