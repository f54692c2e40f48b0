"""A step of ``torch.optim.SGD`` whose update is computed in another way, equal in exact arithmetic.

PyTorch's operations in PyTorch's order, so that each rounding is its own::

    g = ± gradient + weight decay · p
    b = momentum · b + (1 - dampening) · g          (the first time: b = g)
    d = g, b, or g + momentum · b (Nesterov)
    p = p + (-lr) · d                               PyTorch
    p = p + (-lr/k) · (k d)                         here

``k d`` is rounded once; ``-lr/k`` is divided in float64 and rounded to the precision of the operation. The last line is
what PyTorch's ``add`` with ``alpha`` computes: one fused multiply-add where the processor has one, else a product and a
sum that are each rounded. With ``k`` a power of two every rounding is that of PyTorch.

On a CPU the time of a step is that of reading and writing memory, and of getting new memory. So large tensors are cut, and
the whole formula is applied to one block of entries after the other: it stays in the cache, and so do its temporaries.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.optim.optimizer import _default_to_fused_or_foreach

#: Entries of a block: 2 MB in float32. Ten times smaller ones cost more by the number of calls, and keep fewer threads busy
#: (PyTorch gives each 2^15 entries at least); ten times larger ones are new memory from the system at each step.
ENTRIES = 2**19
#: Precisions whose operations round alike wherever a tensor is cut. In the others PyTorch's vector and remainder loops
#: round differently.
CUTTABLE = (torch.float32, torch.float64)
LAYOUTS = (torch.contiguous_format, torch.channels_last, torch.channels_last_3d)

#: Parameter, gradient and, where there is one, momentum buffer: whole or cut alike.
Row = tuple[Tensor, ...]


class _Operations(NamedTuple):
    """What PyTorch's two implementations of the step compute with, on lists of tensors."""

    add: Callable[..., list[Tensor]]
    add_: Callable[..., Any]
    mul: Callable[..., list[Tensor]]
    mul_: Callable[..., Any]


LOOP = _Operations(
    add=lambda xs, ys, alpha: [x.add(y, alpha=alpha) for x, y in zip(xs, ys, strict=True)],
    add_=lambda xs, ys, alpha: [x.add_(y, alpha=alpha) for x, y in zip(xs, ys, strict=True)],
    mul=lambda xs, factor: [x.mul(factor) for x in xs],
    mul_=lambda xs, factor: [x.mul_(factor) for x in xs],
)
FOREACH = _Operations(
    add=lambda xs, ys, alpha: list(torch._foreach_add(xs, ys, alpha=alpha)),
    add_=lambda xs, ys, alpha: torch._foreach_add_(xs, ys, alpha=alpha),
    mul=lambda xs, factor: list(torch._foreach_mul(xs, factor)),
    mul_=lambda xs, factor: torch._foreach_mul_(xs, factor),
)


@torch.no_grad()
def perturbed_step(group: dict[str, Any], state: dict[Tensor, Any], k: float) -> None:
    """Make the step of one parameter group, momentum buffers in the optimizer's state included."""
    check_group(group)
    params = [p for p in group["params"] if p.grad is not None]
    if any(p.grad.layout != torch.strided for p in params):
        raise ValueError(
            'optimizer: found a sparse gradient, expected dense ones for "k"; make the embedding with sparse=False, or '
            'take perturb(optimizer, "ulp")'
        )
    by_foreach = _by_foreach(group, params)
    if not group["momentum"]:
        for block in _blocks([(p, p.grad) for p in params]):
            _step(block, group, k, by_foreach)
        return
    first = [p for p in params if state[p].get("momentum_buffer") is None]
    later = [p for p in params if state[p].get("momentum_buffer") is not None]
    for p in first:
        # Not cut, since its buffer is made whole.
        (state[p]["momentum_buffer"],) = _step([(p, p.grad)], group, k, by_foreach)
    # Where some buffers are missing, PyTorch updates the others one by one.
    buffers_by = FOREACH if by_foreach and not first else LOOP
    for block in _blocks([(p, p.grad, state[p]["momentum_buffer"]) for p in later]):
        _step(block, group, k, by_foreach, buffers_by)


def check_group(group: dict[str, Any]) -> None:
    """The group must ask for a step whose order of roundings is known."""
    if group["fused"]:
        raise ValueError(
            'optimizer: found fused=True, expected fused=False for "k", since the fused kernel rounds in another order; '
            'make the optimizer without fused, or take perturb(optimizer, "ulp")'
        )
    if group["differentiable"]:
        raise ValueError(
            'optimizer: found differentiable=True, expected False for "k", whose step has no derivative; '
            'take perturb(optimizer, "ulp")'
        )


def _by_foreach(group: dict[str, Any], params: list[Tensor]) -> bool:
    """Whether PyTorch would make this step by operations on lists of tensors."""
    if group["foreach"] is None and group["fused"] is None:
        return bool(_default_to_fused_or_foreach(params, differentiable=False, use_fused=False)[1])
    return bool(group["foreach"])


def _step(
    rows: list[Row], group: dict[str, Any], k: float, by_foreach: bool, buffers_by: _Operations = LOOP
) -> list[Tensor]:
    """The formula above for a block; returns its momentum buffers."""
    params, grads, *known = (list(column) for column in zip(*rows, strict=True))
    by = FOREACH if by_foreach else LOOP
    directions, buffers = grads, known[0] if known else []
    if group["maximize"]:
        directions = [-g for g in directions]
    if group["weight_decay"]:
        directions = by.add(directions, params, alpha=float(group["weight_decay"]))
    momentum = group["momentum"]
    if momentum:
        if buffers:
            buffers_by.mul_(buffers, momentum)
            buffers_by.add_(buffers, directions, alpha=1 - group["dampening"])
        else:
            buffers = [d.clone() for d in directions]
        if not group["nesterov"]:
            directions = buffers
        elif by_foreach:
            # As PyTorch does: into the gradients themselves, if neither decay nor maximize made a copy.
            by.add_(directions, buffers, alpha=momentum)
        else:
            directions = by.add(directions, buffers, alpha=momentum)
    by.add_(params, by.mul(directions, k), alpha=-float(group["lr"]) / k)
    return buffers


def _blocks(rows: list[Row]) -> Iterator[list[Row]]:
    """The rows in blocks of the size of the cache; on a GPU, where launches cost more than memory, in one."""
    if not rows:
        return
    if rows[0][0].device.type != "cpu":
        yield rows
        return
    block: list[Row] = []
    entries = 0
    for row in rows:
        for part in _cut(row):
            if block and entries + part[0].numel() > ENTRIES:
                yield block
                block, entries = [], 0
            block.append(part)
            entries += part[0].numel()
    yield block


def _cut(row: Row) -> list[Row]:
    """Views of at most a block's entries, if the tensors of the row lie in memory without gaps and alike."""
    if row[0].numel() <= ENTRIES:
        return [row]
    plain = all(type(t) in (Tensor, nn.Parameter) and t.dtype in CUTTABLE for t in row)
    if not plain or not any(all(t.is_contiguous(memory_format=layout) for t in row) for layout in LAYOUTS):
        return [row]
    flat = [torch.split(t.as_strided((t.numel(),), (1,), t.storage_offset()), ENTRIES) for t in row]
    return list(zip(*flat, strict=True))
