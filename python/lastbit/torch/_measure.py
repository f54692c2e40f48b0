"""What a probe measures at a step."""

import contextlib
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer

from lastbit.torch._critical_lr import critical_lr
from lastbit.torch._fingerprint import Fingerprint, fingerprint
from lastbit.torch._growth import growth
from lastbit.torch._problem import Batch, LossFn
from lastbit.torch._random import untouched_generators
from lastbit.torch._sharpness import Sharpness, sharpness
from lastbit.torch._step_operator import why_no_limit

#: What can be measured, in the order in which it is.
MEASURES = ("fingerprint", "sharpness", "layers", "critical_lr", "growth")
#: A measurement that fails so often in a row is not tried again.
MOST_FAILURES = 2


@dataclass(frozen=True)
class Measured:
    """What was measured at a step.

    Attributes
    ----------
    numbers
        By the names of the columns of ``metrics.jsonl``.
    fingerprint
        Hashes of all tensors, if they were asked for.
    notes
        What was switched off or converted, said once.
    failures
        What could not be measured, and why.
    """

    numbers: dict[str, Any]
    fingerprint: Fingerprint | None
    notes: list[str]
    failures: list[str]


class Measurements:
    """Measures a model again and again, and leaves it bit by bit as it was.

    Parameters
    ----------
    model, loss_fn, batches, optimizer
        What is measured; the model without wrappers.
    measures
        Names out of :data:`MEASURES`.
    warm
        Whether the search for the sharpness starts from the eigenvectors found before. That takes fewer products, and the
        result depends on earlier ones within its residual. Then model and data are tested for determinism only once.
    growth_steps
        Steps of a perturbed copy.
    around
        A context in which everything is measured.
    """

    def __init__(
        self,
        model: nn.Module,
        loss_fn: LossFn,
        batches: Sequence[Batch],
        optimizer: Optimizer | None,
        *,
        measures: Sequence[str],
        warm: bool,
        growth_steps: int,
        around: Callable[[], contextlib.AbstractContextManager[None]],
    ) -> None:
        self.model, self.loss_fn, self.batches, self.optimizer = model, loss_fn, list(batches), optimizer
        self.measures, self.warm, self.growth_steps, self.around = list(measures), warm, growth_steps, around
        #: Learning rates of the last step by group, where a scheduler may have changed them since.
        self.rates: list[Any] | None = None
        self._last: Sharpness | None = None
        self._failed = dict.fromkeys(measures, 0)
        self._noted: set[str] = set()

    def measure(self) -> Measured:
        """Measure the model as it is now."""
        found = Measured({}, None, [], [])
        prints: list[Fingerprint] = []
        with self._untouched():
            if self.optimizer is not None:
                found.numbers["lr"] = float(self.optimizer.param_groups[0]["lr"])
            # The layers are measured with the sharpness of the whole.
            for name in [name for name in self.measures if name != "layers"]:
                try:
                    numbers, notes = self._one(name, prints)
                except Exception as error:
                    found.failures.append(self._failure(name, error))
                    continue
                self._failed[name] = 0
                found.numbers.update(numbers)
                found.notes.extend(note for note in notes if self._is_new(note))
        return Measured(found.numbers, prints[0] if prints else None, found.notes, found.failures)

    @contextlib.contextmanager
    def _untouched(self) -> Iterator[None]:
        device = next(self.model.parameters()).device
        full_precision = torch.autocast(device.type, enabled=False)
        with untouched_generators(), self.around(), full_precision, _with_rates(self.optimizer, self.rates):
            yield

    def _one(self, name: str, prints: list[Fingerprint]) -> tuple[dict[str, Any], list[str]]:
        if is_sharded(self.model):
            raise ValueError("model: found sharded parameters, expected whole ones; no single process can measure them")
        if name == "fingerprint":
            prints.append(fingerprint(self.model))
            return {"hash": prints[0].total}, []
        if uses_collectives(self.model):
            raise ValueError("model: found SyncBatchNorm layers in training mode, which wait for the other processes")
        if name == "sharpness":
            return self._sharpness()
        if self.optimizer is None:
            raise ValueError(f"optimizer: found none, expected one; {name} needs its steps")
        if name == "critical_lr":
            step = critical_lr(self.model, self.loss_fn, self.batches, self.optimizer)
            reasons = [] if step.reason is None else [f"critical_lr: {step.reason}"]
            numbers = {"critical_lr": step.critical_lr, "critical_lr_lower": step.lower, "critical_lr_upper": step.upper}
            return numbers, step.notes + reasons
        grown = growth(self.model, self.loss_fn, self.batches, self.optimizer, steps=self.growth_steps)
        rates = {"growth_per_step": grown.growth_per_step, "growth_standard_error": grown.standard_error}
        return {**rates, "verdict": grown.verdict}, []

    def _sharpness(self) -> tuple[dict[str, Any], list[str]]:
        optimizer, notes = self.optimizer, []
        unknown = None if optimizer is None else why_no_limit(optimizer)
        if unknown is not None:
            optimizer, notes = None, [f"no edge ratio: {unknown}"]
        check = not self.warm or self._last is None
        found = sharpness(
            self.model,
            self.loss_fn,
            self.batches,
            optimizer=optimizer,
            layers="layers" in self.measures,
            start=self._last,
            check=check,
        )
        self._last = found if self.warm else None
        numbers: dict[str, Any] = {
            "probe_loss": found.loss,
            "gradient_norm": found.gradient_norm if check else None,
            "sharpness": found.sharpness,
            "residual": found.residuals[0],
            "threshold": found.threshold,
            "edge_ratio": found.edge_ratio,
            "edge_residual": found.edge_residual,
            "hvps": found.hvps,
        }
        if not found.converged:
            notes.append(f"sharpness: the search did not reach its tolerance; its residual was {found.residuals[0]:.2g}")
        if found.layers:
            numbers["sharpness_of"] = {layer.name: layer.sharpness for layer in found.layers}
            ratios = {layer.name: layer.edge_ratio for layer in found.layers if layer.edge_ratio is not None}
            numbers["edge_ratio_of"] = ratios
        return numbers, found.notes + notes

    def _failure(self, name: str, error: Exception) -> str:
        self._failed[name] += 1
        text = f"{name}: {type(error).__name__}: {error}"
        if self._failed[name] < MOST_FAILURES:
            return text
        self.measures.remove(name)
        return f"{text}; it failed {MOST_FAILURES} times in a row and is not measured any more"

    def _is_new(self, note: str) -> bool:
        # The same note with another number is the same.
        key = re.sub(r"[0-9.]+(e[-+]?[0-9]+)?", "#", note)
        is_new = key not in self._noted
        self._noted.add(key)
        return is_new


@contextlib.contextmanager
def _with_rates(optimizer: Optimizer | None, rates: list[Any] | None) -> Iterator[None]:
    """The optimizer with these learning rates of its groups."""
    if optimizer is None or rates is None:
        yield
        return
    now = [group["lr"] for group in optimizer.param_groups]
    try:
        for group, rate in zip(optimizer.param_groups, rates, strict=True):
            group["lr"] = rate
        yield
    finally:
        for group, rate in zip(optimizer.param_groups, now, strict=True):
            group["lr"] = rate


def is_sharded(model: nn.Module) -> bool:
    """Whether each process holds a part of the parameters: FSDP, tensor parallelism, DeepSpeed's stage 3."""
    if any(type(p).__name__ == "DTensor" or hasattr(p, "ds_id") for p in model.parameters()):
        return True
    return any(type(module).__name__ == "FullyShardedDataParallel" for module in model.modules())


def uses_collectives(model: nn.Module) -> bool:
    """Whether a forward pass waits for other processes, which do not measure."""
    is_distributed = torch.distributed.is_available() and torch.distributed.is_initialized()
    if not is_distributed or torch.distributed.get_world_size() == 1:
        return False
    return any(isinstance(module, nn.SyncBatchNorm) and module.training for module in model.modules())
