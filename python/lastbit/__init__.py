"""A numerical-stability laboratory for neural-network training.

Which learning rate is stable, and why? How much of a result is decided by rounding? Is this difference between two
runs a bug, or rounding?

=====================  =============================================================================
:func:`judge`          verdict on the stability of any map
:func:`noise`          is a gain larger than the noise of seeds and rounding?
:func:`check`          bug or rounding? a run beside runs that differ by rounding alone
:func:`envelope_of`    the envelope of such runs
:func:`diff`           compare tensors to the last bit; where do two runs first differ?
:func:`train`          train replicas of a network that differ in rounding or a seed, bit for bit
:func:`read`           metrics, settings and summary of a training run
:func:`logged`         metrics that any trainer logged: JSONL, CSV, TensorBoard, Hugging Face
:func:`envelope`       runs of any program that differ by rounding alone
:func:`edge`           largest stable learning rate of a training, stable weight decays
:mod:`lastbit.bounds`  stability bounds from theory: of linear schemes, of a one-layer network
:mod:`lastbit.pde`     simulate a PDE with your own data, with a verdict on its stability
:func:`run`            reproduce figures and tables of the paper
:func:`report`         one HTML report of all records below a folder
:func:`verify`         is every saved file as it was written?
=====================  =============================================================================

``lastbit.torch`` measures a PyTorch model of your own; it needs PyTorch, which is imported when it is first used.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lastbit._lastbit import __version__
    from lastbit._names import *  # noqa: F403

__all__ = [
    "CheckResult",
    "DiffResult",
    "EdgeResult",
    "Envelope",
    "EnvelopeResult",
    "Exhibit",
    "InputError",
    "Judgement",
    "LastbitError",
    "LoggedRun",
    "Metric",
    "NoiseResult",
    "Progress",
    "Run",
    "RunDiffResult",
    "TrainResult",
    "VerifyResult",
    "__version__",
    "bounds",
    "check",
    "diff",
    "edge",
    "envelope",
    "envelope_of",
    "example_config",
    "judge",
    "logged",
    "noise",
    "pde",
    "read",
    "report",
    "run",
    "train",
    "verify",
]


def __getattr__(name: str) -> Any:
    # numpy is imported when a name is used first: the launcher must leave that to the script, which may set environment variables
    # before.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module("lastbit._names"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
