"""A model, a loss and batches as a function of the flat vector of parameters: loss, gradient, Hessian-vector product.

Derivatives are exact, by double backward. Where a kernel has none, Hessian-vector products fall back to central
differences of gradients, and a note says so.
"""

import contextlib
import copy
import fnmatch
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from lastbit.torch._random import random_states, set_random_states
from lastbit.torch._second_derivative import is_compiled, misses_a_derivative, without_compiled_code

Batch = Any
LossFn = Callable[..., Any]


class NotDeterministicError(RuntimeError):
    """Two gradients of the same loss at the same parameters differ by more than rounding."""


class _NoSecondDerivative(Exception):
    """A kernel of the model cannot be differentiated twice."""


class Problem:
    """The mean loss over batches as a function of some parameters of a model."""

    def __init__(
        self,
        model: nn.Module,
        loss_fn: LossFn,
        batches: Batch | Iterable[Batch],
        params: Sequence[str] | Callable[[str], bool] | None = None,
        as_trained: bool = False,
    ) -> None:
        """``as_trained``: dropout layers stay as they are."""
        self._as_trained = as_trained
        self.notes: list[str] = []
        self.gradients = 0
        self.hvps = 0
        module = self._without_compilation(model)
        self.names, self.originals = _selected(module, params)
        self.device = _device_of(module, self.names, self.originals)
        self.model = self._in_full_precision(module)
        by_name = dict(self.model.named_parameters())
        self.params = [by_name[name] for name in self.names]
        self.precision = self.params[0].dtype
        self.sizes = [p.numel() for p in self.params]
        self.dimension = sum(self.sizes)
        self._loss_fn = loss_fn
        self.batches, self.weights = weighted(batches, self.device, self._converted_from)
        self._graph: tuple[list[Tensor], Tensor] | None = None
        self._rng = random_states(self.device)
        self._by_differences = False
        self._searched_for_missing_derivatives = False

    def _without_compilation(self, model: nn.Module) -> nn.Module:
        module = uncompiled(model)
        if is_compiled(model):
            self.notes.append("measured without torch.compile, whose kernels have no second derivative")
        return module

    def _in_full_precision(self, module: nn.Module) -> nn.Module:
        low = {p.dtype for p in module.parameters() if p.dtype in (torch.bfloat16, torch.float16)}
        self._converted_from = low
        if not low:
            return module
        names = " and ".join(sorted(str(dtype).removeprefix("torch.") for dtype in low))
        self.notes.append(f"measured on a copy in float32, which holds the {names} parameters exactly")
        return copy.deepcopy(module).float()

    # Modes and state.

    @contextlib.contextmanager
    def measuring(self) -> Iterator[None]:
        """Derivatives may be taken inside; afterwards the model is as it was."""
        modes = {module: module.training for module in self.model.modules()}
        buffers = {name: buffer.clone() for name, buffer in self.model.named_buffers()}
        rng = random_states(self.device)
        try:
            if not self._as_trained:
                self._set_modes()
            if torch.is_autocast_enabled(self.device.type):
                self._note("measured without autocast, which was on outside of loss_fn")
            in_full = torch.autocast(self.device.type, enabled=False)
            with _twice_differentiable(self.device), without_compiled_code(), in_full:
                yield
        finally:
            self._graph = None
            for module, training in modes.items():
                module.training = training
            for name, buffer in self.model.named_buffers():
                buffer.copy_(buffers[name])
            set_random_states(rng)

    def _set_modes(self) -> None:
        dropout, batch_norm = 0, 0
        for module in self.model.modules():
            if isinstance(module, nn.modules.dropout._DropoutNd) and module.training and module.p > 0:
                module.training = False
                dropout += 1
            if isinstance(module, nn.modules.batchnorm._BatchNorm) and module.training:
                batch_norm += 1
        if dropout:
            self._note(f"{dropout} dropout layers were switched off")
        if batch_norm:
            self._note(
                f"{batch_norm} batch norm layers use the statistics of the batch (training mode); "
                "their running statistics were restored"
            )

    def _note(self, line: str) -> None:
        if line not in self.notes:
            self.notes.append(line)

    # Loss and gradient.

    def _loss_of(self, batch: Batch) -> Tensor:
        set_random_states(self._rng)
        return differentiable(evaluate(self._loss_fn, self.model, batch))

    def loss(self) -> float:
        """Mean loss."""
        with torch.no_grad():
            losses = [self._forward(batch) for batch in self.batches]
        return sum(weight * loss for weight, loss in zip(self.weights, losses, strict=True))

    def _forward(self, batch: Batch) -> float:
        set_random_states(self._rng)
        return evaluate(self._loss_fn, self.model, batch).item()

    def gradient(self) -> tuple[float, Tensor]:
        """Mean loss and its flat gradient."""
        total, flat = 0.0, torch.zeros(self.dimension, dtype=self.precision, device=self.device)
        for weight, batch in zip(self.weights, self.batches, strict=True):
            loss = self._loss_of(batch)
            flat.add_(self.flatten(_grad(loss, self.params)), alpha=weight)
            total += weight * loss.item()
        self.gradients += 1
        return total, flat

    def check(self) -> tuple[float, float]:
        """Mean loss and norm of its gradient, after a test that both are finite and reproducible."""
        loss, gradient = self.gradient()
        check_finite(loss, torch.linalg.vector_norm(gradient).item())
        now = random_states(self.device)
        if any(not torch.equal(a, b) for (_, a), (_, b) in zip(self._rng, now, strict=True)):
            self._note("the model draws random numbers (dropout, say); every evaluation used the same ones")
        _, again = self.gradient()
        norm = torch.linalg.vector_norm(gradient).item()
        if not torch.equal(gradient, again):
            difference = torch.linalg.vector_norm(gradient - again).item() / max(norm, 1e-300)
            if difference > 1e-3:
                raise NotDeterministicError(
                    f"model or loss_fn: two gradients of the same batch at the same parameters differ by {difference:.2g} "
                    "of their norm, expected equal ones; look for random numbers from outside PyTorch (numpy, random), "
                    "data augmentation inside loss_fn, or state that a forward pass changes"
                )
            self._note(
                f"gradients are not bit-reproducible: two of the same batch differ by {difference:.2g} of their norm; "
                "torch.use_deterministic_algorithms(True) may help"
            )
        return loss, norm

    # Hessian-vector products.

    def hvp(self, v: Tensor) -> Tensor:
        """Hessian of the mean loss times a flat vector."""
        self.hvps += 1
        direction = v.to(self.precision)
        if not self._by_differences:
            try:
                return self._exact_hvp(direction)
            except _NoSecondDerivative:
                self._by_differences = True
                self._note("Hessian-vector products by central differences of gradients: a kernel has no second derivative")
        return self._difference_hvp(direction)

    def _exact_hvp(self, v: Tensor) -> Tensor:
        pieces = self.unflatten(v)
        if len(self.batches) == 1:
            # One batch: its graph is kept for all products.
            if self._graph is None:
                self._graph = self._linearized(self.batches[0])
            return self._through(self._graph[0], pieces, keep=True)
        total = torch.zeros_like(v)
        for weight, batch in zip(self.weights, self.batches, strict=True):
            gradients, _ = self._linearized(batch)
            total.add_(self._through(gradients, pieces, keep=False), alpha=weight)
        return total

    def _linearized(self, batch: Batch) -> tuple[list[Tensor], Tensor]:
        loss = self._loss_of(batch)
        self.gradients += 1
        gradients = _grad_twice(loss, self.params, create_graph=True)
        if not self._searched_for_missing_derivatives and misses_a_derivative(gradients):
            raise _NoSecondDerivative
        self._searched_for_missing_derivatives = True
        return gradients, loss

    def _through(self, gradients: list[Tensor], pieces: list[Tensor], keep: bool) -> Tensor:
        pairs = [(g, piece) for g, piece in zip(gradients, pieces, strict=True) if g.requires_grad]
        if not pairs:
            # The loss is piecewise linear in these parameters.
            return torch.zeros(self.dimension, dtype=self.precision, device=self.device)
        outputs, vectors = zip(*pairs, strict=True)
        return self.flatten(_grad_twice(outputs, self.params, grad_outputs=vectors, retain_graph=keep))

    def _difference_hvp(self, v: Tensor) -> Tensor:
        """``(∇L(θ + h v) − ∇L(θ − h v)) / 2h`` with ``h|v| = u^(1/3) |θ|``.

        That balances rounding, ``u |∇L| / h``, and truncation, ``h² |∇³L| / 6``, where the curvature changes over a
        distance of the order of ``|θ|``.
        """
        theta = self.flatten([p.detach() for p in self.params])
        roundoff = torch.finfo(self.precision).eps / 2
        size = torch.linalg.vector_norm(theta).item()
        h: float = roundoff ** (1 / 3) * max(size, roundoff) / torch.linalg.vector_norm(v).item()
        try:
            self.load(theta + h * v)
            _, ahead = self.gradient()
            self.load(theta - h * v)
            _, behind = self.gradient()
        finally:
            self.load(theta)
        return (ahead - behind).div_(2 * h)

    # Flat vectors.

    def flatten(self, tensors: Iterable[Tensor]) -> Tensor:
        return torch.cat([tensor.reshape(-1) for tensor in tensors])

    def unflatten(self, v: Tensor) -> list[Tensor]:
        return [piece.view(p.shape) for piece, p in zip(torch.split(v, self.sizes), self.params, strict=True)]

    @torch.no_grad()
    def load(self, theta: Tensor) -> None:
        """Put parameters in place."""
        for p, piece in zip(self.params, self.unflatten(theta), strict=True):
            p.copy_(piece)


