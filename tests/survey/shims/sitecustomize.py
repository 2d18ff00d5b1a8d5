"""Lets a torchvision whose compiled part does not load beside this build of torch be imported, for what is Python of it.

Packages of models import torchvision for its transforms and boxes; of its compiled part their attention uses nothing. The
folder goes first on PYTHONPATH; then torchvision finds the operators declared that it registers shapes for.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any


class _Declaring:
    """Declares torchvision's operators when it is first asked for, and finds no module itself."""

    library: Any = None

    def find_spec(self, name: str, path: object = None, target: ModuleType | None = None) -> None:
        if name != "torchvision":
            return
        sys.meta_path.remove(self)  # type: ignore[arg-type]
        import torch

        self.library = torch.library.Library("torchvision", "DEF")
        for operator in ("nms", "qnms"):
            self.library.define(f"{operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")


DECLARING = _Declaring()
"""Kept, since an operator lasts as long as the library that declares it."""

sys.meta_path.insert(0, DECLARING)  # type: ignore[arg-type]
