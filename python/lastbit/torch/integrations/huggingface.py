"""A probe as a callback of Hugging Face's ``Trainer``."""

import contextlib
import functools
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from torch import nn
from transformers import Trainer, TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from lastbit.torch._loggers import Logger

if TYPE_CHECKING:
    from lastbit.torch._probe import Probe


class TrainerProbe(TrainerCallback):
    """What :meth:`lastbit.torch.Probe.for_trainer` returns.

    What the probe was not given is taken from the trainer: the model, its optimizer, the loss as the trainer computes it, and
    probe batches out of its training set. It is measured without dropout and without autocast. The numbers go where the trainer logs. The row of a step has the training loss if
    the trainer has logged one since the last row.
    """

    def __init__(self, probe: "Probe") -> None:
        self.probe = probe
        #: The training loss that was logged since the last row.
        self._loss: float | None = None

    def on_train_begin(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Open the run directory."""
        probe, trainer = self.probe, _calling_trainer()
        probe.model = kwargs["model"] if probe.model is None else probe.model
        probe.optimizer = kwargs["optimizer"] if probe.optimizer is None else probe.optimizer
        probe.batches = kwargs["train_dataloader"] if probe.batches is None else probe.batches
        if probe.loss_fn is None:
            probe.loss_fn = _own_loss if trainer is None else functools.partial(_loss_of, trainer)
        around = functools.partial(_as_measured, probe.model)
        probe._begin(around, None if trainer is None else _logger_of(trainer))
        probe._resume_after(state.global_step)

    def on_step_begin(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Take note of the learning rate of the step."""
        self.probe._before_step()

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Measure, if that is due."""
        before = self.probe.last
        self.probe.step(state.global_step, loss=self._loss, epoch=state.epoch)
        if self.probe.last is not before:
            self._loss = None

    def on_log(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Take note of the training loss."""
        self._loss = kwargs["logs"].get("loss", self._loss)

    def on_train_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """End the run."""
        self.probe.close()


def _own_loss(model: nn.Module, batch: Any) -> Any:
    """The loss that a model computes of its labels."""
    return model(**batch).loss


def _loss_of(trainer: Trainer, model: nn.Module, batch: Any) -> Any:
    """The loss that the trainer computes, label smoothing and overridden methods included."""
    # It may take labels out of the batch.
    return trainer.compute_loss(model, dict(batch))


def _calling_trainer() -> Trainer | None:
    """The trainer that called the callback: callbacks are not handed it."""
    frame = sys._getframe(1).f_back
    while frame is not None:
        caller = frame.f_locals.get("self")
        if isinstance(caller, Trainer):
            return caller
        frame = frame.f_back
    return None


def _logger_of(trainer: Trainer) -> Logger:
    def log(values: dict[str, float], step: int) -> None:
        # What it logs itself at this step is still to come.
        should_log = trainer.control.should_log
        trainer.log(dict(values))
        trainer.control.should_log = should_log

    return log


@contextlib.contextmanager
def _as_measured(model: nn.Module) -> Iterator[None]:
    """The model without dropout, which transformers often applies as a function in training mode, and without the autocast
    that Accelerate wraps around its forward pass."""
    modes = {module: module.training for module in model.modules()}
    wrapped, original = model.__dict__.get("forward"), model.__dict__.get("_original_forward")
    try:
        for module in modes:
            module.training = module.training and isinstance(module, nn.modules.batchnorm._BatchNorm)
        if wrapped is not None and original is not None:
            model.forward = original
        yield
    finally:
        if wrapped is not None:
            model.forward = wrapped
        for module, training in modes.items():
            module.training = training
