"""Measuring a training while it runs."""

import contextlib
import os
import sys
import time
import warnings
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from lastbit import _lastbit
from lastbit._errors import LastbitError
from lastbit._json import dumps, loads
from lastbit.torch._describe import describe
from lastbit.torch._loggers import Logger, as_logger, logged
from lastbit.torch._measure import MEASURES, Measured, Measurements
from lastbit.torch._probe_batches import probe_batches
from lastbit.torch._problem import Batch, LossFn, check_optimizer, unwrapped
from lastbit.torch._schedule import Clock, EverySteps, ShareOfTime
from lastbit.torch._unwrap import bare_model, is_main_process

if TYPE_CHECKING:
    from lastbit.torch.integrations.huggingface import TrainerProbe
    from lastbit.torch.integrations.lightning import LightningProbe

PRESETS: dict[str, tuple[str, ...]] = {"cheap": ("fingerprint", "sharpness"), "full": MEASURES}
#: Steps between two measurements of the preset "full".
FULL_EVERY = 100


class Probe:
    """Measure a training while it runs, without changing a bit of it.

    At some steps the probe measures the model as it is: how sharp the loss is, how near the optimizer is to its edge of
    stability, which learning rate would raise the loss, how fast a perturbed copy drifts apart, and the hash of every
    tensor. Everything is written into a run directory, which ``lastbit report``, ``lastbit verify`` and
    :func:`lastbit.read` read, also while the training goes on or after it was killed.

    Parameters, gradients, buffers, optimizer state, modes and random number generators stay bit by bit as they are. What
    cannot be measured becomes a note and a warning, never the end of the training.

    Parameters
    ----------
    model, loss_fn, batches, optimizer
        As for :func:`sharpness`. ``batches`` are the probe batches, the same at every measurement: pass one or a few. Of a
        ``DataLoader`` one batch is taken ("cheap") or four ("full"), by the indices of its data set. Leave all four
        out for :meth:`for_trainer` and :meth:`for_lightning`, which take them from the trainer.
    out
        The run directory.
    preset
        ``"cheap"``: sharpness, edge ratio and fingerprint, as often as ``share`` of the time permits. The steps then depend on
        how fast the machine is. ``"full"``: everything, every 100 steps; a measurement costs as much as hundreds of
        training steps.
    every
        Measure at the multiples of this many steps instead, whatever it costs.
    measures
        Some of ``"fingerprint"``, ``"sharpness"``, ``"layers"`` (sharpness of each layer), ``"critical_lr"`` and ``"growth"``,
        instead of those of the preset.
    share
        The share of the wall time that the measurements of "cheap" may take.
    logger
        Where the numbers go as well, as ``lastbit/NAME``: a function ``logger(values, step)``, a TensorBoard
        ``SummaryWriter``, a wandb run.
    resume
        Continue the run in ``out``, if there is one. Rows of steps that the training makes again are cut off.
    growth_steps
        Steps that a perturbed copy makes, for "growth".

    Attributes
    ----------
    folder
        The run directory.
    last
        The last row, as ``metrics.jsonl`` has it; None before the first measurement.

    Examples
    --------
    >>> import tempfile, torch, lastbit, lastbit.torch
    >>> model = torch.nn.Linear(2, 1, bias=False)
    >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.25)
    >>> batch = (torch.eye(2), torch.zeros(2, 1))
    >>> out = tempfile.mkdtemp() + "/run"
    >>> with lastbit.torch.Probe(model, torch.nn.MSELoss(), batch, optimizer, out=out, every=5) as probe:
    ...     for step in range(1, 11):
    ...         optimizer.zero_grad()
    ...         loss = torch.nn.functional.mse_loss(model(batch[0]), batch[1])
    ...         loss.backward()
    ...         optimizer.step()
    ...         probe.step(step, loss=loss)
    >>> run = lastbit.read(out)
    >>> run.metrics["step"].tolist(), run.metrics["edge_ratio"].round(6).tolist()
    ([5, 10], [0.125, 0.125])
    """

    def __init__(
        self,
        model: nn.Module | None = None,
        loss_fn: LossFn | None = None,
        batches: Batch | Iterable[Batch] | None = None,
        optimizer: Optimizer | None = None,
        *,
        out: str | os.PathLike[str],
        preset: str = "cheap",
        every: int | None = None,
        measures: Sequence[str] | None = None,
        share: float = 0.05,
        logger: Any = None,
        resume: bool = False,
        growth_steps: int = 64,
    ) -> None:
        self.folder = Path(out)
        self.last: dict[str, Any] | None = None
        self._preset = preset
        self._measures = _checked_measures(preset, measures)
        self._schedule = _checked_schedule(preset, every, share)
        if growth_steps < 64:
            raise ValueError(f"growth_steps: found {growth_steps}, expected at least 64, which a verdict needs")
        self._growth_steps = growth_steps
        self._resume = resume
        self._loggers: list[Logger] = [] if logger is None else [as_logger(logger)]
        self.model, self.loss_fn, self.batches, self.optimizer = model, loss_fn, batches, optimizer
        self._measurements: Measurements | None = None
        self._run: _lastbit.ProbeRun | None = None
        self._clock: Clock | None = None
        self._last_step: int | None = None
        self._costs: deque[float] = deque(maxlen=8)
        self._expected_cost: float | None = None
        self._warned: set[str] = set()
        if model is not None:
            missing = [name for name in ("loss_fn", "batches") if getattr(self, name) is None]
            if missing:
                raise TypeError(f"{missing[0]}: found none, expected one: Probe(model, loss_fn, batches, optimizer, out=...)")
            self._begin()

    # For a training loop of one's own.

    def step(self, step: int, loss: float | Tensor | None = None, *, epoch: float | None = None) -> None:
        """Say that a step was made; call it after ``optimizer.step()`` and before ``scheduler.step()``.

        Parameters
        ----------
        step
            Steps made so far, over the whole training.
        loss
            The loss of the training, which is written down. A tensor is read only where something is measured.
        epoch
            Epochs made so far, if they are to be written down.
        """
        step = int(step)
        if self._run is None:
            return
        if self._last_step is not None and step <= self._last_step:
            self._warn(
                f"step: found {step} after {self._last_step}, expected a count that rises over the whole training; nothing is "
                "measured until it does"
            )
            return
        self._last_step = step
        with self._harmless():
            if self._clock is None:
                self._clock = Clock(*self._run.resume_at(step))
            if self._schedule.is_due(step, self._clock, self._expected_cost):
                self._measure(step, loss, epoch)

    def close(self) -> dict[str, Any] | None:
        """End the run and write its summary, which is returned; None where nothing was written."""
        run, self._run = self._run, None
        if run is None:
            return None
        clock = self._clock or Clock()
        summary: dict[str, Any] | None = None
        with self._harmless():
            summary = loads(run.finish(*clock.totals()))
        return summary

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if kind is None:
            self.close()
        else:
            self._stop()

    # For trainers.

    def for_trainer(self) -> "TrainerProbe":
        """This probe as a callback of a Hugging Face ``Trainer``: ``Trainer(..., callbacks=[probe.for_trainer()])``."""
        from lastbit.torch.integrations.huggingface import TrainerProbe

        return TrainerProbe(self)

    def for_lightning(self) -> "LightningProbe":
        """This probe as a callback of a Lightning ``Trainer``: ``Trainer(..., callbacks=[probe.for_lightning()])``."""
        from lastbit.torch.integrations.lightning import LightningProbe

        return LightningProbe(self)

    def _begin(
        self, around: Callable[[], contextlib.AbstractContextManager[None]] = contextlib.nullcontext, logger: Logger | None = None
    ) -> None:
        """Open the run directory. Everything is measured within ``around``."""
        if not is_main_process():
            return
        if not isinstance(self.model, nn.Module):
            raise TypeError(f"model: found {type(self.model).__name__}, expected a torch.nn.Module")
        assert self.loss_fn is not None
        model = bare_model(self.model)
        optimizer = None if self.optimizer is None else unwrapped(self.optimizer)
        if optimizer is not None:
            check_optimizer(optimizer, model.parameters())
        batches = probe_batches(self.batches, self._preset)
        self._measurements = Measurements(
            model,
            self.loss_fn,
            batches,
            optimizer,
            measures=self._measures,
            warm=self._preset == "cheap",
            growth_steps=self._growth_steps,
            around=around,
        )
        if logger is not None:
            self._loggers.append(logger)
        when = {"every": self._schedule.steps} if isinstance(self._schedule, EverySteps) else {"share": self._schedule.share}
        probe = {"preset": self._preset, "measures": self._measures, **when}
        if "growth" in self._measures:
            probe["growth-steps"] = self._growth_steps
        settings = describe(model, self.loss_fn, batches, optimizer, probe)
        self._run = _lastbit.ProbeRun(self.folder, dumps(settings), resume=self._resume)
        # Where nobody closes the probe, its page is written when the process ends.
        weakref.finalize(self, _close_at_exit, self._run, os.getpid())

    def _resume_after(self, step: int) -> None:
        """The training begins, after this many steps."""
        if self._run is not None:
            self._clock = Clock(*self._run.resume_at(step + 1))
            self._last_step = step

    def _before_step(self) -> None:
        """A step is made next: trainers change learning rates between it and the measurement."""
        if self._measurements is not None and self._measurements.optimizer is not None:
            rates = [group["lr"] for group in self._measurements.optimizer.param_groups]
            self._measurements.rates = [rate.clone() if isinstance(rate, Tensor) else rate for rate in rates]

    def _stop(self) -> None:
        """Leave the run directory of a training that has not come to its end."""
        run, self._run = self._run, None
        if run is not None:
            with self._harmless():
                run.close()

    # Measuring.

    def _measure(self, step: int, loss: float | Tensor | None, epoch: float | None) -> None:
        assert self._measurements is not None and self._clock is not None and self._run is not None
        device = next(self._measurements.model.parameters()).device
        _synchronize(device)
        began, before = time.perf_counter(), self._clock.measuring
        found = self._measurements.measure()
        for failure in found.failures:
            self._warn(f"{failure} (step {step})", key=failure)
        _synchronize(device)
        self._clock.measuring = before + time.perf_counter() - began
        self.last = self._row(step, loss, epoch, found)
        prints = found.fingerprint
        tensors = None if prints is None else dumps({"step": step, "hash": prints.total, "tensors": prints.tensors})
        self._run.append(dumps(self.last), tensors)
        self._log(step)
        # With what it took to write it down.
        cost = time.perf_counter() - began
        self._clock.measuring = before + cost
        if self._expected_cost is not None:
            # The first measurement searches from scratch: it says nothing of those after it.
            self._costs.append(cost)
        self._expected_cost = max(self._costs, default=cost)

    def _row(self, step: int, loss: float | Tensor | None, epoch: float | None, found: Measured) -> dict[str, Any]:
        assert self._clock is not None
        elapsed, measuring = self._clock.totals()
        notes = found.notes + found.failures
        row = {
            "step": step,
            "epoch": None if epoch is None else float(epoch),
            "loss": None if loss is None else loss.item() if isinstance(loss, Tensor) else float(loss),
            **found.numbers,
            "elapsed_seconds": elapsed,
            "measuring_seconds": measuring,
            "note": "; ".join(notes) or None,
        }
        return {name: value for name, value in row.items() if value is not None}

    def _log(self, step: int) -> None:
        assert self.last is not None
        share = self.last["measuring_seconds"] / max(self.last["elapsed_seconds"], 1e-9)
        values = logged({**self.last, "measuring_share": share})
        for logger in self._loggers:
            try:
                logger(values, step)
            except Exception as error:
                self._warn(f"logger: {type(error).__name__}: {error}")

    @contextlib.contextmanager
    def _harmless(self) -> Iterator[None]:
        """What goes wrong inside, such as a disk that is full, ends the probe and not the training."""
        try:
            yield
        except Exception as error:
            run, self._run = self._run, None
            kind = "" if isinstance(error, LastbitError) else f"{type(error).__name__}: "
            self._warn(f"{kind}{error}; nothing is measured any more")
            if run is not None:
                _close_quietly(run)

    def _warn(self, text: str, key: str | None = None) -> None:
        if (key or text) not in self._warned:
            self._warned.add(key or text)
            warnings.warn(f"lastbit.torch.Probe: {text}", RuntimeWarning, stacklevel=_frames_of_package())


