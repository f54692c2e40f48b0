"""Everything that a training step changes, saved and put back."""

import contextlib
import copy
from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from lastbit.torch._perturb import perturbation_of
from lastbit.torch._random import random_states, set_random_states


@contextlib.contextmanager
def restored(model: nn.Module, optimizer: Optimizer) -> Iterator[None]:
    """Whatever happens inside, model and optimizer are afterwards bit by bit as they were."""
    tensors = {name: tensor.detach().clone() for name, tensor in model.state_dict(keep_vars=True).items()}
    extra = [p for group in optimizer.param_groups for p in group["params"]]
    params = {p: p.detach().clone() for p in extra}
    grads = {p: (p.grad, None if p.grad is None else p.grad.clone()) for p in extra}
    state = {p: _copied(values) for p, values in optimizer.state.items()}
    groups = [{key: value for key, value in group.items() if key != "params"} for group in optimizer.param_groups]
    random = random_states(extra[0].device)
    # A learning rate scheduler warns where it finds that no step was made; those made here do not count.
    called = getattr(optimizer, "_opt_called", None)
    perturbation = perturbation_of(optimizer)
    counted = perturbation.steps if perturbation is not None else 0
    try:
        yield
    finally:
        with torch.no_grad():
            for name, tensor in model.state_dict(keep_vars=True).items():
                tensor.detach().copy_(tensors[name])
            for p, value in params.items():
                p.detach().copy_(value)
        for p, (grad, value) in grads.items():
            p.grad = grad
            if grad is not None and value is not None:
                grad.copy_(value)
        optimizer.state.clear()
        optimizer.state.update(state)
        for group, values in zip(optimizer.param_groups, groups, strict=True):
            group.update(values)
        if called is not None:
            optimizer._opt_called = called  # type: ignore[attr-defined]
        if perturbation is not None:
            perturbation.steps = counted
        set_random_states(random)


def _copied(values: dict[str, object]) -> dict[str, object]:
    return {key: value.clone() if isinstance(value, Tensor) else copy.deepcopy(value) for key, value in values.items()}
