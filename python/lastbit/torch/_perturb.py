"""Perturbations of the size of rounding errors, applied to the steps of any PyTorch optimizer."""

import math
import sys
from collections.abc import MutableMapping
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer
from torch.utils.weak import WeakTensorKeyDictionary

from lastbit import _lastbit
from lastbit.torch import _ulps
from lastbit.torch._problem import unwrapped
from lastbit.torch._sgd_step import check_group, perturbed_step

#: Where an optimizer keeps its perturbation: an attribute, which copies and pickles of optimizers leave out.
ATTRIBUTE = "_lastbit_perturbation"

#: Of the streams of random numbers of a seed: seeds of the optimizers of a script that share parameters with earlier ones.
STREAM = 3

#: How many perturbed optimizers of a script have held a parameter so far. By identity, since tensors compare by entry.
_holders: MutableMapping[Tensor, int] = WeakTensorKeyDictionary()


def perturbation_of(optimizer: Optimizer) -> "Perturbation | None":
    """The perturbation of an optimizer, if it has one."""
    # Not getattr: a wrapper may ask the optimizer within for what it lacks.
    perturbation: Perturbation | None = vars(optimizer).get(ATTRIBUTE)
    return perturbation


class Perturbation:
    """A perturbation that is at work until :meth:`remove`; also a context manager.

    Attributes
    ----------
    steps
        Steps that were perturbed so far. Save it with a checkpoint and set it after a resume, so that the random
        numbers continue. (Load the parameters after the call of :func:`perturb`: ``"ulps"`` moves those it finds.)
    """

    def __init__(self, optimizer: Optimizer) -> None:
        if perturbation_of(optimizer) is not None:
            raise ValueError("optimizer: found one that is perturbed already, expected one that is not; see remove()")
        self.steps = 0
        self._optimizer = optimizer
        self._hooks = [
            optimizer.register_step_pre_hook(self._before),
            optimizer.register_step_post_hook(self._after),
        ]
        setattr(optimizer, ATTRIBUTE, self)

    def remove(self) -> None:
        """End the perturbation; the optimizer is as it was before."""
        if self._hooks:
            delattr(self._optimizer, ATTRIBUTE)
        for hook in self._hooks:
            hook.remove()
        self._hooks = []

    def __enter__(self) -> "Perturbation":
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()

    # Hooks of the step. Bound methods, which copies and pickles bind to the copy.

    def _before(self, *_: object) -> None:
        raise NotImplementedError

    def _after(self, *_: object) -> None:
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
        ``"ulps"``, for any optimizer: at once, and after each step, every entry of every trainable parameter moves by the
        difference of two whole numbers drawn from 0 to 15, in ulps; zeros stay zero. So does another library or another
        number of threads: it rounds everything in another way, from the first forward pass on, and its sums are several
        ulps off. Parameters in 16 and 8 bits move by one ulp at most. (Without a master copy in float32 that is up to
        0.8 % in bfloat16, and steps smaller than half of it are lost in rounding: there the moves are larger than what
        another library does.)
        Default: ``"k"`` for SGD, ``"ulp"`` otherwise.
    k
        The factor, for ``"k"``: 1, 3, 5, ... give runs that differ in rounding.
    seed
        Of the draws, for ``"ulp"`` and ``"ulps"``. Draws are a function of the seed and the number of the step alone
        (for ``"ulps"`` also of the parameter's place in the optimizer), so that all ranks of a data-parallel job make the
        same ones, and the program's own generators stay as they are.

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
    return _of_kind(unwrapped(optimizer), kind, k, seed, at_rest=frozenset())


def perturb_created(optimizer: Optimizer, kind: str, *, k: float = 3, seed: int = 0, is_copy: bool = False) -> bool:
    """Perturb an optimizer that a script has just made, unless it is perturbed or the wrapper of one that is.

    Its parameters may be those of optimizers made before. These parameters are not moved again at once; neither are those of a
    copy, whose values are what others moved. At each step such optimizers draw differently: each has a number, one above the
    largest of those with which it shares parameters, which is the same on all ranks and after a resume.

    Returns
    -------
    bool
        Whether it was perturbed now.
    """
    if perturbation_of(optimizer) is not None or _is_around_a_perturbed_one(optimizer):
        return False
    params = _trainable(optimizer)
    number = max((_holders.get(p, 0) for p in params), default=0)
    at_rest = frozenset(id(p) for p in params if is_copy or p in _holders)
    own_seed = seed if number == 0 else _lastbit.below(seed, STREAM, number, 2**63)
    _of_kind(optimizer, kind, k, own_seed, at_rest)
    for p in params:
        _holders[p] = number + 1
    return True


def _is_around_a_perturbed_one(optimizer: Optimizer) -> bool:
    # Not getattr: a wrapper that is not whole yet may have a __getattr__ that needs what is missing.
    inner = vars(optimizer).get("optimizer")
    return isinstance(inner, Optimizer) and (perturbation_of(inner) is not None or _is_around_a_perturbed_one(inner))


def _of_kind(optimizer: Optimizer, kind: str | None, k: float, seed: int, at_rest: frozenset[int]) -> Perturbation:
    """``at_rest``: the ``id`` of parameters that do not move at once."""
    is_sgd = type(optimizer) is torch.optim.SGD
    chosen = kind or ("k" if is_sgd else "ulp")
    if chosen == "ulp":
        return _Ulp(optimizer, seed)
    if chosen == "ulps":
        return _Ulps(optimizer, seed, at_rest)
    if chosen != "k":
        raise ValueError(f'kind: found {chosen!r}, expected "k", "ulp" or "ulps"')
    if not isinstance(optimizer, torch.optim.SGD) or not is_sgd:
        raise ValueError(f'optimizer: found {type(optimizer).__name__}, expected torch.optim.SGD for "k"; "ulp" takes any')
    if not (math.isfinite(k) and k > 0):
        raise ValueError(f"k: found {k}, expected a positive number such as 3")
    return _ScaledStep(optimizer, k)


class _ScaledStep(Perturbation):
    """``p - (lr/k) (k d)`` instead of ``p - lr d``, made at the moment at which PyTorch would make its own.

    For each group SGD asks its method ``_init_group`` for the parameters that have a gradient, after the closure if
    there is one. Here the method makes the perturbed step and names no parameter, so that PyTorch moves none.
    """

    def __init__(self, optimizer: torch.optim.SGD, k: float) -> None:
        for group in optimizer.param_groups:
            check_group(group)
        super().__init__(optimizer)
        self.k = k
        self._groups_made = 0
        optimizer._init_group = self._make_step  # type: ignore[method-assign]

    def remove(self) -> None:
        if self._hooks:
            del self._optimizer._init_group  # type: ignore[attr-defined]
        super().remove()

    def _before(self, *_: object) -> None:
        self._groups_made = 0

    def _make_step(self, group: dict[str, Any], *_: object) -> bool:
        perturbed_step(group, self._optimizer.state, self.k)
        self._groups_made += 1
        # "Has a sparse gradient."
        return False

    def _after(self, *_: object) -> None:
        if self._groups_made != len(self._optimizer.param_groups):
            raise RuntimeError(
                f"optimizer: found a step of PyTorch {torch.__version__} that was not perturbed, expected one that calls "
                'SGD._init_group; call it without torch.compile, or take perturb(optimizer, "ulp")'
            )
        self.steps += 1


class _Drawn(Perturbation):
    """A perturbation that draws random numbers at each step."""

    def _before(self, *_: object) -> None:
        # CUDA that is not at work yet stays so: processes that have begun it cannot fork.
        if torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing():  # type: ignore[no-untyped-call]
            raise RuntimeError(
                "optimizer: found a step that is captured in a CUDA graph, expected one outside of it, since replays would repeat "
                "the random numbers of the perturbation; run the step without CUDA graphs"
            )


class _Ulp(_Drawn):
    """One entry of one parameter moves by one ulp after each step."""

    def __init__(self, optimizer: Optimizer, seed: int) -> None:
        super().__init__(optimizer)
        self.seed = seed

    @torch.no_grad()
    def _after(self, *_: object) -> None:
        moved = [p for group in self._optimizer.param_groups for p in group["params"] if p.requires_grad and p.numel() > 0]
        # Of a complex entry, the real or the imaginary part.
        params = [torch.view_as_real(p) if p.is_complex() else p for p in moved]
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


class _Ulps(_Drawn):
    """Every entry of every trainable parameter moves by a few ulps or stays: at once, and after each step."""

    def __init__(self, optimizer: Optimizer, seed: int, at_rest: frozenset[int]) -> None:
        self.seed = seed
        for p in _trainable(optimizer):
            _ulps.check(p)
        super().__init__(optimizer)
        self._move(at_rest)

    def _after(self, *_: object) -> None:
        # Else the step of a subclass or wrapper calls this one, and moves the same parameters.
        if not _is_part_of_a_perturbed_step(self._optimizer):
            self.steps += 1
            self._move()

    def _move(self, at_rest: frozenset[int] = frozenset()) -> None:
        for index, p in enumerate(_trainable(self._optimizer)):
            if id(p) not in at_rest and _ulps.exists(p):
                _ulps.move_entries(p, self.seed, self.steps, index)


def _trainable(optimizer: Optimizer) -> list[Tensor]:
    """Each once, also where a group names one twice."""
    named = (p for group in optimizer.param_groups for p in group["params"] if p.requires_grad)
    return list({id(p): p for p in named}.values())


def _held(optimizer: Optimizer) -> set[int]:
    return {id(p) for p in _trainable(optimizer)}


def _is_part_of_a_perturbed_step(optimizer: Optimizer) -> bool:
    """Whether another step, which has yet to end, called this one, and perturbs the parameters of this optimizer.

    Read from the stack, since an exception ends a step without its hook, so that one could not count them.
    """
    # This function, _after; then PyTorch's wrapper of step, whose code all optimizers share.
    wrapper = sys._getframe(2)
    frame = wrapper.f_back
    while frame is not None:
        if frame.f_code is wrapper.f_code:
            outer = frame.f_locals["self"]
            if perturbation_of(outer) is not None and _held(optimizer) <= _held(outer):
                return True
        frame = frame.f_back
    return False
