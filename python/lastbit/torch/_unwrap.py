"""The model within the wrappers of compilers and distributed trainings, and the process among them."""

import os

import torch
from torch import nn

from lastbit.torch._problem import uncompiled


def bare_model(model: nn.Module) -> nn.Module:
    """The module that the user wrote: without ``torch.compile`` and ``DistributedDataParallel``."""
    module = uncompiled(model)
    if isinstance(module, (nn.parallel.DistributedDataParallel, nn.DataParallel)):
        return bare_model(module.module)
    return module


def is_main_process() -> bool:
    """Whether this is the process of rank 0, or the only one."""
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return torch.distributed.get_rank() == 0
    # What torchrun and accelerate set, before the processes know each other.
    return os.environ.get("RANK", "0") in ("", "0")