def evaluate(loss_fn: LossFn, model: nn.Module, batch: Batch) -> Tensor:
    """The loss of a batch, a scalar tensor."""
    if isinstance(loss_fn, nn.modules.loss._Loss):
        if not (isinstance(batch, (tuple, list)) and len(batch) == 2):
            raise TypeError(
                f"batches: found a batch of type {type(batch).__name__}, expected pairs (input, target) for the criterion "
                f"{type(loss_fn).__name__}; for other batches pass a function loss_fn(model, batch)"
            )
        loss = loss_fn(model(batch[0]), batch[1])
    elif callable(loss_fn):
        loss = loss_fn(model, batch)
    else:
        raise TypeError(
            f"loss_fn: found {type(loss_fn).__name__}, expected a criterion such as torch.nn.CrossEntropyLoss() or a "
            "function loss_fn(model, batch)"
        )
    if not isinstance(loss, Tensor) or loss.numel() != 1:
        found = f"a tensor of shape {tuple(loss.shape)}" if isinstance(loss, Tensor) else type(loss).__name__
        raise TypeError(f"loss_fn: found {found} as its result, expected a scalar tensor such as the mean loss of the batch")
    return loss.reshape(())


def differentiable(loss: Tensor) -> Tensor:
    """The loss, which must have a gradient."""
    if not loss.requires_grad:
        raise ValueError(
            "loss_fn: found a loss that does not depend on the parameters, expected one computed by the model "
            "(without torch.no_grad() or .item())"
        )
    return loss


