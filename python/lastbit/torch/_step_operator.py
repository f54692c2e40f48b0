"""How near a step of a PyTorch optimizer is to its stability limit.

On a quadratic of Hessian ``H`` a step is a linear map. For SGD, momentum and Adam with a held denominator the first of
its eigenvalues to leave the unit circle, as the curvature grows, does so at -1: an oscillation from step to step. With
``x = -1`` in the characteristic polynomial, per parameter ``i``::

    (H + A) z = diag(1/E) z,     E_i = lr_i / (P_i c_i)

    SGD        c = 2                         P = 1,  A = weight decay
    momentum   c = 2 (1 + mu)/(1 - tau)      P = 1,  A = weight decay, tau = dampening
    Nesterov   c = 2 (1 + mu)/(1 + 2 mu)     P = 1,  A = weight decay
    Adam       c = 2 (1 + b1)/(1 - b1)       P = (sqrt(v / (1 - b2^t)) + eps) (1 - b1^t),  A = weight decay
    AdamW      c = (2 - lr wd)(1 + b1)/(1 - b1)   P as for Adam,  A = 0

So the *edge ratio* is the largest eigenvalue of ``sqrt(E) (H + A) sqrt(E)``: 1 at the edge, whatever learning rates the
parameter groups have. ``c`` at learning rate 1 comes from ``lastbit::optim``, which derives it.
"""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from lastbit import _lastbit
from lastbit.torch._problem import check_optimizer

#: Entries of E and of A for one parameter; a number stands for all entries.
Scale = tuple[Tensor | float, float]


class StepOperator:
    """``sqrt(E) (H + A) sqrt(E)`` for an optimizer, on the flat vector of some parameters."""

    def __init__(self, optimizer: Optimizer, params: Iterable[Tensor], dtype: torch.dtype) -> None:
        params = list(params)
        optimizer = check_optimizer(optimizer, params)
        groups = {p: group for group in optimizer.param_groups for p in group["params"]}
        scale_of = _scale_function(optimizer)
        self.notes: list[str] = []
        scales = [scale_of(p, groups[p]) if p in groups else (0.0, 0.0) for p in params]
        missing = sum(p not in groups for p in params)
        if missing:
            self.notes.append(f"{missing} parameters are not in the optimizer: a step does not move them")
        self.uniform: tuple[float, float] | None = None
        if all(isinstance(e, float) for e, _ in scales) and len(set(scales)) == 1:
            # The same for all parameters: no search of its own is needed.
            self.uniform = scales[0]  # type: ignore[assignment]
        else:
            full = [torch.as_tensor(e, dtype=dtype, device=p.device).expand(p.shape).reshape(-1) for p, (e, _) in zip(params, scales, strict=True)]
            self.root = torch.cat(full).sqrt_()
            decay = [torch.full((p.numel(),), a, dtype=dtype, device=p.device) for p, (_, a) in zip(params, scales, strict=True)]
            self.decay = torch.cat(decay) if any(a for _, a in scales) else None

    def multiply(self, hvp: Callable[[Tensor], Tensor], v: Tensor) -> Tensor:
        """The operator times a flat vector."""
        scaled = self.root * v
        image = hvp(scaled).to(v.dtype)
        if self.decay is not None:
            image.addcmul_(self.decay, scaled)
        return image.mul_(self.root)


def why_no_limit(optimizer: Optimizer) -> str | None:
    """Why no stability limit is known of an optimizer as it is now; None if one is."""
    try:
        scale_of = _scale_function(optimizer)
        for group in optimizer.param_groups:
            for p in group["params"]:
                if p.requires_grad:
                    scale_of(p, group)
    except ValueError as error:
        return str(error)
    return None


def _scale_function(optimizer: Optimizer) -> Callable[[Tensor, dict], Scale]:  # type: ignore[type-arg]
    # Subclasses with another step must not pass for their parents.
    known = {
        torch.optim.SGD: _sgd,
        torch.optim.Adam: _adam,
        torch.optim.AdamW: _adam,
    }
    function = known.get(type(optimizer))
    if function is None:
        names = ", ".join(kind.__name__ for kind in known)
        raise ValueError(
            f"optimizer: found {type(optimizer).__name__}, expected one of {names}, whose stability limit is known; "
            "critical_lr() takes any optimizer"
        )
    if any(group.get("maximize") for group in optimizer.param_groups):
        raise ValueError("optimizer: found maximize=True, expected one that minimizes the loss")
    return lambda p, group: function(optimizer, p, group)


def _sgd(_: Optimizer, p: Tensor, group: dict) -> Scale:  # type: ignore[type-arg]
    mu, lr = float(group["momentum"]), float(group["lr"])
    name = "sgd" if mu == 0 else "nesterov" if group["nesterov"] else "heavy-ball"
    limit = _lastbit.stability_threshold(name, mu)
    if name == "heavy-ball":
        # With a dampening of 1 the gradient has no part in the step.
        lr *= 1 - float(group["dampening"])
    return lr / limit, float(group["weight_decay"])


def _adam(optimizer: Optimizer, p: Tensor, group: dict) -> Scale:  # type: ignore[type-arg]
    state = optimizer.state.get(p)
    if not state or "exp_avg_sq" not in state:
        raise ValueError(
            f"optimizer: found {type(optimizer).__name__} before its first step, expected one that has made a step: its "
            "stability limit depends on the mean square of the gradients"
        )
    lr, decay = float(group["lr"]), float(group["weight_decay"])
    limit = _lastbit.stability_threshold("adam", float(group["betas"][0]))
    if is_decoupled(optimizer, group):
        if lr * decay >= 2:
            raise ValueError(
                f"optimizer: found a learning rate of {lr} with a weight decay of {decay}, expected a product below 2: "
                "the decay alone is unstable"
            )
        limit *= (2 - lr * decay) / 2
        decay = 0.0
    return lr / (limit * adam_denominator(state, group)), decay


def is_decoupled(optimizer: Optimizer, group: dict[str, Any]) -> bool:
    """Whether weight decay is AdamW's: outside of the gradient."""
    return type(optimizer) is torch.optim.AdamW or bool(group.get("decoupled_weight_decay"))


def adam_denominator(state: dict[str, Any], group: dict[str, Any]) -> Tensor:
    """``P`` after a step: what Adam divides its first moment by, bias corrections included."""
    beta1, beta2 = (float(beta) for beta in group["betas"])
    step = float(state["step"])
    square: Tensor = state["max_exp_avg_sq"] if group.get("amsgrad") else state["exp_avg_sq"]
    denominator: Tensor = (square.double() / (1 - beta2**step)).sqrt_()
    return denominator.add_(float(group["eps"])).mul_(1 - beta1**step)
