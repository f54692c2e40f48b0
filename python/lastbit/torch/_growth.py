"""Growth of a perturbed copy along real training steps."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from lastbit._judge import Array, Judgement, judge
from lastbit.torch._problem import Batch, LossFn, check_optimizer, differentiable, evaluate, uncompiled, weighted
from lastbit.torch._random import random_states, set_random_states
from lastbit.torch._snapshot import restored

#: How far a value may be moved before a step that divides by roots (Adam) stops to be linear, over the largest parameter.
LINEAR_RANGE_OF_QUOTIENTS = 1e-4
#: What PyTorch's optimizers call the means of squares that they divide by the roots of.
SQUARES = ("exp_avg_sq", "max_exp_avg_sq", "square_avg", "acc_delta", "sum", "exp_inf")


def growth(
    model: nn.Module,
    loss_fn: LossFn,
    batches: Batch | Iterable[Batch],
    optimizer: Optimizer,
    *,
    steps: int = 200,
    at_most: int | None = None,
) -> Judgement:
    """Measure how fast a perturbed copy of a training drifts apart from it.

    Model and optimizer make real steps beside a copy that is perturbed slightly, on the same batches and with the same
    random numbers (dropout, say). Its growth rate with its standard error gives the verdict: stable, restrained (bounded,
    but small differences grow), diverged, or undecided.

    Parameters
    ----------
    model, loss_fn, batches
        As for :func:`sharpness`; modes stay as they are. Step ``n`` takes batch ``n`` of the list, and begins again at
        its end.
    optimizer
        Any optimizer of the model; its learning rate stays as it is.
    steps
        Steps to make, at least 64 for a verdict; each is made twice. The first step of a new optimizer is made
        before these.
    at_most
        Steps up to which an undecided run is continued. Default: ``steps``, so that the cost is known.

    Returns
    -------
    Judgement
        The verdict and its evidence; ``x`` is the last state: parameters, then the optimizer's tensors.

    Examples
    --------
    Gradient descent on ``3 x²`` with a learning rate of 0.1 multiplies a difference by ``1 - 0.1 · 6 = 0.4``:

    >>> import torch, lastbit.torch
    >>> x = torch.nn.Linear(1, 1, bias=False).double()
    >>> optimizer = torch.optim.SGD(x.parameters(), lr=0.1)
    >>> found = lastbit.torch.growth(x, lambda x, scale: scale * x.weight.square().sum(), torch.tensor(3.0), optimizer)
    >>> found.verdict, round(found.growth_per_step, 2)
    ('stable', -0.92)
    """
    module = uncompiled(model)
    optimizer = check_optimizer(optimizer, module.parameters())
    params = [p for group in optimizer.param_groups for p in group["params"] if p.requires_grad]
    if not params:
        raise ValueError("optimizer: found no parameter that requires a gradient, expected at least one")
    dtypes = {p.dtype for p in params}
    if dtypes not in ({torch.float32}, {torch.float64}):
        found = ", ".join(str(dtype) for dtype in dtypes)
        raise ValueError(f"model: found parameters of {found}, expected float32 or float64 for all")
    loaded, _ = weighted(batches, params[0].device, set())
    with restored(module, optimizer):
        run = _Training(module, loss_fn, loaded, optimizer, params)
        if not optimizer.state:
            run.advance(0)
        start = run.gather()
        largest = max(float(p.detach().abs().max()) for p in params if p.numel() > 0)
        scale = max(largest, 1.0)
        divides = any(key in state for state in optimizer.state.values() for key in SQUARES)
        return judge(
            run.step,
            start,
            steps=steps,
            at_most=steps if at_most is None else at_most,
            scale=scale,
            linear_range=scale * (LINEAR_RANGE_OF_QUOTIENTS if divides else 1.0),
        )


class _Training:
    """A training as a map of the flat state: parameters, then what the optimizer remembers."""

    def __init__(
        self, model: nn.Module, loss_fn: LossFn, batches: list[Any], optimizer: Optimizer, params: list[nn.Parameter]
    ) -> None:
        self.model, self.loss_fn, self.batches, self.optimizer, self.params = model, loss_fn, batches, optimizer, params
        self.rng = random_states(params[0].device)
        self.counters: dict[Tensor, float] = {}

    def remembered(self) -> list[Tensor]:
        """The tensors of the optimizer's state that a step changes, in a fixed order."""
        tensors = []
        for p in self.params:
            for key, value in sorted(self.optimizer.state.get(p, {}).items()):
                if isinstance(value, Tensor) and key != "step" and value.is_floating_point():
                    tensors.append(value)
        return tensors

    @torch.no_grad()
    def gather(self) -> Array:
        tensors = [p.detach() for p in self.params] + self.remembered()
        self.counters = {p: float(self.optimizer.state[p]["step"]) for p in self.params if "step" in self.optimizer.state.get(p, {})}
        return torch.cat([tensor.reshape(-1).to(self.params[0].dtype) for tensor in tensors]).cpu().numpy()

    @torch.no_grad()
    def scatter(self, state: Array, n: int) -> None:
        flat = torch.from_numpy(np.ascontiguousarray(state)).to(self.params[0].device)
        at = 0
        for tensor in [p.detach() for p in self.params] + self.remembered():
            tensor.copy_(flat[at : at + tensor.numel()].view(tensor.shape))
            at += tensor.numel()
        for values in self.optimizer.state.values():
            # A mean of squares of a perturbed copy is no negative number.
            for key in SQUARES:
                if key in values:
                    values[key].clamp_(min=0)
        for p, counter in self.counters.items():
            values = self.optimizer.state[p]
            step = values["step"]
            values["step"] = step.fill_(counter + n) if isinstance(step, Tensor) else type(step)(counter + n)

    def advance(self, n: int) -> None:
        set_random_states(self.rng)
        # Other random numbers at each step, the same for run and copy.
        torch.manual_seed((torch.initial_seed() + n) % 2**63)
        self.optimizer.zero_grad()
        loss = differentiable(evaluate(self.loss_fn, self.model, self.batches[n % len(self.batches)]))
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()

    def step(self, state: Array, n: int) -> Array:
        counters = self.counters
        self.scatter(state, n)
        self.advance(n)
        after = self.gather()
        self.counters = counters
        return after
