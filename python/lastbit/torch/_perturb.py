"""Perturbations of the size of rounding errors, applied to the steps of any PyTorch optimizer."""

import math
import weakref
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from lastbit import _lastbit

_active: "weakref.WeakKeyDictionary[Optimizer, Perturbation]" = weakref.WeakKeyDictionary()


def perturbation_of(optimizer: Optimizer) -> "Perturbation | None":
    """The perturbation of an optimizer, if it has one."""
    return _active.get(optimizer)


class Perturbation:
    """A perturbation that is at work until :meth:`remove`; also a context manager.

    Attributes
    ----------
    steps
        Steps that were perturbed so far. Save it with a checkpoint and set it after a resume, so that the random
        numbers continue.
    """

    def __init__(self, optimizer: Optimizer) -> None:
        if optimizer in _active:
            raise ValueError("optimizer: found one that is perturbed already, expected one that is not; see remove()")
        self.steps = 0
        self._optimizer = optimizer
        self._hooks = [
            optimizer.register_step_pre_hook(lambda *_: self._before()),
            optimizer.register_step_post_hook(lambda *_: self._after()),
        ]
        _active[optimizer] = self

    def remove(self) -> None:
        """End the perturbation; the optimizer is as it was before."""
        for hook in self._hooks:
            hook.remove()
        self._hooks = []
        _active.pop(self._optimizer, None)

    def __enter__(self) -> "Perturbation":
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()

    def _before(self) -> None:
        pass

    def _after(self) -> None:
        raise NotImplementedError


def perturb(optimizer: Optimizer, kind: str | None = None, *, k: float = 3, seed: int = 0) -> Perturbation:
    """Perturb every step of an optimizer at the level of rounding.

    Two runs of a training that differ in this alone show what rounding decides.

    Parameters
    ----------
    optimizer
        The optimizer whose steps are perturbed from now on.
    kind
        ``"k"``, for ``torch.optim.SGD`` (with momentum, Nesterov momentum, weight decay): the update ``lr * d`` is
        computed as ``(lr / k) * (k * d)``, which is the same in exact arithmetic. With ``k`` a power of two it is also
        the same in floating point.
        ``"ulp"``, for any optimizer: after each step one entry of one parameter, drawn at random, moves to the
        neighbouring floating-point number, up or down.
        Default: ``"k"`` for SGD, ``"ulp"`` otherwise.
    k
        The factor, for ``"k"``: 1, 3, 5, ... give runs that differ in rounding.
    seed
        Of the draws, for ``"ulp"``. Draws are a function of the seed and the number of the step alone, so that all ranks
        of a data-parallel job make the same ones.

    Returns
    -------
    Perturbation
        Call its ``remove()``, or use it in a ``with`` statement, to end the perturbation.

    Examples
    --------
    >>> import torch, lastbit.torch
    >>> model = torch.nn.Linear(4, 1)
    >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    >>> with lastbit.torch.perturb(optimizer, k=3):
    ...     model(torch.ones(2, 4)).square().mean().backward()
    ...     optimizer.step()
    """
    if not isinstance(optimizer, Optimizer):
        raise TypeError(f"optimizer: found {type(optimizer).__name__}, expected a torch.optim.Optimizer")
    is_sgd = type(optimizer) is torch.optim.SGD
    chosen = kind or ("k" if is_sgd else "ulp")
    if chosen == "ulp":
        return _Ulp(optimizer, seed)
    if chosen != "k":
        raise ValueError(f'kind: found {chosen!r}, expected "k" or "ulp"')
    if not is_sgd:
        raise ValueError(f'optimizer: found {type(optimizer).__name__}, expected torch.optim.SGD for "k"; "ulp" takes any')
    if not (math.isfinite(k) and k > 0):
        raise ValueError(f"k: found {k}, expected a positive number such as 3")
    return _ScaledStep(optimizer, k)


