"""A probe in Lightning's Trainer."""

import logging
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
lightning = pytest.importorskip("lightning.pytorch")
torchmetrics = pytest.importorskip("torchmetrics")

import torch_models as models  # noqa: E402
from torch import nn  # noqa: E402
from torch.utils.data import DataLoader, TensorDataset  # noqa: E402

import lastbit  # noqa: E402
import lastbit.torch  # noqa: E402
from lastbit.torch import Probe  # noqa: E402

torch.set_num_threads(1)
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)


class Module(lightning.LightningModule):  # type: ignore[misc]
    """Batch norm, dropout, a metric, a counter, and values that it logs."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.net = models.cnn()
        self.accuracy = torchmetrics.MeanMetric()
        self.seen: list[int] = []
        self.steps_made = 0

    def training_step(self, batch: Any, batch_idx: int) -> dict[str, Any]:
        x, y = batch
        logits = self.net(x)
        loss = nn.functional.cross_entropy(logits, y)
        self.accuracy.update((logits.argmax(1) == y).float())
        self.steps_made += 1
        self.log("train_loss", loss, on_step=True, on_epoch=True)
        self.log_dict({"train_accuracy": self.accuracy.compute()})
        return {"loss": loss}

    def configure_optimizers(self) -> Any:
        optimizer = torch.optim.SGD(self.parameters(), lr=0.1, momentum=0.9)
        schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.9)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}


class Memory(lightning.loggers.Logger):  # type: ignore[misc,name-defined]
    """A logger that remembers."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[dict[str, float], int]] = []

    name = version = "memory"

    def log_hyperparams(self, *_: Any, **__: Any) -> None:
        pass

    def log_metrics(self, metrics: dict[str, float], step: int) -> None:
        self.seen.append((dict(metrics), step))


def trained(callbacks: list[Any], module: Any = None, **arguments: Any) -> tuple[Any, Memory]:
    module = module or Module()
    x, y = models.data(24, 1, 6, 6, dtype=torch.float32), models.labels(24, 3)
    torch.manual_seed(5)
    loader = DataLoader(TensorDataset(x, y), batch_size=6, shuffle=True)
    memory = Memory()
    options = {"max_epochs": 2, "accelerator": "cpu", "devices": 1, "enable_progress_bar": False} | arguments
    trainer = lightning.Trainer(
        logger=memory, callbacks=callbacks, log_every_n_steps=1, enable_checkpointing=False, enable_model_summary=False, **options
    )
    with warnings.catch_warnings():
        # About the number of workers.
        warnings.simplefilter("ignore")
        trainer.fit(module, loader)
    return trainer, memory


@pytest.mark.parametrize("accumulate", [1, 2])
def test_the_training_is_the_same_bit_by_bit(tmp_path: Path, accumulate: int) -> None:
    alone, its_log = trained([], accumulate_grad_batches=accumulate)
    probe = Probe(out=tmp_path / "run", preset="full", every=2, measures=["sharpness", "critical_lr", "fingerprint"])
    found, memory = trained([probe.for_lightning()], accumulate_grad_batches=accumulate)
    same = [models.everything(trainer.lightning_module, trainer.optimizers[0]) for trainer in (alone, found)]
    assert same[0] == same[1]
    modules = [trainer.lightning_module for trainer in (alone, found)]
    assert modules[0].steps_made == modules[1].steps_made == 8
    assert torch.equal(modules[0].accuracy.compute(), modules[1].accuracy.compute())
    own = [(values, step) for values, step in memory.seen if "lastbit/sharpness" not in values]
    assert own == its_log.seen
    run = lastbit.read(tmp_path / "run")
    assert run.metrics["step"].tolist() == list(range(2, 8 // accumulate + 1, 2)) and run.summary is not None
    assert np.isfinite(run.metrics["loss"]).all() and np.isfinite(run.metrics["critical_lr"]).all()
    probed = {step: values["lastbit/edge_ratio"] for values, step in memory.seen if "lastbit/edge_ratio" in values}
    assert probed == dict(zip(run.metrics["step"].tolist(), run.metrics["edge_ratio"].tolist(), strict=True))
    assert run.metrics["hash"][-1] == lastbit.torch.fingerprint(modules[1]).total
    assert run.metrics["epoch"][-1] == 2.0
    # The learning rates are those of the steps, not of the next ones.
    assert run.metrics["lr"].tolist() == pytest.approx([0.1 * 0.9 ** (step - 1) for step in run.metrics["step"]], rel=1e-15)


def test_the_loss_is_that_of_the_training_step(tmp_path: Path) -> None:
    probe = Probe(out=tmp_path / "run", every=1)
    trainer, _ = trained([probe.for_lightning()], max_steps=1)
    x, y = models.data(24, 1, 6, 6, dtype=torch.float32), models.labels(24, 3)
    chosen = [0, 4, 8, 12, 16, 20]
    trainer.optimizers[0].param_groups[0]["lr"] = 0.1
    direct = lastbit.torch.sharpness(
        trainer.lightning_module.net, nn.CrossEntropyLoss(), (x[chosen], y[chosen]), optimizer=trainer.optimizers[0]
    )
    assert probe.last is not None
    assert (probe.last["sharpness"], probe.last["edge_ratio"]) == (direct.sharpness, direct.edge_ratio)


def test_an_exception_leaves_a_run_that_has_not_ended(tmp_path: Path) -> None:
    class Failing(Module):
        def training_step(self, batch: Any, batch_idx: int) -> dict[str, Any]:
            if self.trainer.global_step == 3:
                raise KeyError("training")
            return super().training_step(batch, batch_idx)

    probe = Probe(out=tmp_path / "run", every=1, measures=["fingerprint"])
    with pytest.raises(KeyError):
        trained([probe.for_lightning()], Failing())
    run = lastbit.read(tmp_path / "run")
    assert run.summary is None and run.metrics["step"].tolist() == [1, 2, 3]


def test_manual_optimization_needs_a_loss(tmp_path: Path) -> None:
    module = Module()
    module.automatic_optimization = False
    with pytest.raises(ValueError, match="loss_fn: found none for a module with automatic_optimization=False"):
        trained([Probe(out=tmp_path / "run").for_lightning()], module)