def check_shapes(named: Iterable[tuple[str, Tensor]]) -> None:
    """Every tensor must have a shape; those of lazy modules have none before their first call."""
    for name, tensor in named:
        if torch.nn.parameter.is_lazy(tensor):
            raise ValueError(
                f"model: found the uninitialized parameter {name} of a lazy module, expected one with a shape; "
                "call the model once, model(input)"
            )


def check_finite(loss: float, gradient_norm: float | None = None) -> None:
    """Loss and norm of the gradient must be finite."""
    if not (math.isfinite(loss) and (gradient_norm is None or math.isfinite(gradient_norm))):
        gradient = "" if gradient_norm is None else f" with a gradient of norm {gradient_norm}"
        raise ValueError(
            f"loss_fn: found a loss of {loss}{gradient}, expected finite numbers; "
            "look for NaN in parameters and data, or lower the learning rate"
        )


def uncompiled(model: nn.Module) -> nn.Module:
    """The module itself, or the original of one that torch.compile returned."""
    if not isinstance(model, nn.Module):
        raise TypeError(f"model: found {type(model).__name__}, expected a torch.nn.Module")
    module: nn.Module = getattr(model, "_orig_mod", model)
    return module


def unwrapped(optimizer: Optimizer) -> Optimizer:
    """The optimizer itself: Accelerate and Lightning wrap it in one with the attribute ``optimizer``."""
    if not isinstance(optimizer, Optimizer):
        raise TypeError(f"optimizer: found {type(optimizer).__name__}, expected a torch.optim.Optimizer")
    inner = getattr(optimizer, "optimizer", None)
    return unwrapped(inner) if isinstance(inner, Optimizer) else optimizer


