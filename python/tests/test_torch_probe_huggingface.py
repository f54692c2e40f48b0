"""A probe in Hugging Face's Trainer, on a tiny GPT-2 with dropout."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
pytest.importorskip("accelerate")

import torch_models as models  # noqa: E402

import lastbit  # noqa: E402
import lastbit.torch  # noqa: E402
from lastbit.torch import Probe  # noqa: E402

torch.set_num_threads(1)


class Sentences(torch.utils.data.Dataset):  # type: ignore[misc]
    """Random tokens; reading one draws a random number, as an augmentation does."""

    def __len__(self) -> int:
        return 24

    def __getitem__(self, i: int) -> dict[str, Any]:
        torch.rand(1)
        np.random.rand()
        ids = models.gpt2_batch(24)["input_ids"][i]
        return {"input_ids": ids, "labels": ids}


class Seen(transformers.TrainerCallback):  # type: ignore[misc]
    """What reporters such as TensorBoard's get to see."""

    def __init__(self) -> None:
        self.logs: list[dict[str, float]] = []

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, float], **kwargs: Any) -> None:
        self.logs.append({**logs, "step": state.global_step})


def trainer(folder: Path, callbacks: list[Any], **arguments: Any) -> Any:
    model = models.gpt2()
    arguments = {"max_steps": 6, "logging_steps": 2, "learning_rate": 1e-2, "save_strategy": "no"} | arguments
    args = transformers.TrainingArguments(
        output_dir=str(folder),
        per_device_train_batch_size=4,
        report_to=[],
        disable_tqdm=True,
        use_cpu=True,
        seed=1,
        **arguments,
    )
    return transformers.Trainer(model, args, train_dataset=Sentences(), callbacks=callbacks)


def trained(folder: Path, callbacks: list[Any], **arguments: Any) -> tuple[Any, list[dict[str, float]], dict[str, str]]:
    """The trainer, what it logged itself, and hashes of everything."""
    found = trainer(folder, callbacks, **arguments)
    found.train()
    own = [entry for entry in found.state.log_history if "loss" in entry]
    return found, own, models.everything(found.model, found.optimizer.optimizer)


@pytest.mark.parametrize(
    "arguments",
    [{}, {"gradient_accumulation_steps": 2, "label_smoothing_factor": 0.1}, {"bf16": True}],
    ids=["plain", "smoothed", "autocast"],
)
def test_the_training_is_the_same_bit_by_bit(tmp_path: Path, arguments: dict[str, Any]) -> None:
    _, alone, expected = trained(tmp_path, [], **arguments)
    seen = Seen()
    probe = Probe(out=tmp_path / "run", preset="full", every=2, measures=["sharpness", "critical_lr", "fingerprint"])
    found, logged, everything = trained(tmp_path, [probe.for_trainer(), seen], **arguments)
    assert everything == expected
    assert logged == alone
    run = lastbit.read(tmp_path / "run")
    assert run.metrics["step"].tolist() == [2, 4, 6] and run.summary is not None
    # AdamW, from within the wrapper of Accelerate.
    assert run.settings["optimizer"]["name"] == "AdamW"
    assert np.isfinite(run.metrics["edge_ratio"]).all() and np.isfinite(run.metrics["critical_lr"]).all()
    if "bf16" in arguments:
        # Measured without the dropout and the autocast of the training. Four float32 batches and one differ by roundings of the mean: below
        # 16 units of 6e-8. bfloat16 has a roundoff of 4e-3.
        plain = models.gpt2().eval()
        plain.load_state_dict(found.model.state_dict())
        ids = models.gpt2_batch(24)["input_ids"][[i * 24 // 16 for i in range(16)]]
        expected_loss = plain(input_ids=ids, labels=ids).loss.item()
        assert run.metrics["probe_loss"][-1] == pytest.approx(expected_loss, rel=1e-6)
        cast = found.model.eval()(input_ids=ids, labels=ids).loss.item()
        assert cast != pytest.approx(expected_loss, rel=1e-5)
    # The learning rates are those of the steps: it falls linearly to 0 at the end of the training.
    assert run.metrics["lr"].tolist() == pytest.approx([1e-2 * (1 - (step - 1) / 6) for step in (2, 4, 6)], rel=1e-15)
    assert run.metrics["hash"][-1] == lastbit.torch.fingerprint(found.model).total
    # The training loss was logged after the steps 2 and 4.
    assert run.metrics["loss"][1:].tolist() == [entry["loss"] for entry in logged[:2]]
    ratios = {int(entry["step"]): entry["lastbit/edge_ratio"] for entry in seen.logs if "lastbit/edge_ratio" in entry}
    assert ratios == dict(zip([2, 4, 6], run.metrics["edge_ratio"].tolist(), strict=True))


def test_the_probe_batch_is_spread_over_the_training_set_and_the_loss_is_the_trainers(tmp_path: Path) -> None:
    probe = Probe(out=tmp_path / "run", every=1)
    found, _, _ = trained(tmp_path, [probe.for_trainer()], max_steps=1, label_smoothing_factor=0.1)
    ids = models.gpt2_batch(24)["input_ids"][[0, 6, 12, 18]]
    batch = {"input_ids": ids, "labels": ids}

    def smoothed(model: Any, batch: dict[str, Any]) -> Any:
        outputs = model(**batch)
        return found.label_smoother(outputs, batch["labels"], shift_labels=True)

    direct = lastbit.torch.sharpness(found.model.eval(), smoothed, batch)
    assert probe.last is not None
    assert (probe.last["probe_loss"], probe.last["sharpness"]) == (direct.loss, direct.sharpness)


def test_a_resumed_training_continues_its_run(tmp_path: Path) -> None:
    class Killed(Exception):
        pass

    class Kill(transformers.TrainerCallback):  # type: ignore[misc]
        def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            if state.global_step == 5:
                raise Killed

    options = {"save_strategy": "steps", "save_steps": 3}
    first = Probe(out=tmp_path / "run", every=1, measures=["fingerprint"])
    with pytest.raises(Killed):
        trainer(tmp_path, [first.for_trainer(), Kill()], **options).train()
    first._stop()
    before = lastbit.read(tmp_path / "run")
    assert before.metrics["step"].tolist() == [1, 2, 3, 4, 5] and before.summary is None
    # The probe measures at even steps now, so that a row that is kept is not one that is measured again.
    second = Probe(out=tmp_path / "run", every=2, measures=["fingerprint"], resume=True)
    again = trainer(tmp_path, [second.for_trainer()], **options)
    again.train(resume_from_checkpoint=True)
    after = lastbit.read(tmp_path / "run")
    assert after.metrics["step"].tolist() == [1, 2, 3, 4, 6] and after.summary is not None
    assert after.metrics["hash"][:3].tolist() == before.metrics["hash"][:3].tolist()
    assert after.metrics["hash"][-1] == lastbit.torch.fingerprint(again.model).total
