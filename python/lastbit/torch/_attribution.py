"""Why a perturbed copy of a training drifts away from it: the growth of their difference, by cause.

The module doc of ``lastbit::attribution`` has the mathematics. Run and copy make the real steps in float64, where the
growth of a small difference is told from rounding. After each step the copy is brought back to the distance of the
verdict's copy in the precision of the model: the kinks that lie between run and copy depend on it.

The Hessian is that of the batch of the step, with the same random numbers (dropout, say). With one learning rate per
parameter, and Adam's denominator ``P`` held (1 for SGD), the coordinates are::

    s = sqrt(lr/P)      x = δθ/s      y = s δm      (m: momentum buffer, first moment)
    mode of curvature q of s (H + weight decay) s:   (x, y) -> M(q) (x, y)

``M`` and the split into causes are Rust's; the vectors stay on the model's device. Adam's denominator changes with the
gradient, which adds to the held step, with ``δg = H δθ + weight decay · δθ``::

    δv' = b2 δv + 2 (1 - b2) g δg      e = lr m' δ√v' / (e1 e2 D²) / s      D = √v'/e2 + eps,  P = e1 D
    part "preconditioner" = |M d + (e, 0)|² - |M d|²       (e1 = 1 - b1^t,  e2 = sqrt(1 - b2^t))
"""

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from lastbit import _lastbit
from lastbit._result import Result
from lastbit.torch._problem import LossFn, Problem, mapped
from lastbit.torch._space import TensorSpace
from lastbit.torch._step_operator import adam_denominator, is_decoupled
from lastbit.torch._training import Training

CAUSES = ("overshoot", "negative_curvature", "transient", "contraction", "preconditioner", "kinks")
_ROUNDOFF = 2.0**-53


@dataclass(frozen=True)
class Attribution(Result):
    """The growth of a perturbed copy by cause, in e-folds per step (natural logarithms).

    ``overshoot``: the step is longer than the stability limit of the curvature it meets; a smaller learning rate cures it.
    ``negative_curvature``: the loss is curved downwards; gradient descent itself moves copies apart, whatever the learning
    rate. ``transient``: momentum that turns into distance. ``contraction``: all that shrinks. ``preconditioner``: changes
    of Adam's denominator. ``kinks``: what no linearization sees, such as kinks of ReLU and changes of the curvature.

    Attributes
    ----------
    growth
        Mean growth per step over the attributed steps of the second half.
    parts
        Its parts by cause, which add up to it.
    shares
        The share of each cause in all that amplifies, over the same steps. Empty where nothing amplifies by more than
        rounding could.
    rows
        One row per attributed step, as ``pandas.DataFrame`` takes them: ``step``, ``distance`` (over the norm of the
        parameters), ``growth``, its parts, ``cause`` (the largest, or ``"below rounding"``), ``rounding`` (what
        rounding could add), ``split_change`` (by how much a part changed when the number of nodes doubled).
    hvps
        Hessian-vector products made.
    notes
        What was left out or converted.
    """

    growth: float
    parts: dict[str, float]
    shares: dict[str, float]
    hvps: int
    rows: list[dict[str, Any]] = field(repr=False)
    notes: list[str]

    def __str__(self) -> str:
        if not self.rows:
            return "\n  ".join(["no step could be attributed: the run diverged, or copies coincide", *self.notes])
        rounding = max(row["rounding"] for row in self.rows)
        parts = ", ".join(f"{_in_words(cause)} {value:+.3g}" for cause, value in self.parts.items() if abs(value) > rounding)
        head = f"growth per step {self.growth:+.3g} = {parts or 'rounding'} (in float64)"
        if not self.shares:
            return "\n  ".join([head, "nothing amplifies by more than rounding could", *self.notes])
        shares = ", ".join(f"{100 * value:.0f} % {_in_words(cause)}" for cause, value in self.shares.items())
        return "\n  ".join([head, f"of all that amplifies: {shares}", *self.notes])