class _ScaledStep(Perturbation):
    """``p - (lr/k) (k d)`` instead of ``p - lr d``.

    PyTorch makes its own step, which updates the momentum buffers; then the parameters are put back and moved by the
    perturbed update, with the operation that PyTorch uses. The direction is formed again in PyTorch's order::

        g = ± gradient + weight decay · p;   d = g, the buffer, or g + momentum · buffer (Nesterov)

    ``k d`` is rounded once. ``p + a (k d)`` is what PyTorch's ``add`` with ``alpha`` computes: one fused multiply-add
    where the processor has one, else a product and a sum that are each rounded. ``a = -lr/k`` is divided in float64 and
    rounded to the precision of the operation.
    """

    def __init__(self, optimizer: Optimizer, k: float) -> None:
        super().__init__(optimizer)
        self.k = k
        self._copies: dict[str, dict[Tensor, Tensor]] = {"parameter": {}, "gradient": {}, "scaled": {}}
        self._perturbed: list[tuple[dict[str, Any], list[Tensor], list[Tensor], list[Tensor]]] = []

    @torch.no_grad()
    def _before(self) -> None:
        self._perturbed = []
        for group in self._optimizer.param_groups:
            params = [p for p in group["params"] if p.grad is not None]
            if not params:
                continue
            before = self._memory("parameter", params)
            torch._foreach_copy_(before, params)
            grads: list[Tensor] = []
            if group["momentum"] == 0 or group["nesterov"]:
                # PyTorch may overwrite the gradients.
                grads = self._memory("gradient", params)
                torch._foreach_copy_(grads, [p.grad for p in params])
            self._perturbed.append((group, params, before, grads))

    @torch.no_grad()
    def _after(self) -> None:
        for group, params, before, grads in self._perturbed:
            directions = self._directions(group, params, before, grads)
            torch._foreach_copy_(params, before)
            torch._foreach_add_(params, self._scaled(directions, params), alpha=-float(group["lr"]) / self.k)
        self._perturbed = []
        self.steps += 1

    def _memory(self, kind: str, params: list[Tensor]) -> list[Tensor]:
        """A tensor like each parameter, kept from step to step: new memory costs more than what is done in it."""
        kept = self._copies[kind]
        return [kept[p] if p in kept else kept.setdefault(p, torch.empty_like(p)) for p in params]

    def _scaled(self, directions: list[Tensor], params: list[Tensor]) -> list[Tensor]:
        if params[0].device.type != "cpu":
            return list(torch._foreach_mul(directions, self.k))
        scaled = self._memory("scaled", params)
        for direction, out in zip(directions, scaled, strict=True):
            torch.mul(direction, self.k, out=out)
        return scaled

    def _directions(
        self, group: dict[str, Any], params: list[Tensor], before: list[Tensor], grads: list[Tensor]
    ) -> list[Tensor]:
        buffers = [self._optimizer.state[p]["momentum_buffer"] for p in params] if group["momentum"] else []
        if buffers and not group["nesterov"]:
            return buffers
        if group["maximize"]:
            torch._foreach_neg_(grads)
        if group["weight_decay"]:
            torch._foreach_add_(grads, before, alpha=group["weight_decay"])
        if buffers:
            torch._foreach_add_(grads, buffers, alpha=group["momentum"])
        return grads


class _Ulp(Perturbation):
    """One entry of one parameter moves by one ulp after each step."""

    def __init__(self, optimizer: Optimizer, seed: int) -> None:
        super().__init__(optimizer)
        self.seed = seed

    @torch.no_grad()
    def _after(self) -> None:
        params = [p for group in self._optimizer.param_groups for p in group["params"] if p.requires_grad and p.numel() > 0]
        sizes = [p.numel() for p in params]
        entry = _lastbit.below(self.seed, 0, self.steps, sum(sizes))
        up = _lastbit.below(self.seed, 1, self.steps, 2) == 1
        for p, size in zip(params, sizes, strict=True):
            if entry < size:
                _move_by_an_ulp(p, entry, up)
                break
            entry -= size
        self.steps += 1


def _move_by_an_ulp(p: Tensor, entry: int, up: bool) -> None:
    """The neighbouring floating-point number in place of an entry; what is not finite stays."""
    index = []
    for length in reversed(p.shape):
        entry, at = divmod(entry, length)
        index.append(at)
    value = p.detach()[tuple(reversed(index))]
    towards = torch.full_like(value, math.inf if up else -math.inf)
    moved = torch.nextafter(value, towards)
    value.copy_(torch.where(torch.isfinite(value), moved, value))
