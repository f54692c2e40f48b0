"""Numerical stability of PyTorch models: sharpness, critical learning rate, rounding perturbations, growth.

Every function takes the model, a loss and batches. The loss is either one of PyTorch's criteria (such as
``torch.nn.CrossEntropyLoss()``), for batches ``(input, target)``, or any function ``loss_fn(model, batch)`` that returns
a scalar tensor. A tuple, a dictionary or a tensor is one batch; a list or a ``DataLoader`` is many.

Nothing is left changed: parameters, gradients, buffers, optimizer state, modes and random number generators are as they
were before the call.
"""

try:
    import torch as _torch  # noqa: F401
except ImportError as error:
    raise ImportError(
        "lastbit.torch: found no PyTorch, expected version 2.4 or later; `pip install lastbit[torch]` installs it"
    ) from error

from lastbit.torch._attribution import Attribution
from lastbit.torch._critical_lr import CriticalLr, critical_lr
from lastbit.torch._fingerprint import Fingerprint, fingerprint
from lastbit.torch._growth import Growth, growth
from lastbit.torch._perturb import Perturbation, perturb
from lastbit.torch._probe import Probe
from lastbit.torch._problem import NotDeterministicError
from lastbit.torch._sharpness import LayerSharpness, Sharpness, sharpness

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
