"""A training as a map of its flat state: parameters, then what the optimizer remembers."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from lastbit.torch._problem import LossFn, differentiable, evaluate
from lastbit.torch._random import random_states, set_random_states

#: What PyTorch's optimizers call the means of squares that they divide by the roots of.
SQUARES = ("exp_avg_sq", "max_exp_avg_sq", "square_avg", "acc_delta", "sum", "exp_inf")


class Training:
    """Steps of a model and its optimizer from any state; step ``n`` takes batch ``n`` of the list, cyclically."""

    def __init__(
        self, model: nn.Module, loss_fn: LossFn, batches: list[Any], optimizer: Optimizer, params: list[nn.Parameter]
    ) -> None:
        self.model, self.loss_fn, self.batches, self.optimizer, self.params = model, loss_fn, batches, optimizer, params
        self._rng = random_states(params[0].device)
        self._counters: dict[Tensor, float] = {}

    def begin(self) -> Tensor:
        """The state from which steps are counted; a new optimizer makes its first step before."""
        if not self.optimizer.state:
            self.advance(0)
        self._counters = {p: float(values["step"]) for p, values in self._states() if "step" in values}
        return self.values()

    @property
    def divides_by_roots(self) -> bool:
        """Whether a step divides by roots, as Adam's."""
        return any(key in values for _, values in self._states() for key in SQUARES)

    def batch(self, n: int) -> Any:
        """The batch of step ``n``."""
        return self.batches[n % len(self.batches)]

    def seed(self, n: int) -> None:
        """Random numbers (of dropout, say) that differ from step to step and are the same for run and copy."""
        set_random_states(self._rng)
        torch.manual_seed((torch.initial_seed() + n) % 2**63)

    def backward(self, n: int) -> None:
        """The gradient of step ``n``."""
        self.seed(n)
        self.optimizer.zero_grad()
        loss = differentiable(evaluate(self.loss_fn, self.model, self.batch(n)))
        loss.backward()  # type: ignore[no-untyped-call]

    def advance(self, n: int) -> None:
        """Make step ``n``."""
        self.backward(n)
        self.optimizer.step()

    @torch.no_grad()
    def values(self) -> Tensor:
        """The flat state."""
        tensors = [p.detach() for p in self.params] + [value for _, value in self._remembered()]
        return torch.cat([tensor.reshape(-1).to(self.params[0].dtype) for tensor in tensors])

    @torch.no_grad()
    def load(self, values: Tensor, n: int) -> None:
        """Put the state before step ``n`` in place."""
        at = 0
        for tensor in [p.detach() for p in self.params] + [value for _, value in self._remembered()]:
            tensor.copy_(values[at : at + tensor.numel()].view(tensor.shape))
            at += tensor.numel()
        for _, remembered in self._states():
            # A mean of squares of a perturbed copy is no negative number.
            for key in SQUARES:
                if key in remembered:
                    remembered[key].clamp_(min=0)
        for p, counter in self._counters.items():
            remembered = self.optimizer.state[p]
            step = remembered["step"]
            remembered["step"] = step.fill_(counter + n) if isinstance(step, Tensor) else type(step)(counter + n)

    def after(self, values: Tensor, n: int) -> Tensor:
        """The state after step ``n`` from a state before it."""
        self.load(values, n)
        self.advance(n)
        return self.values()

    def parts(self, values: Tensor) -> dict[str, Tensor]:
        """The parts of a flat state by name: ``theta``, and the keys of the optimizer's state."""
        sizes = {"theta": sum(p.numel() for p in self.params)}
        for key, value in self._remembered():
            sizes[key] = sizes.get(key, 0) + value.numel()
        return dict(zip(sizes, torch.split(values, list(sizes.values())), strict=True))

    def _states(self) -> list[tuple[nn.Parameter, dict[str, Any]]]:
        return [(p, self.optimizer.state[p]) for p in self.params if p in self.optimizer.state]

    def _remembered(self) -> list[tuple[str, Tensor]]:
        """The tensors of the optimizer's state that a step changes, key by key."""
        states = [values for _, values in self._states()]
        keys = sorted({key for values in states for key in values if key != "step"})
        found = [(key, values[key]) for key in keys for values in states if key in values]
        return [(key, value) for key, value in found if isinstance(value, Tensor) and value.is_floating_point()]