def check_attribution(optimizer: Optimizer, steps: int, every: int, nodes: int) -> None:
    """Whether the growth under this optimizer can be attributed."""
    if not 1 <= every <= steps:
        raise ValueError(f"attribute_every: found {every}, expected a number from 1 to the {steps} steps")
    if nodes < 4:
        raise ValueError(f"nodes: found {nodes}, expected at least 4")
    if type(optimizer) not in (torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW):
        raise ValueError(
            f"optimizer: found {type(optimizer).__name__}, expected SGD, Adam or AdamW for attribute_every, whose steps are "
            "known; without it growth() takes any optimizer"
        )
    groups = optimizer.param_groups
    refused = {
        "maximize=True": any(group.get("maximize") for group in groups),
        "amsgrad=True": any(group.get("amsgrad") for group in groups),
        "a learning rate of 0": any(float(group["lr"]) == 0 for group in groups),
        "a dampening of 1": any(group.get("dampening") == 1 for group in groups),
        "parameter groups with different momentum, betas or dampening": len({_memory_of(group) for group in groups}) > 1,
        "parameter groups with different decoupled weight decay per step": len({_decay_of(optimizer, g) for g in groups}) > 1,
    }
    for found, applies in refused.items():
        if applies:
            raise ValueError(f"optimizer: found {found}, for which attribute_every is not defined")


def attribute(
    module: nn.Module,
    loss_fn: LossFn,
    batches: list[Any],
    optimizer: Optimizer,
    steps: int,
    every: int,
    nodes: int,
    wanted: float,
) -> Attribution:
    """The growth over every ``every``-th of some steps, by cause, of a copy at the distance ``wanted``.

    Model and optimizer are copied and stay as they are.
    """
    notes: list[str] = []
    run = _in_float64(module, loss_fn, batches, optimizer, notes)
    values = run.begin()
    size = max(torch.linalg.vector_norm(run.parts(values)["theta"]).item(), _ROUNDOFF)
    copied = _moved_randomly(run, values, wanted)
    rows = []
    for n in range(steps):
        before = _Pair(values, copied)
        values_after = run.after(values, n)
        coordinates = _Coordinates(run) if (n + 1) % every == 0 else None
        after = _Pair(values_after, run.after(copied, n))
        distance = torch.linalg.vector_norm(after.copied - after.run).item()
        if not math.isfinite(distance):
            notes.append(f"the run diverged at step {n + 1}")
            break
        if distance == 0:
            notes.append(f"run and copy coincide after step {n + 1}")
            break
        if coordinates is not None:
            row = _row(run, loss_fn, n, before, after, coordinates, nodes, notes)
            if row is not None:
                rows.append(row | {"distance": _apart(run, before) / size})
        values = after.run
        copied = after.run + (wanted / distance) * (after.copied - after.run)
    return _summed(rows, steps, notes)


@dataclass(frozen=True)
class _Pair:
    """Flat states of the run and of its copy."""

    run: Tensor
    copied: Tensor


class _Coordinates:
    """Scales of the coordinates, read off the optimizer after the step of the run."""

    def __init__(self, run: Training) -> None:
        groups = {p: group for group in run.optimizer.param_groups for p in group["params"]}
        group = groups[run.params[0]]
        self.optimizer, self.momentum, self.gain, _ = _memory_of(group)
        self.key = "exp_avg" if self.optimizer == "adam" else "momentum_buffer"
        self.decay = _decay_of(run.optimizer, group)
        self.group = group
        roots, rates, decays = [], [], []
        for p in run.params:
            own = groups[p]
            rate: Tensor = torch.full_like(p, float(own["lr"])).detach().reshape(-1)
            denominator = adam_denominator(run.optimizer.state[p], own).reshape(-1) if self.optimizer == "adam" else 1.0
            rates.append(rate)
            roots.append((rate / denominator).sqrt())
            inside = 0.0 if is_decoupled(run.optimizer, own) else float(own["weight_decay"])
            decays.append(torch.full((p.numel(),), inside, dtype=p.dtype, device=p.device))
        self.scale, self.rates, self.inside = torch.cat(roots), torch.cat(rates), torch.cat(decays)
        self.count = float(run.optimizer.state[run.params[0]]["step"]) if self.optimizer == "adam" else 0.0

    def of(self, parts: dict[str, Tensor]) -> list[Tensor]:
        """``x``, and ``y`` where there is a memory."""
        x = parts["theta"] / self.scale
        return [x] if self.optimizer == "sgd" else [x, self.scale * parts[self.key]]


