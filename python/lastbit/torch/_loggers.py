"""Loggers that a training already has."""

import math
from collections.abc import Callable, Mapping
from typing import Any

#: What a logger is called with: numbers by name, and the step.
Logger = Callable[[dict[str, float], int], object]
#: Columns that are logged, in this order.
LOGGED = (
    "probe_loss",
    "gradient_norm",
    "sharpness",
    "threshold",
    "edge_ratio",
    "critical_lr",
    "growth_per_step",
    "measuring_share",
)


def as_logger(target: Any) -> Logger:
    """A function for a function, a TensorBoard ``SummaryWriter``, a wandb run or a logger of Lightning."""
    if hasattr(target, "log_metrics"):
        return lambda values, step: target.log_metrics(values, step=step)
    if hasattr(target, "add_scalar"):

        def write(values: dict[str, float], step: int) -> None:
            for name, value in values.items():
                target.add_scalar(name, value, step)

        return write
    if hasattr(target, "log"):
        return lambda values, step: target.log(values, step=step)
    if callable(target):
        logger: Logger = target
        return logger
    raise TypeError(
        f"logger: found {type(target).__name__}, expected a function logger(values, step), a TensorBoard SummaryWriter or a "
        "wandb run"
    )


def logged(row: Mapping[str, Any]) -> dict[str, float]:
    """The finite numbers of a row that are logged, as ``lastbit/NAME``."""
    numbers = {name: row[name] for name in LOGGED if row.get(name) is not None}
    return {f"lastbit/{name}": float(value) for name, value in numbers.items() if math.isfinite(value)}
