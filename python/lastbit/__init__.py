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

from lastbit import bounds, pde
from lastbit._check import CheckResult, Envelope, check, envelope_of
from lastbit._diff import DiffResult, diff
from lastbit._edge import EdgeResult, edge
from lastbit._envelope import EnvelopeResult, envelope
from lastbit._errors import InputError, LastbitError
from lastbit._judge import Judgement, judge
from lastbit._lastbit import __version__
from lastbit._logged import LoggedRun, Metric, logged
from lastbit._noise import NoiseResult, noise
from lastbit._progress import Progress
from lastbit._read import Run, read
from lastbit._records import Exhibit, VerifyResult, report, run, verify
from lastbit._run_diff import RunDiffResult
from lastbit._train import TrainResult, example_config, train

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
