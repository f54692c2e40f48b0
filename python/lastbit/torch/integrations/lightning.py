"""A probe as a callback of Lightning's ``Trainer``."""

import contextlib
import copy
import functools
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn

try:
    from lightning.pytorch import Callback, LightningModule, Trainer
except ImportError:
    from pytorch_lightning import Callback, LightningModule, Trainer  # type: ignore[assignment]

from lastbit.torch._loggers import as_logger

if TYPE_CHECKING:
    from lastbit.torch._probe import Probe


class LightningProbe(Callback):
    """What :meth:`lastbit.torch.Probe.for_lightning` returns.

    What the probe was not given is taken from the trainer: the module, its optimizer, the loss of its ``training_step``, and
    probe batches out of its training set. The numbers go to the trainer's loggers. What ``training_step`` logs, and the
    metrics that it updates, are left out or put back in a measurement; if it does more than computing a loss, pass
    ``loss_fn``.
    """

    def __init__(self, probe: "Probe") -> None:
        self.probe = probe

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Open the run directory."""
        probe = self.probe
        if probe.loss_fn is None and not pl_module.automatic_optimization:
            raise ValueError(
                "loss_fn: found none for a module with automatic_optimization=False, whose training_step makes steps itself; "
                "expected a function loss_fn(model, batch)"
            )
        probe.model = pl_module if probe.model is None else probe.model
        probe.loss_fn = _loss_of_training_step if probe.loss_fn is None else probe.loss_fn
        probe.batches = trainer.train_dataloader if probe.batches is None else probe.batches
        if probe.optimizer is None and len(trainer.optimizers) == 1:
            probe.optimizer = trainer.optimizers[0]
        loggers = [as_logger(logger) for logger in trainer.loggers]

        def log(values: dict[str, float], step: int) -> None:
            for logger in loggers:
                logger(values, step)

        probe._begin(functools.partial(_untouched, pl_module), log)
        probe._resume_after(trainer.global_step)

    def on_before_optimizer_step(self, trainer: Trainer, pl_module: LightningModule, optimizer: Any) -> None:
        """Take note of the learning rate of the step."""
        self.probe._before_step()

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Measure, if that is due."""
        # A step of the optimizer may take several batches.
        if trainer.global_step != self.probe._last_step:
            loss = outputs.get("loss") if isinstance(outputs, dict) else outputs
            batches = max(int(trainer.num_training_batches), 1) if trainer.num_training_batches != float("inf") else None
            epoch = None if batches is None else trainer.current_epoch + (batch_idx + 1) / batches
            self.probe.step(trainer.global_step, loss=loss if isinstance(loss, Tensor) else None, epoch=epoch)

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """End the run."""
        self.probe.close()

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        """Leave the run as one that has not ended."""
        self.probe._stop()


def _loss_of_training_step(module: Any, batch: Any) -> Any:
    """The loss of ``training_step``."""
    found = module.training_step(batch, 0)
    return found["loss"] if isinstance(found, dict) else found


@contextlib.contextmanager
def _untouched(module: LightningModule) -> Iterator[None]:
    """What ``training_step`` logs is dropped; attributes of the modules and states of metrics are put back."""
    attributes = [(part, dict(vars(part))) for part in module.modules()]
    metrics = [(part, copy.deepcopy(_state_of_metric(part))) for part in module.modules()]
    module.log = module.log_dict = _dropped  # type: ignore[method-assign]
    try:
        yield
    finally:
        for part, values in attributes:
            vars(part).clear()
            vars(part).update(values)
        for part, state in metrics:
            vars(part).update(state)


def _dropped(*_: Any, **__: Any) -> None:
    pass


def _state_of_metric(part: nn.Module) -> dict[str, Any]:
    """The state of a metric of torchmetrics, which updates it in place."""
    names = getattr(part, "_defaults", None)
    return {name: vars(part)[name] for name in names if name in vars(part)} if isinstance(names, dict) else {}
