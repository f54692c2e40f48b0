"""Event files that the command writes, read by TensorBoard itself."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

CONFIG = """
data = { name = "mnist01", limit = 64, test-limit = 16 }
network = { kind = "mlp", hidden = [8], activation = "tanh" }
optimizer = { name = "sgd", lr = 0.1 }
training = { steps = 20, batch = 16, metrics-every = 2 }
replicas = { k = [1, 3] }
sharpness = { every = 10, density = true, examples = 16 }
"""


def accumulated(folder: Path) -> EventAccumulator:
    found = EventAccumulator(str(folder), size_guidance={"scalars": 0, "histograms": 0, "tensors": 0})
    return found.Reload()


def test_a_training_of_two_replicas(tmp_path: Path, command: Callable[..., dict[str, Any]]) -> None:
    (tmp_path / "config.toml").write_text(CONFIG)
    command("train", "config.toml", "--out", "run")
    exported = command("export", "run", "--tensorboard", "board")
    assert sorted(Path(file).parent.name for file in exported["files"]) == ["k1", "k3"]
    rows = [json.loads(line) for line in (tmp_path / "run/metrics.jsonl").read_text().splitlines()]
    for replica in ("k1", "k3"):
        found = accumulated(tmp_path / "board" / replica)
        for metric in ("train_loss", "rel_l1", "agreeing_bits"):
            logged = [(row["step"], row[metric]) for row in rows if row["replica"] == replica and metric in row]
            assert [event.step for event in found.Scalars(metric)] == [step for step, _ in logged]
            values = [event.value for event in found.Scalars(metric)]
            assert np.array_equal(values, np.float32([value for _, value in logged]))
        settings = found.Tensors("settings")[0].tensor_proto.string_val[0].decode()
        assert "    limit = 64\n" in settings
    # Of the first replica alone the spectrum is measured. Its share of each part adds up to one.
    (density,) = accumulated(tmp_path / "board/k1").Histograms("spectral_density")
    assert density.step == 20
    assert density.histogram_value.num == pytest.approx(1, abs=1e-3)
    assert len(density.histogram_value.bucket) == len(density.histogram_value.bucket_limit) > 10
    assert "spectral_density" not in accumulated(tmp_path / "board/k3").Tags()["histograms"]


def test_a_training_is_followed_and_goes_on_after_an_interruption(tmp_path: Path, command: Callable[..., dict[str, Any]]) -> None:
    config = CONFIG.replace("metrics-every = 2", "metrics-every = 2, checkpoint-every = 10")
    (tmp_path / "config.toml").write_text(config + "logging = { tensorboard = true }\n")
    command("train", "config.toml", "--out", "run")
    board = tmp_path / "run/tensorboard"
    (file,) = (board / "k1").iterdir()
    whole = file.read_bytes()
    # While it grows: what is there up to any byte is shown.
    growing = tmp_path / "growing" / file.name
    growing.parent.mkdir()
    seen = set()
    for length in range(0, len(whole), 97):
        growing.write_bytes(whole[:length])
        if length > 100:
            found = accumulated(growing.parent)
            seen.add(len(found.Scalars("rel_l1")) if "rel_l1" in found.Tags()["scalars"] else 0)
    assert seen >= set(range(11))
    # As if it had been killed after the checkpoint of step 10.
    for path in ("checkpoints/step-00000020.safetensors", "files.json", "summary.json"):
        (tmp_path / "run" / path).unlink(missing_ok=True)
    command("train", "--out", "run", "--resume")
    for replica in ("k1", "k3"):
        assert len(list((board / replica).iterdir())) == 2
        found = accumulated(board / replica)
        assert [event.step for event in found.Scalars("rel_l1")] == list(range(0, 21, 2))
    # TensorBoard keeps histograms of before a restart; both are of the last step.
    assert {event.step for event in accumulated(board / "k1").Histograms("spectral_density")} == {20}
    command("verify", "run")


def test_a_log_of_another_program(tmp_path: Path, command: Callable[..., dict[str, Any]]) -> None:
    values = [0.1, 1e-30, float("inf"), float("nan"), -7.0]
    rows = [{"step": 10 * i, "loss": value, "eval": {"accuracy": i / 10}} for i, value in enumerate(values)]
    (tmp_path / "log.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    exported = command("export", "log.jsonl", "--tensorboard", "board", "--metric", "loss")
    assert (exported["metrics"], exported["values"]) == (1, 5)
    found = accumulated(tmp_path / "board")
    assert found.Tags()["scalars"] == ["loss"]
    assert [event.step for event in found.Scalars("loss")] == [0, 10, 20, 30, 40]
    assert np.array_equal([event.value for event in found.Scalars("loss")], np.float32(values), equal_nan=True)
    with pytest.raises(AssertionError, match="found an event file, expected a folder without event files"):
        command("export", "log.jsonl", "--tensorboard", "board")
