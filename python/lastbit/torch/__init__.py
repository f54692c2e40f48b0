"""Numerical stability of PyTorch models: sharpness, critical learning rate, rounding perturbations, growth.

Every function takes the model, a loss and batches. The loss is either one of PyTorch's criteria (such as
``torch.nn.CrossEntropyLoss()``), for batches ``(input, target)``, or any function ``loss_fn(model, batch)`` that returns
a scalar tensor. A tuple, a dictionary or a tensor is one batch; a list or a ``DataLoader`` is many.

Nothing is left changed: parameters, gradients, buffers, optimizer state, modes and random number generators are as they
were before the call.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lastbit.torch._names import *  # noqa: F403

__all__ = [
    "Attribution",
    "CriticalLr",
    "Fingerprint",
    "Growth",
    "LayerSharpness",
    "NotDeterministicError",
    "Perturbation",
    "Probe",
    "Sharpness",
    "critical_lr",
    "fingerprint",
    "growth",
    "perturb",
    "sharpness",
]


def __getattr__(name: str) -> Any:
    # PyTorch is imported when a name is used first: the launcher must leave that to the script, which may set environment
    # variables before.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module("lastbit.torch._names"), name)
    return value
