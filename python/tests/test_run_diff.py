"""``lastbit.diff`` of two runs: probes, checkpoints of transformers, replicas."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lastbit
from lastbit import RunDiffResult


def runs_differ(a: Path | str, b: Path | str) -> RunDiffResult:
    result = lastbit.diff(a, b)
    assert isinstance(result, RunDiffResult)
    return result


def test_replicas_and_the_numbers_of_the_command(tmp_path: Path, config: dict[str, Any], command: Callable[..., Any]) -> None:
    run = lastbit.train(config, out=tmp_path / "run").folder
    found = runs_differ(f"{run}:k1", f"{run}:k3")
    told = command("diff", "run:k1", "run:k3")
    assert found.verdict.replace(str(tmp_path) + "/", "") == told["verdict"]
    assert not found.identical and found.first_different_step == told["first_different_step"]
    assert found.growth_per_step == told["growth"]["fitted"]["per_step"] and found.no_growth is None
    metrics = lastbit.read(run).of("k3")
    rows = {row["step"]: row for row in found.steps}
    for step, distance in zip(metrics["step"], metrics["distance"]):
        assert step not in rows or rows[step]["distance"] == distance
    assert found.settings == [{"key": "replica", "a": "k1", "b": "k3"}]
    assert found.tensors[0]["name"] in str(found) and "growth_per_step" in found._repr_html_()
    assert found.to_dict()["tensors"] == found.tensors
    # k = 4 is a power of two: it cancels exactly.
    same = runs_differ(f"{run}:k1", f"{run}:k4")
    assert same.identical and same.first_different_step is None and same.tensors == []


def test_what_is_no_run_is_refused(tmp_path: Path, config: dict[str, Any]) -> None:
    with pytest.raises(lastbit.InputError, match="no checkpoint, expected a run directory"):
        lastbit.diff(tmp_path, tmp_path)
    run = lastbit.train(config, out=tmp_path / "run").folder
    with pytest.raises(lastbit.InputError, match="no replica k2, expected FOLDER:REPLICA with one of k1, k3, k4"):
        lastbit.diff(f"{run}:k2", run)
    with pytest.raises(lastbit.InputError, match="one file or checkpoint, expected a run"):
        lastbit.diff(run, run / "final" / "k1.safetensors")
    (tmp_path / "pickles" / "checkpoint-1").mkdir(parents=True)
    (tmp_path / "pickles" / "checkpoint-1" / "pytorch_model.bin").write_bytes(b"")
    with pytest.raises(lastbit.InputError, match=r"left out: checkpoint-1 \(pickles are never read\)"):
        lastbit.diff(run, tmp_path / "pickles")
    with pytest.raises(lastbit.InputError, match=r"envelope\.json: found no file, expected an envelope"):
        lastbit.noise(tmp_path)
    with pytest.raises(lastbit.InputError, match="at: found soon, expected last, best or a step"):
        lastbit.noise([tmp_path], at="soon")


def up(tensor: Any) -> None:
    """Moves the first entry of a tensor to the next float."""
    import torch

    with torch.no_grad():
        first = tensor.view(-1)[:1]
        first.copy_(torch.nextafter(first, torch.full_like(first, float("inf"))))


@pytest.mark.parametrize("moved_at", [1, 5, 9])
def test_one_ulp_in_one_entry_is_found_at_its_step(tmp_path: Path, moved_at: int) -> None:
    torch = pytest.importorskip("torch")
    import torch_models as models

    from lastbit.torch import Probe

    torch.set_num_threads(1)

    def train(name: str, lr: float, is_moved: bool) -> Path:
        torch.manual_seed(0)
        model = models.mlp()
        optimizer = torch.optim.SGD(model.parameters(), lr=lr)
        x, y = models.data(16, 3, dtype=torch.float32), models.labels(16, 2)
        loss_fn = torch.nn.CrossEntropyLoss()
        probe = Probe(model, loss_fn, (x, y), optimizer, out=tmp_path / name, every=1, measures=["fingerprint"])
        for step in range(1, 11):
            optimizer.zero_grad()
            loss = loss_fn(model(x), y)
            loss.backward()
            optimizer.step()
            if is_moved and step == moved_at:
                up(model.get_parameter("2.weight"))
            probe.step(step, loss=loss)
        probe.close()
        return tmp_path / name

    plain, moved = train("plain", 0.5, False), train("moved", 0.5, True)
    found = runs_differ(plain, moved)
    assert (found.first_different_step, found.tensors_step) == (moved_at, moved_at)
    assert found.last_identical_step == (moved_at - 1 if moved_at > 1 else None)
    assert [row["name"] for row in found.tensors] == ["2.weight"]
    assert found.tensors[0]["max_ulps"] is None and "its values were not saved" in found.verdict
    assert found.growth_per_step is None and found.no_growth is not None and found.settings == []
    assert runs_differ(plain, plain).identical
    other = runs_differ(plain, train("other", 0.25, False))
    assert {"key": "optimizer.lr", "a": "0.5", "b": "0.25"} in other.settings
    # The loss of a step is that before its update.
    assert other.first_different_step == 1 and other.first_metric is not None


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two trainings by transformers; in the second one entry moves by an ulp at step 4."""
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("accelerate")
    import torch_models as models

    torch.set_num_threads(1)
    ids = models.gpt2_batch(24)["input_ids"]
    data = [{"input_ids": row, "labels": row} for row in ids]

    class Move(transformers.TrainerCallback):  # type: ignore[misc, name-defined]
        def on_step_end(self, args: Any, state: Any, control: Any, model: Any, **kwargs: Any) -> None:
            if state.global_step == 4:
                up(model.transformer.h[1].mlp.c_fc.weight)

    def train(name: str, callbacks: list[Any]) -> Path:
        folder = tmp_path_factory.mktemp(name)
        args = transformers.TrainingArguments(
            output_dir=str(folder),
            max_steps=12,
            save_steps=2,
            logging_steps=1,
            learning_rate=1e-2,
            per_device_train_batch_size=4,
            report_to=[],
            disable_tqdm=True,
            use_cpu=True,
            seed=1,
        )
        trainer = transformers.Trainer(models.gpt2(), args, train_dataset=data, callbacks=callbacks)
        trainer.train()
        trainer.save_model()
        return folder

    return train("plain", []), train("moved", [Move()])