def check_optimizer(optimizer: Optimizer, params: Iterable[Tensor]) -> Optimizer:
    """The optimizer without wrappers; it must be one, and of these parameters."""
    optimizer = unwrapped(optimizer)
    held = {p for group in optimizer.param_groups for p in group["params"]}
    if held.isdisjoint(params):
        raise ValueError("optimizer: found none of the model's parameters in it, expected the optimizer of this model")
    return optimizer


def _grad(outputs: Any, params: Sequence[Tensor], **options: Any) -> list[Tensor]:
    return list(torch.autograd.grad(outputs, params, allow_unused=True, materialize_grads=True, **options))


def _grad_twice(outputs: Any, params: Sequence[Tensor], **options: Any) -> list[Tensor]:
    # Around autograd alone: what the user's loss raises is the user's.
    try:
        return _grad(outputs, params, **options)
    except RuntimeError as error:
        if _lacks_second_derivative(error):
            raise _NoSecondDerivative from error
        raise


def _selected(
    module: nn.Module, params: Sequence[str] | Callable[[str], bool] | None
) -> tuple[list[str], list[nn.Parameter]]:
    check_shapes(module.named_parameters())
    named = [(name, p) for name, p in module.named_parameters() if p.requires_grad]
    if not named:
        raise ValueError("model: found no parameter that requires a gradient, expected at least one; see requires_grad_()")
    # A tied parameter has several names; each of them selects it.
    aliases: dict[Tensor, list[str]] = {}
    for name, p in module.named_parameters(remove_duplicate=False):
        aliases.setdefault(p, []).append(name)
    if params is None:
        chosen = named
    elif callable(params):
        chosen = [(name, p) for name, p in named if any(params(alias) for alias in aliases[p])]
    else:
        patterns = [params] if isinstance(params, str) else list(params)
        fits = {pattern: {p for _, p in named if fnmatch.filter(aliases[p], pattern)} for pattern in patterns}
        for pattern, fitting in fits.items():
            if not fitting:
                some = ", ".join(name for name, _ in named[:5])
                raise ValueError(f"params: found {pattern!r}, which fits no parameter; expected names or patterns of {some}, …")
        chosen = [(name, p) for name, p in named if any(p in fitting for fitting in fits.values())]
    if not chosen:
        raise ValueError("params: found no parameter that it selects, expected at least one")
    return [name for name, _ in chosen], [p for _, p in chosen]


