"""Torchvision from PyPI beside a CPU build of PyTorch, which its compiled operators do not fit.

Avalanche needs torchvision's Python code only. Importing it fails where its operators, for the
detection of objects, cannot be loaded; where that is so they are declared here, without any code.
"""

from __future__ import annotations

import importlib

import torch

_OPERATORS = [
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    *(
        f"{name}(Tensor input) -> Tensor"
        for name in (
            "qnms",
            "roi_align",
            "_roi_align_backward",
            "roi_pool",
            "_roi_pool_backward",
            "ps_roi_align",
            "_ps_roi_align_backward",
            "ps_roi_pool",
            "_ps_roi_pool_backward",
            "deform_conv2d",
            "_deform_conv2d_backward",
        )
    ),
]

_LIBRARIES: list[torch.library.Library] = []  # declarations last as long as these


def declare_where_missing() -> bool:
    """Make `import torchvision` work; whether operators had to be declared for that."""
    try:
        importlib.import_module("torchvision")
    except RuntimeError:
        library = torch.library.Library("torchvision", "FRAGMENT")  # type: ignore[no-untyped-call]
        for one in _OPERATORS:
            library.define(one)  # type: ignore[no-untyped-call]
        _LIBRARIES.append(library)
        return True
    return False
