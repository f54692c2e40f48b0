"""What a probe states of a training: the settings in its ``config.toml``."""

import platform
from collections.abc import Sequence
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer

from lastbit.torch._problem import Batch, LossFn, examples


def describe(
    model: nn.Module, loss_fn: LossFn, batches: Sequence[Batch], optimizer: Optimizer | None, probe: dict[str, Any]
) -> dict[str, Any]:
    """Tables of settings by name."""
    params = list(model.parameters())
    device = params[0].device
    versions: dict[str, Any] = {"python": platform.python_version(), "torch": torch.__version__, "device": str(device.type)}
    if device.type == "cuda":
        versions["device-name"] = torch.cuda.get_device_name(device)
    settings: dict[str, Any] = {
        "model": {
            "class": type(model).__name__,
            "parameters": sum(p.numel() for p in params),
            "tensors": len(params),
            "dtype": ", ".join(sorted({str(p.dtype).removeprefix("torch.") for p in params})),
        },
        "loss": {"name": getattr(loss_fn, "__name__", type(loss_fn).__name__)},
        "batches": {"count": len(batches), "examples": sum(examples(batch) for batch in batches)},
        "probe": probe,
        "versions": versions,
    }
    if optimizer is not None:
        groups = optimizer.param_groups
        plain = {key: _plain(value) for key, value in groups[0].items() if key != "params"}
        plain = {key: value for key, value in plain.items() if value is not None}
        settings["optimizer"] = {"name": type(optimizer).__name__, "groups": len(groups), **plain}
    return settings


def _plain(value: Any) -> Any:
    """A hyperparameter as a number, text, boolean or list of them; None if it is something else."""
    if isinstance(value, torch.Tensor):
        return value.item() if value.numel() == 1 else None
    if isinstance(value, (list, tuple)):
        items = [_plain(item) for item in value]
        return None if None in items else items
    return value if isinstance(value, (bool, int, float, str)) else None