def _checked_measures(preset: str, measures: Sequence[str] | None) -> list[str]:
    if preset not in PRESETS:
        raise ValueError(f'preset: found {preset!r}, expected "cheap" or "full"')
    wanted = PRESETS[preset] if measures is None else [measures] if isinstance(measures, str) else list(measures)
    for name in wanted:
        if name not in MEASURES:
            raise ValueError(f"measures: found {name!r}, expected some of {', '.join(MEASURES)}")
    if "layers" in wanted:
        wanted = [*wanted, "sharpness"]
    return [name for name in MEASURES if name in wanted]


def _checked_schedule(preset: str, every: int | None, share: float) -> EverySteps | ShareOfTime:
    if every is not None and every < 1:
        raise ValueError(f"every: found {every}, expected at least 1")
    if not 0 < share <= 1:
        raise ValueError(f"share: found {share}, expected a share of the time above 0 and up to 1")
    if every is None and preset == "cheap":
        return ShareOfTime(share)
    return EverySteps(every or FULL_EVERY)


def _frames_of_package() -> int:
    """How many frames up the code lies that uses the package: a warning names that line."""
    frame, depth = sys._getframe(1), 1
    package = str(Path(__file__).parents[1])
    while frame.f_back is not None and frame.f_code.co_filename.startswith((package, contextlib.__file__)):
        frame, depth = frame.f_back, depth + 1
    return depth


def _synchronize(device: torch.device) -> None:
    # Steps that are still queued on a GPU are no part of a measurement.
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _close_quietly(run: _lastbit.ProbeRun) -> None:
    with contextlib.suppress(LastbitError):
        run.close()


def _close_at_exit(run: _lastbit.ProbeRun, process: int) -> None:
    # A fork of the process has the object and not the run.
    if os.getpid() == process:
        _close_quietly(run)