NAME = "transformer.h.1.mlp.c_fc.weight"


def test_checkpoints_of_transformers(trained: tuple[Path, Path]) -> None:
    plain, moved = trained
    assert (plain / "checkpoint-2" / "model.safetensors").exists()
    found = runs_differ(plain, moved)
    assert (found.last_identical_step, found.first_different_step, found.common_steps) == (2, 4, 6)
    assert [(row["name"], row["max_ulps"], row["entries_different"]) for row in found.tensors] == [(NAME, 1, 1)]
    assert found.verdict.startswith(
        f"Identical up to step 2; at step 4, the next in common, they differ in `{NAME}` by 1 ulp, one of "
    )
    assert found.growth_per_step is not None and [row["status"] for row in found.steps] == ["identical"] + ["different"] * 5
    assert any("optimizer.pt" in note and "training_args.bin" in note for note in found.notes), found.notes
    assert "loss" in found.metrics, found.notes
    assert found.settings == []
    assert runs_differ(plain, plain).identical
    one = lastbit.diff(plain / "checkpoint-4", moved / "checkpoint-4")
    assert isinstance(one, lastbit.DiffResult) and one.total["max_ulps"] == 1
    only = lastbit.diff(plain, moved, only="transformer.h.0.*")
    # The other layers are moved by the step after.
    assert isinstance(only, RunDiffResult) and only.first_different_step == 6


def test_sharded_checkpoints(tmp_path: Path, trained: tuple[Path, Path]) -> None:
    transformers = pytest.importorskip("transformers")
    shards = tmp_path / "shards"
    for step in range(2, 13, 2):
        checkpoint = transformers.AutoModelForCausalLM.from_pretrained(trained[1] / f"checkpoint-{step}")
        checkpoint.save_pretrained(shards / f"checkpoint-{step}", max_shard_size="20KB", safe_serialization=True)
        assert (shards / f"checkpoint-{step}" / "model.safetensors.index.json").exists()
    assert runs_differ(trained[1], shards).first_different_step is None
    found, expected = runs_differ(trained[0], shards), runs_differ(*trained)
    # The first pair of whole files has equal bytes; shards are compared tensor by tensor.
    assert found.tensors == expected.tensors and found.steps[1:] == expected.steps[1:]
    assert found.growth_per_step == expected.growth_per_step
    part = next(shards.glob("checkpoint-6/model-00002-*.safetensors"))
    part.write_bytes(part.read_bytes()[:-1])
    with pytest.raises(lastbit.InputError, match=part.name):
        lastbit.diff(trained[0], shards)


def test_envelopes_are_groups_of_noise(tmp_path: Path) -> None:
    spread = [-2.0, -1.0, 0.0, 0.0, 1.0, 2.0]
    values = {"base": [90 + x for x in spread], "new": [95 + x for x in spread]}
    for name, last in values.items():
        (tmp_path / name).mkdir()
        runs = [{"acc": ([10, 20], [x / 2, x])} for x in last]
        lastbit.envelope_of(runs).save(tmp_path / name / "envelope.json")
    found = lastbit.noise([tmp_path / "base", tmp_path / "new"], metric="acc")
    expected = lastbit.noise(values)
    assert found.groups == expected.groups and found.comparisons == expected.comparisons
    assert "differ by rounding alone" in found.verdict[-1]
    half = lastbit.noise([tmp_path / "base", tmp_path / "new"], at=10)
    assert half.comparisons[0]["gain"] == 2.5
    assert lastbit.noise(tmp_path / "base", gain=50.0).significant


def test_another_model_is_refused(tmp_path: Path) -> None:
    save_file = pytest.importorskip("safetensors.numpy").save_file
    for name, size in (("a", 3), ("b", 4)):
        (tmp_path / name).mkdir()
        save_file({"w": np.ones(size, np.float32)}, tmp_path / name / "step-1.safetensors")
    with pytest.raises(lastbit.InputError, match=r"w of shape \[4\], in A \[3\], expected the tensors of A"):
        lastbit.diff(tmp_path / "a", tmp_path / "b")