def _device_of(module: nn.Module, names: list[str], params: Sequence[Tensor]) -> torch.device:
    devices = {p.device: name for name, p in module.named_parameters()}
    if len(devices) > 1:
        listed = " and ".join(f"{device} ({name})" for device, name in devices.items())
        raise ValueError(f"model: found parameters on {listed}, expected one device; move it with model.to(device)")
    dtypes = {p.dtype: name for name, p in zip(names, params, strict=True)}
    if any(dtype.is_complex for dtype in dtypes):
        raise ValueError("model: found complex parameters, expected real ones")
    if len(dtypes) > 1 and not dtypes.keys() <= {torch.bfloat16, torch.float16, torch.float32}:
        listed = " and ".join(f"{dtype} ({name})" for dtype, name in dtypes.items())
        raise ValueError(f"model: found parameters of {listed}, expected one dtype; params= selects some")
    return params[0].device


def weighted(
    batches: Batch | Iterable[Batch], device: torch.device, converted_from: set[torch.dtype]
) -> tuple[list[Batch], list[float]]:
    """All batches on the device, each weighted by its share of the examples."""
    single = isinstance(batches, (tuple, Mapping, Tensor)) or not isinstance(batches, Iterable)
    # A loader draws from PyTorch's generator when it begins.
    random = random_states(device)
    try:
        collected = [batches] if single else list(batches)
    finally:
        set_random_states(random)
    if not collected:
        raise ValueError("batches: found none, expected at least one batch; is the loader empty or used up?")
    moved = [_moved(batch, device, converted_from) for batch in collected]
    sizes = [examples(batch) for batch in moved]
    if sum(sizes) == 0:
        raise ValueError("batches: found no example in any batch, expected at least one")
    return moved, [size / sum(sizes) for size in sizes]


def _moved(batch: Batch, device: torch.device, converted_from: set[torch.dtype]) -> Batch:
    def moved(tensor: Tensor) -> Tensor:
        tensor = tensor.to(device=device, dtype=torch.float32 if tensor.dtype in converted_from else tensor.dtype)
        # Autograd refuses tensors that were made in inference mode.
        return tensor.clone() if tensor.is_inference() else tensor

    return mapped(batch, moved)


def mapped(batch: Batch, function: Callable[[Tensor], Tensor]) -> Batch:
    """The batch with another tensor in place of each of its own."""
    if isinstance(batch, Tensor):
        return function(batch)
    if isinstance(batch, Mapping):
        items = {key: mapped(value, function) for key, value in batch.items()}
        if not isinstance(batch, MutableMapping):
            return items
        # Of its own type, such as the BatchEncoding of a tokenizer.
        same = copy.copy(batch)
        same.update(items)
        return same
    if isinstance(batch, (tuple, list)):
        values = [mapped(value, function) for value in batch]
        return type(batch)(*values) if hasattr(batch, "_fields") else type(batch)(values)
    return batch


def examples(batch: Batch) -> int:
    """Examples of a batch: the first dimension of its first tensor."""
    if isinstance(batch, Tensor):
        return int(batch.shape[0]) if batch.ndim > 0 else 1
    values = batch.values() if isinstance(batch, Mapping) else batch if isinstance(batch, (tuple, list)) else []
    return next((examples(value) for value in values if isinstance(value, Tensor)), 1)


@contextlib.contextmanager
def _twice_differentiable(device: torch.device) -> Iterator[None]:
    """Kernels that have a second derivative: attention without fusion, recurrent layers without cuDNN."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH))
        if device.type == "cuda":
            stack.enter_context(_recurrent_without_cudnn())
        yield


@contextlib.contextmanager
def _recurrent_without_cudnn() -> Iterator[None]:
    """Recurrent layers run without cuDNN, whose kernels have no second derivative; convolutions keep it."""

    def called(self: nn.RNNBase, *args: Any, **kwargs: Any) -> Any:
        with torch.backends.cudnn.flags(enabled=False):
            return nn.Module.__call__(self, *args, **kwargs)

    nn.RNNBase.__call__ = called  # type: ignore[method-assign]
    try:
        yield
    finally:
        del nn.RNNBase.__call__


def _lacks_second_derivative(error: RuntimeError) -> bool:
    said = ("double backward", "donated buffers", "is not implemented", "not currently supported", "not differentiable twice")
    return isinstance(error, NotImplementedError) or any(words in str(error) for words in said)
