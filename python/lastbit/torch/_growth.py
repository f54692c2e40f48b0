"""Growth of a perturbed copy along real training steps."""

import dataclasses
import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn
from torch.optim import Optimizer

from lastbit._judge import Array, Judgement, judge
from lastbit.torch._attribution import Attribution, attribute, check_attribution
from lastbit.torch._modes import with_gradients
from lastbit.torch._problem import Batch, LossFn, check_optimizer, check_shapes, uncompiled, weighted
from lastbit.torch._snapshot import restored
from lastbit.torch._training import Training

#: How far a value may be moved before a step that divides by roots (Adam) stops to be linear, over the largest parameter.
LINEAR_RANGE_OF_QUOTIENTS = 1e-4


@dataclass(frozen=True)
class Growth(Judgement):
    """Result of :func:`growth`: a verdict with its evidence, as :class:`lastbit.Judgement`, and what causes the growth.

    Attributes
    ----------
    attribution
        The growth by cause, if asked for.
    """

    attribution: Attribution | None = None

    def __str__(self) -> str:
        text = super().__str__()
        return text if self.attribution is None else f"{text}\n{self.attribution}"


@with_gradients()
def growth(
    model: nn.Module,
    loss_fn: LossFn,
    batches: Batch | Iterable[Batch],
    optimizer: Optimizer,
    *,
    steps: int = 200,
    at_most: int | None = None,
    attribute_every: int | None = None,
    nodes: int = 24,
) -> Growth:
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
    attribute_every
        Every how many steps to say why the copy drifts away: overshoot (the step is beyond the stability limit),
        negative curvature of the loss, kinks. That takes the steps once more, in float64, and ``nodes`` Hessian-vector
        products for each attributed step. For SGD, Adam and AdamW.
    nodes
        Hessian-vector products for each attributed step: more of them tell causes apart more sharply.

    Returns
    -------
    Growth
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

    With a learning rate of 0.5 each step overshoots: it multiplies the difference by ``1 - 0.5 · 6 = -2``.

    >>> optimizer = torch.optim.SGD(x.parameters(), lr=0.5)
    >>> found = lastbit.torch.growth(
    ...     x, lambda x, scale: scale * x.weight.square().sum(), torch.tensor(3.0), optimizer, attribute_every=10
    ... )
    >>> found.verdict, found.attribution.shares
    ('diverged', {'overshoot': 1.0})
    """
    module = uncompiled(model)
    check_shapes(module.named_parameters())
    optimizer = check_optimizer(optimizer, module.parameters())
    params = [p for group in optimizer.param_groups for p in group["params"] if p.requires_grad]
    if not params:
        raise ValueError("optimizer: found no parameter that requires a gradient, expected at least one")
    dtypes = {p.dtype for p in params}
    if dtypes not in ({torch.float32}, {torch.float64}):
        found = ", ".join(str(dtype) for dtype in dtypes)
        raise ValueError(f"model: found parameters of {found}, expected float32 or float64 for all")
    loaded, _ = weighted(batches, params[0].device, set())
    if attribute_every is not None:
        check_attribution(optimizer, steps, attribute_every, nodes)
    with restored(module, optimizer):
        run = Training(module, loss_fn, loaded, optimizer, params)
        start = run.begin()
        largest = max(float(p.detach().abs().max()) for p in params if p.numel() > 0)
        scale = max(largest, 1.0)
        linear_range = scale * (LINEAR_RANGE_OF_QUOTIENTS if run.divides_by_roots else 1.0)

        def step(state: Array, n: int) -> Array:
            values = torch.from_numpy(np.ascontiguousarray(state)).to(start.device)
            after: Array = run.after(values, n).cpu().numpy()
            return after

        judgement = judge(
            step,
            start.cpu().numpy(),
            steps=steps,
            at_most=steps if at_most is None else at_most,
            scale=scale,
            linear_range=linear_range,
        )
        causes = None
        if attribute_every is not None:
            run.load(start, 0)
            # As lastbit::verdict has it: the geometric mean of the rounding of the state and the linear range.
            root = math.sqrt(start.numel())
            size = max(torch.linalg.vector_norm(start.double()).item(), scale * root)
            distance = math.sqrt(torch.finfo(start.dtype).eps / 2 * size * linear_range * root)
            causes = attribute(module, loss_fn, loaded, optimizer, steps, attribute_every, nodes, distance)
    fields = {field.name: getattr(judgement, field.name) for field in dataclasses.fields(judgement)}
    return Growth(**fields, attribution=causes)