def _row(
    run: Training,
    loss_fn: LossFn,
    n: int,
    before: _Pair,
    after: _Pair,
    coordinates: _Coordinates,
    nodes: int,
    notes: list[str],
) -> dict[str, Any] | None:
    """The growth over step ``n`` by cause; None where something is not finite."""
    d = coordinates.of(run.parts(before.copied - before.run))
    moved = coordinates.of(run.parts(after.copied - after.run))
    stored = _norm(coordinates.of(run.parts(after.run)))
    rounding = 2 * _ROUNDOFF * (stored + _norm(coordinates.of(run.parts(after.run - before.run))))
    run.load(before.run, n)
    run.seed(n)
    problem = Problem(run.model, loss_fn, [run.batch(n)], _names(run), as_trained=True)
    space = TensorSpace(problem.dimension, problem.device, torch.float64)
    with problem.measuring():

        def multiply(v: Tensor) -> Tensor:
            scaled = coordinates.scale * v
            return coordinates.scale * (problem.hvp(scaled) + coordinates.inside * scaled)

        preconditioner = 0.0
        if coordinates.optimizer == "adam":
            preconditioner = _preconditioner_change(run, problem, multiply, before, after, coordinates, d)
        found = _lastbit.attribution(
            space,
            multiply,
            [vector.clone() for vector in d],
            products=nodes,
            optimizer=coordinates.optimizer,
            momentum=coordinates.momentum,
            gain=coordinates.gain,
            decay=coordinates.decay,
            squares=(_norm(d) ** 2, _norm(moved) ** 2),
            preconditioner=preconditioner,
            rounding=rounding,
        )
    notes.extend(note for note in problem.notes if note not in notes)
    if found is None:
        return None
    shares = found["shares"]
    cause = "below rounding" if shares is None else max(shares, key=lambda name: shares[name])
    row: dict[str, Any] = {"step": n + 1, "growth": found["growth"], "cause": cause} | found["parts"]
    row["amplifies"] = shares is not None
    return row | {"rounding": found["rounding"], "split_change": found["split_change"], "hvps": problem.hvps}


def _preconditioner_change(
    run: Training,
    problem: Problem,
    multiply: Callable[[Tensor], Tensor],
    before: _Pair,
    after: _Pair,
    coordinates: _Coordinates,
    d: list[Tensor],
) -> float:
    """``|J d|² - |J_held d|²`` of Adam."""
    beta1, beta2 = (float(beta) for beta in coordinates.group["betas"])
    scale = coordinates.scale
    _, gradient = problem.gradient()
    was, now = run.parts(before.run), run.parts(after.run)
    gradient = gradient + coordinates.inside * was["theta"]
    change = multiply(d[0])  # s δg
    dv = run.parts(before.copied)["exp_avg_sq"] - was["exp_avg_sq"]
    dv = beta2 * dv + 2 * (1 - beta2) * gradient * change / scale
    root = now["exp_avg_sq"].sqrt()
    # The root has no derivative at 0; there the gradient and the numerator are 0 as well.
    droot = torch.where(root > 0, dv / (2 * root), torch.zeros_like(root))
    e1, e2 = 1 - beta1**coordinates.count, math.sqrt(1 - beta2**coordinates.count)
    # P = e1 D = lr/s², so lr/(e1 D²) / s = s/D.
    denominator = coordinates.rates / (e1 * scale.square())
    e = scale * now["exp_avg"] * droot / (e2 * denominator)
    y = beta1 * d[1] + (1 - beta1) * change
    held = (1 - coordinates.decay) * d[0] - y
    return torch.sum(e * (2 * held + e)).item()


