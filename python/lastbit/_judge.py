"""Verdict on the stability of any map."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lastbit import _lastbit
from lastbit._result import Result

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Judgement(Result):
    """A verdict on stability, and the evidence for it.

    Attributes
    ----------
    verdict
        ``"stable"``, ``"restrained"`` (bounded, but small differences keep growing), ``"diverged"`` or
        ``"undecided"``.
    growth_per_step
        Growth rate of a perturbed copy (finite-time Lyapunov exponent) over the second half of the run: each step
        multiplies the difference by ``exp(growth_per_step)``.
    standard_error
        Standard error of ``growth_per_step``.
    resolution
        Growth per step that cannot be told from a transient in this many steps.
    reason, remedy
        Why the verdict is undecided, and what would decide it; otherwise None.
    diverged_at
        First step beyond the bound, of a run that diverged.
    steps
        Steps that were run; undecided runs are continued.
    window
        Steps over which the growth was measured.
    unstable_share
        Share of those steps at which the energy did not fall; 0 without an energy.
    hash
        BLAKE3 hash of the last state, the first 32 digits.
    x
        The last state.
    """

    verdict: str
    growth_per_step: float
    standard_error: float
    resolution: float
    reason: str | None
    remedy: str | None
    diverged_at: int | None
    steps: int
    window: int
    unstable_share: float
    hash: str
    x: Array

    def __str__(self) -> str:
        growth = f"growth {self.growth_per_step:.4g} ± {self.standard_error:.2g} per step over {self.window} steps"
        if self.verdict == "diverged":
            return f"diverged at step {self.diverged_at}"
        if self.verdict == "undecided":
            return f"undecided: {self.reason}; {self.remedy} ({growth})"
        return f"{self.verdict}: {growth}"


def judge(
    step: Callable[[Array, int], Array],
    x0: npt.ArrayLike,
    *,
    steps: int = 1000,
    at_most: int | None = None,
    dt: float = 1.0,
    energy: Callable[[Array], float] | None = None,
    is_linear: bool = False,
    scale: float | None = None,
    linear_range: float | None = None,
) -> Judgement:
    """Judge the stability of the iteration ``x = step(x, n)``.

    The map is run beside a slightly perturbed copy, whose growth rate decides between stable, restrained and
    diverged. A run that leaves the verdict open is continued up to ``at_most`` steps.

    Parameters
    ----------
    step
        The map: takes the state, a numpy array of one dimension, and the number of the step; returns the next state
        with the same shape and dtype. It is also called for the copy, with the same numbers of steps.
    x0
        Initial state, float64 or float32.
    steps
        Steps to run; a verdict takes at least 64.
    at_most
        Steps up to which an undecided run is continued. Default: 20 times ``steps``.
    dt
        Step size. Used with ``energy`` only.
    energy
        The function that the map descends, if it is gradient descent with step size ``dt``: a step that does not
        lower it has met a curvature above ``2/dt``.
    is_linear
        Whether the map is linear up to a constant: then growth is divergence.
    scale
        Size of the state when all is well, as a largest absolute value; beyond a million times that, the run has
        diverged. Default: that of ``x0``.
    linear_range
        How far a value may be moved before the map stops to be linear. Default: ``scale``. The copy is perturbed by
        the geometric mean of this and of rounding.

    Returns
    -------
    Judgement
        The verdict and its evidence.

    Examples
    --------
    The logistic map is chaotic at 4; its Lyapunov exponent is ln 2 = 0.693:

    >>> import lastbit
    >>> result = lastbit.judge(lambda x, n: 4 * x * (1 - x), [0.3], steps=2000)
    >>> result.verdict, round(result.growth_per_step, 1)
    ('restrained', 0.7)
    """
    state = np.ascontiguousarray(x0)
    if state.dtype not in (np.float32, np.float64):
        state = state.astype(np.float64)
    if state.ndim != 1 or state.size == 0:
        raise ValueError(f"x0: found shape {state.shape}, expected one dimension and at least one value")
    if steps < 1:
        raise ValueError(f"steps: found {steps}, expected at least 1")
    most = 20 * max(steps, 100) if at_most is None else max(at_most, steps)
    size = float(np.abs(state).max()) if scale is None else scale
    found = _lastbit.judge(
        step,
        state,
        steps=steps,
        at_most=most,
        dt=dt,
        energy=energy,
        is_linear=is_linear,
        scale=size,
        linear_range=size if linear_range is None else linear_range,
    )
    return Judgement(**found)
