"""Largest eigenvalues of the Hessian, and how near they are to the stability limit of the optimizer."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from lastbit import _lastbit
from lastbit._result import Result
from lastbit.torch._modes import with_gradients
from lastbit.torch._problem import Batch, LossFn, Problem, check_finite
from lastbit.torch._space import TensorSpace
from lastbit.torch._step_operator import StepOperator


@dataclass(frozen=True)
class LayerSharpness(Result):
    """Sharpness of one layer: of the block of the Hessian that belongs to its parameters.

    Attributes
    ----------
    name
        Name of the module that owns the parameters.
    parameters
        Number of its parameters.
    sharpness
        Largest eigenvalue of the block.
    residual
        ``|H v - lambda v|`` of it, with ``|v| = 1`` and ``H`` the block.
    edge_ratio
        The layer's sharpness over the optimizer's stability limit; None without an optimizer. It says whether the step would be
        stable if this layer alone were trained.
    converged
        Whether the residual is within the tolerance.
    """

    name: str
    parameters: int
    sharpness: float
    residual: float
    edge_ratio: float | None
    converged: bool


@dataclass(frozen=True)
class Sharpness(Result):
    """Result of :func:`sharpness`.

    Attributes
    ----------
    eigenvalues
        The largest eigenvalues of the Hessian of the mean loss (without weight decay), in descending order.
    residuals
        ``|H v - lambda v|`` for each, with ``|v| = 1``: some eigenvalue is at most this far away.
    edge_ratio
        Sharpness over the optimizer's stability limit, weight decay and preconditioner included: 1 at the edge of
        stability. None without an optimizer.
    edge_residual
        The same distance for ``edge_ratio``.
    threshold
        The sharpness at which the edge ratio is 1, where that is one number for all parameters (SGD with one parameter
        group); None otherwise.
    converged
        Whether all residuals are within the tolerance.
    loss, gradient_norm
        Mean loss of the batches, and the norm of its gradient.
    hvps
        Hessian-vector products made, those of layers included.
    parameters
        Number of parameters.
    layers
        Sharpness of each layer, if asked for.
    notes
        What was switched off, converted or found to be not reproducible.
    """

    eigenvalues: list[float]
    residuals: list[float]
    edge_ratio: float | None
    edge_residual: float | None
    threshold: float | None
    converged: bool
    loss: float
    gradient_norm: float
    hvps: int
    parameters: int
    layers: list[LayerSharpness]
    notes: list[str]
    #: Vectors from which the next search starts.
    vectors: list[Tensor] = field(repr=False)
    edge_vectors: list[Tensor] = field(repr=False)

    @property
    def sharpness(self) -> float:
        """The largest eigenvalue."""
        return self.eigenvalues[0]

    def to_dict(self) -> dict[str, Any]:
        """All numbers by name, without the vectors."""
        numbers = super().to_dict()
        del numbers["vectors"], numbers["edge_vectors"]
        return {"sharpness": self.sharpness, **numbers}

    def __str__(self) -> str:
        text = f"sharpness {self.sharpness:.6g} (residual {self.residuals[0]:.2g}, {self.hvps} HVPs)"
        if self.edge_ratio is not None:
            text += f", {self.edge_ratio:.4g} times the stability limit"
        if not self.converged:
            text += "; not converged"
        return "\n  ".join([text, *self.notes])


@with_gradients()
def sharpness(
    model: nn.Module,
    loss_fn: LossFn,
    batches: Batch | Iterable[Batch],
    *,
    k: int = 1,
    params: Sequence[str] | Callable[[str], bool] | None = None,
    optimizer: Optimizer | None = None,
    layers: bool = False,
    start: Sharpness | None = None,
    tolerance: float = 1e-3,
    max_hvps: int = 200,
    seed: int = 0,
    check: bool = True,
) -> Sharpness:
    """Sharpness of a model: the largest eigenvalues of the Hessian of its mean loss.

    Hessian-vector products are exact (double backward). The eigenvectors are searched by a Krylov method with
    restarts, whose vectors stay on the model's device.

    Parameters
    ----------
    model
        Any module, on one device. Dropout layers are switched off for the measurement; batch norm keeps its mode.
    loss_fn
        A criterion of ``torch.nn`` for batches ``(input, target)``, or a function ``loss_fn(model, batch)``.
    batches
        One batch (a tuple, dictionary or tensor) or many (a list or loader), all kept in memory. The mean weights each
        batch by its number of examples.
    k
        How many of the largest eigenvalues.
    params
        Names of parameters (patterns with ``*``), or a function of the name. Default: all that require a gradient.
    optimizer
        SGD, Adam or AdamW of ``torch.optim``: adds the edge ratio.
    layers
        Whether to add the sharpness of each layer (module that owns parameters).
    start
        The result of an earlier measurement, from whose eigenvectors the search starts; typically it needs fewer than ten
        products then.
    tolerance
        Largest residual, relative to the largest modulus in the spectrum. The error of an eigenvalue is of the order of the
        square of this.
    max_hvps
        Most products for a search; ``converged`` says whether they sufficed.
    seed
        Of the random start vectors.
    check
        Whether to compute the gradient twice to find out if model and data are deterministic.

    Returns
    -------
    Sharpness
        The eigenvalues with their residuals, the edge ratio and the layers, as far as asked for.

    Examples
    --------
    A quadratic loss ``3 x² + y²/2``:

    >>> import torch, lastbit.torch
    >>> model = torch.nn.Linear(2, 1, bias=False)
    >>> loss = lambda model, scale: (scale * model.weight.square()).sum()
    >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    >>> found = lastbit.torch.sharpness(model, loss, torch.tensor([[3.0, 0.5]]), optimizer=optimizer)
    >>> round(found.sharpness, 6), round(found.edge_ratio, 6)
    (6.0, 0.3)
    """
    problem = Problem(model, loss_fn, batches, params)
    if start is not None and not isinstance(start, Sharpness):
        raise TypeError(f"start: found {type(start).__name__}, expected an earlier result of sharpness()")
    _check_numbers(k, tolerance, max_hvps, problem)
    options = _Options(k, tolerance, max_hvps, seed)
    with problem.measuring():
        if check:
            loss, gradient_norm = problem.check()
        else:
            loss, gradient_norm = problem.loss(), float("nan")
            check_finite(loss)
        whole = _search(problem, optimizer, options, start)
        parts = []
        if layers:
            for name, members in _layers(problem.names).items():
                part = Problem(problem.model, loss_fn, problem.batches, members)
                part.originals = [p for n, p in zip(problem.names, problem.originals, strict=True) if n in members]
                with part.measuring():
                    found = _search(part, optimizer, _Options(1, tolerance, max_hvps, seed), None)
                problem.hvps += part.hvps
                parts.append(
                    LayerSharpness(name, part.dimension, found.values[0], found.residuals[0], found.edge, found.converged)
                )
    return Sharpness(
        eigenvalues=whole.values,
        residuals=whole.residuals,
        edge_ratio=whole.edge,
        edge_residual=whole.edge_residual,
        threshold=whole.threshold,
        converged=whole.converged and all(part.converged for part in parts),
        loss=loss,
        gradient_norm=gradient_norm,
        hvps=problem.hvps,
        parameters=problem.dimension,
        layers=parts,
        notes=problem.notes + whole.notes,
        vectors=whole.vectors,
        edge_vectors=whole.edge_vectors,
    )


@dataclass(frozen=True)
class _Options:
    k: int
    tolerance: float
    max_hvps: int
    seed: int


@dataclass
class _Found:
    values: list[float]
    residuals: list[float]
    vectors: list[Tensor]
    converged: bool
    edge: float | None = None
    edge_residual: float | None = None
    threshold: float | None = None
    edge_vectors: list[Tensor] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def _search(problem: Problem, optimizer: Optimizer | None, options: _Options, start: Sharpness | None) -> _Found:
    space = TensorSpace(problem.dimension, problem.device, problem.precision)
    known = _usable(start.vectors if start else [], space)
    found = _eigenpairs(space, lambda v: problem.hvp(v).to(space.dtype), known, options)
    if optimizer is None:
        return found
    operator = StepOperator(optimizer, problem.originals, space.dtype)
    found.notes = operator.notes
    if operator.uniform is not None:
        scale, decay = operator.uniform
        found.edge, found.edge_residual = scale * (found.values[0] + decay), scale * found.residuals[0]
        found.threshold = (math.inf if scale == 0 else 1 / scale) - decay
        return found
    known = _usable(start.edge_vectors if start else [], space)
    edge = _eigenpairs(space, lambda v: operator.multiply(problem.hvp, v), known, _Options(1, options.tolerance, options.max_hvps, options.seed))
    found.edge, found.edge_residual, found.edge_vectors = edge.values[0], edge.residuals[0], edge.vectors
    found.converged &= edge.converged
    return found


def _eigenpairs(space: TensorSpace, multiply: Callable[[Tensor], Tensor], known: list[Tensor], options: _Options) -> _Found:
    largest, _, guard, matvecs = _lastbit.eigenpairs(
        space,
        multiply,
        known,
        top=min(options.k, space.dimension),
        smallest=False,
        tolerance=options.tolerance,
        max_matvecs=options.max_hvps,
        probe=options.seed,
    )
    values, residuals, vectors = (list(column) for column in zip(*largest, strict=True))
    # The search ends before its most products only where all residuals are within the tolerance of the largest modulus in
    # the spectrum, which may be that of a negative eigenvalue.
    scale = max(abs(value) for value in values)
    within = all(residual <= options.tolerance * scale for residual in residuals)
    converged = within or (matvecs < options.max_hvps and all(math.isfinite(residual) for residual in residuals))
    return _Found(values, residuals, vectors + ([guard] if guard is not None else []), converged)


def _usable(vectors: list[Tensor], space: TensorSpace) -> list[Tensor]:
    for vector in vectors:
        if vector.numel() != space.dimension:
            raise ValueError(
                f"start: found a measurement of {vector.numel()} parameters, expected one of {space.dimension}: the same model and params"
            )
    return [vector.to(device=space.device, dtype=space.dtype, copy=True) for vector in vectors]


def _layers(names: list[str]) -> dict[str, list[str]]:
    """Parameters by the module that owns them."""
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault(name.rpartition(".")[0] or name, []).append(name)
    return groups


def _check_numbers(k: int, tolerance: float, max_hvps: int, problem: Problem) -> None:
    if k < 1:
        raise ValueError(f"k: found {k}, expected at least 1")
    least = 1e-5 if torch.finfo(problem.precision).bits < 64 else 1e-12
    if not least <= tolerance < 1:
        raise ValueError(
            f"tolerance: found {tolerance}, expected a number from {least} (what {problem.precision} permits) to 1"
        )
    if max_hvps < 1:
        raise ValueError(f"max_hvps: found {max_hvps}, expected at least 1")