def _in_float64(module: nn.Module, loss_fn: LossFn, batches: list[Any], optimizer: Optimizer, notes: list[str]) -> Training:
    """A training by copies of model, optimizer and batches in float64, of the parameters that its steps move."""
    # Copied together, the copy of the optimizer holds the parameters of the copy of the model.
    model, own = copy.deepcopy((module, optimizer))
    model.double()
    for values in own.state.values():
        for key, value in values.items():
            if isinstance(value, Tensor) and value.is_floating_point() and key != "step":
                values[key] = value.double()

    def widened(tensor: Tensor) -> Tensor:
        return tensor.double() if tensor.is_floating_point() else tensor

    held = {p for group in own.param_groups for p in group["params"] if p.requires_grad}
    params = [p for p in model.parameters() if p in held]
    run = Training(model, loss_fn, [mapped(batch, widened) for batch in batches], own, params)
    try:
        run.backward(0)
    except RuntimeError as error:
        if "dtype" in str(error) or "scalar type" in str(error):
            raise ValueError(
                f"model: found one that cannot be evaluated in float64, expected that for attribute_every ({error})"
            ) from error
        raise
    used = [p for p in params if p.grad is not None]
    if len(used) < len(held):
        notes.append(f"{len(held) - len(used)} parameters that the loss does not depend on were left out")
    return Training(model, loss_fn, run.batches, own, used)


def _moved_randomly(run: Training, values: Tensor, distance: float) -> Tensor:
    """The state with parameters moved by random signs."""
    n = run.parts(values)["theta"].numel()
    # Drawn on the CPU, so that they are the same for every device.
    draws = torch.randint(0, 2, (n,), generator=torch.Generator().manual_seed(0)).to(values)
    moved = values.clone()
    moved[:n] += (2 * draws - 1) * (distance / math.sqrt(n))
    return moved


def _summed(rows: list[dict[str, Any]], steps: int, notes: list[str]) -> Attribution:
    """Means over the rows of the second half; rows that rounding explains count as no amplification."""
    hvps = sum(row.pop("hvps") for row in rows)
    tells = [row.pop("amplifies") for row in rows]
    late = [(row, told) for row, told in zip(rows, tells, strict=True) if 2 * row["step"] > steps] or list(zip(rows, tells, strict=True))
    count = max(len(late), 1)
    parts = {cause: sum(row[cause] for row, _ in late) / count for cause in CAUSES}
    amplified = {cause: sum(_amplifies(row, cause) for row, told in late if told) for cause in CAUSES}
    total = sum(amplified.values())
    shares = {cause: value / total for cause, value in amplified.items() if value > 0}
    growth = sum(row["growth"] for row, _ in late) / count if late else math.nan
    return Attribution(growth, parts, dict(sorted(shares.items(), key=lambda item: -item[1])), hvps, rows, notes)


def _amplifies(row: dict[str, Any], cause: str) -> float:
    # What no linearization sees is not told from rounding below that.
    unseen = cause == "kinks" and abs(row[cause]) <= row["rounding"]
    return 0.0 if unseen else max(float(row[cause]), 0.0)


def _memory_of(group: dict[str, Any]) -> tuple[str, float, float, float]:
    """Kind of optimizer, momentum, gain of a new gradient, and what else must not differ between groups."""
    if "betas" in group:
        beta1, beta2 = (float(beta) for beta in group["betas"])
        return "adam", beta1, 1.0, beta2
    mu = float(group["momentum"])
    if mu == 0:
        return "sgd", 0.0, 1.0, 0.0
    return "nesterov" if group["nesterov"] else "heavy-ball", mu, 1.0 - float(group["dampening"]), 0.0


def _decay_of(optimizer: Optimizer, group: dict[str, Any]) -> float:
    """By how much a step shrinks the parameters outside of the gradient."""
    return float(group["lr"]) * float(group["weight_decay"]) if is_decoupled(optimizer, group) else 0.0


def _names(run: Training) -> list[str]:
    own = set(run.params)
    return [name for name, p in run.model.named_parameters() if p in own]


def _apart(run: Training, pair: _Pair) -> float:
    return float(torch.linalg.vector_norm(run.parts(pair.copied - pair.run)["theta"]))


def _norm(vectors: list[Tensor]) -> float:
    return math.hypot(*(torch.linalg.vector_norm(vector).item() for vector in vectors))


def _in_words(cause: str) -> str:
    return cause.replace("_", " ")
