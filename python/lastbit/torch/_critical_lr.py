"""The largest learning rate whose next step does not raise the loss."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import nn
from torch.optim import Optimizer

from lastbit._result import Result
from lastbit.torch._modes import with_gradients
from lastbit.torch._problem import Batch, LossFn, Problem, check_optimizer
from lastbit.torch._snapshot import restored

#: Doublings of the step before the search gives up.
MOST_DOUBLINGS = 20
#: A change of the loss below this many roundings of the loss is not told from rounding.
ROUNDINGS = 16


@dataclass(frozen=True)
class CriticalLr(Result):
    """Result of :func:`critical_lr`.

    Attributes
    ----------
    lr
        The learning rate of the optimizer (of its first group).
    lower, upper
        The critical learning rate lies between these: at ``lower`` the step does not raise the loss, at ``upper`` it
        does. ``upper`` is infinite if no step that was tried raises it; both are 0 if the update points uphill.
    loss
        The loss before the step.
    evaluations
        Losses that were computed.
    reason
        Why the search did not reach its tolerance; None if it did.
    notes
        What was switched off, converted or found to be not reproducible.
    """

    lr: float
    lower: float
    upper: float
    loss: float
    evaluations: int
    reason: str | None
    notes: list[str]

    @property
    def critical_lr(self) -> float:
        """The geometric mean of the bracket; NaN where there is none."""
        if self.reason is not None and not (self.lower > 0 and math.isfinite(self.upper)):
            return 0.0 if self.upper == 0 else math.nan
        return math.sqrt(self.lower * self.upper)

    @property
    def ratio(self) -> float:
        """The learning rate over the critical one: above 1, the next step raises the loss of this batch."""
        critical = self.critical_lr
        return math.inf if critical == 0 else self.lr / critical

    def __str__(self) -> str:
        text = f"critical learning rate {self.lower:.4g} to {self.upper:.4g}; the optimizer has {self.lr:.4g}"
        return "\n  ".join([text if self.reason is None else f"{text}; {self.reason}", *self.notes])


@with_gradients()
def critical_lr(
    model: nn.Module,
    loss_fn: LossFn,
    batch: Batch | Iterable[Batch],
    optimizer: Optimizer,
    *,
    tolerance: float = 0.02,
) -> CriticalLr:
    """Find the largest step along the optimizer's real update that does not raise the loss.

    The optimizer makes its step, whatever it is; the loss is then evaluated along the line from the old parameters
    through the new ones. A learning rate scales the update, so a point on the line is a learning rate. (This holds the
    direction of the step; decoupled weight decay scales with it.)

    Parameters
    ----------
    model, loss_fn
        As for :func:`sharpness`.
    batch
        One batch or many, as for :func:`sharpness`. The update is that of their mean gradient.
    optimizer
        Any optimizer of the model.
    tolerance
        Width of the bracket, relative to the critical learning rate.

    Returns
    -------
    CriticalLr
        The bracket of the critical learning rate.

    Examples
    --------
    The loss ``3 x²`` has the curvature 6, so plain gradient descent overshoots beyond 2/6:

    >>> import torch, lastbit.torch
    >>> x = torch.nn.Linear(1, 1, bias=False)
    >>> optimizer = torch.optim.SGD(x.parameters(), lr=0.1)
    >>> found = lastbit.torch.critical_lr(x, lambda x, scale: scale * x.weight.square().sum(), torch.tensor(3.0), optimizer)
    >>> abs(found.critical_lr - 1 / 3) < 0.01  # the bracket is 2 % wide
    True
    """
    if not 1e-6 <= tolerance <= 1:
        raise ValueError(f"tolerance: found {tolerance}, expected a number from 1e-6 to 1")
    problem = Problem(model, loss_fn, batch)
    if problem.model is not getattr(model, "_orig_mod", model):
        raise ValueError("model: found parameters in half precision, expected float32 or float64: a step would be lost in rounding")
    optimizer = check_optimizer(optimizer, problem.originals)
    with restored(problem.model, optimizer), problem.measuring():
        loss, _ = problem.check()
        theta = problem.flatten([p.detach() for p in problem.params])
        _, gradient = problem.gradient()
        for p, piece in zip(problem.params, problem.unflatten(gradient), strict=True):
            p.grad = piece.clone()
        optimizer.step()
        update = problem.flatten([p.detach() for p in problem.params]) - theta
        slope = torch.dot(gradient.double(), update.double()).item()
        line = _Line(problem, theta, update, loss)
        lower, upper, reason = _bracket(line, slope, tolerance)
    lr = float(optimizer.param_groups[0]["lr"])
    return CriticalLr(lr, lr * lower, lr * upper, loss, line.evaluations, reason, problem.notes)


class _Line:
    """The loss along the update, less the loss before it."""

    def __init__(self, problem: Problem, theta: torch.Tensor, update: torch.Tensor, loss: float) -> None:
        self.problem, self.theta, self.update, self.loss = problem, theta, update, loss
        self.evaluations = 0
        self.rounding = ROUNDINGS * torch.finfo(problem.precision).eps * abs(loss)

    def rise(self, factor: float) -> float:
        self.evaluations += 1
        self.problem.load(self.theta + factor * self.update)
        rise = self.problem.loss() - self.loss
        # A loss that is not a number is no improvement.
        return math.inf if math.isnan(rise) else rise


def _bracket(line: _Line, slope: float, tolerance: float) -> tuple[float, float, str | None]:
    """Factors of the update between which the loss returns to its value before the step, and why if they are wide."""
    if not slope < 0:
        return 0.0, 0.0, "the update does not point downhill on this batch (momentum, or another batch)"
    at_one = line.rise(1.0)
    # A parabola with this slope and this value at 1 returns to 0 here.
    curvature = at_one - slope
    guess = -slope / curvature if 0 < curvature < math.inf else 1.0
    factor = min(max(guess, 2.0**-MOST_DOUBLINGS), 2.0**MOST_DOUBLINGS)
    lower, upper = 0.0, math.inf
    deepest = 0.0
    widening = 1.0 + tolerance / 2
    for _ in range(2 * MOST_DOUBLINGS):
        rise = line.rise(factor)
        deepest = min(deepest, rise)
        if rise > 0:
            upper = factor
        else:
            lower = factor
        if lower > 0 and upper < math.inf:
            if upper / lower <= 1 + tolerance:
                break
            factor = math.sqrt(lower * upper)
        else:
            # First close around the guess, then ever wider.
            factor = factor / widening if rise > 0 else factor * widening
            widening = min(widening**2, 2.0)
        if factor > 2.0**MOST_DOUBLINGS:
            return lower, math.inf, f"no step up to {lower:.2g} times the learning rate raises the loss"
        if factor < 2.0**-MOST_DOUBLINGS:
            return 0.0, upper, "every step that was tried raises the loss"
    # Half way to the root, a parabola is at its deepest.
    depth = max(-deepest, -line.rise(lower / 2))
    if depth < line.rounding:
        return lower, upper, "the change of the loss is not told from its rounding; float64 would decide it"
    return lower, upper, None if upper / lower <= 1 + tolerance else "the tolerance was not reached"
