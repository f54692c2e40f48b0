"""``lastbit.logged``: files written by the real libraries, read bit for bit."""

import csv
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lastbit

ROWS = [
    {"step": 1, "loss": 0.1, "eval/accuracy": 1 / 3, "note": "first"},
    {"step": 2, "loss": math.nan},
    {"step": 5, "loss": -math.inf, "eval/accuracy": 5e-324},
]


def assert_equal(run: lastbit.LoggedRun, expected: dict[str, dict[int, float]]) -> None:
    """The same metrics, steps and bits."""
    assert sorted(run.metrics) == sorted(expected)
    for name, values in expected.items():
        metric = run.metrics[name]
        assert metric.steps.dtype == np.uint64 and metric.steps.tolist() == sorted(values), name
        wanted = np.array([values[step] for step in sorted(values)], dtype=np.float64)
        np.testing.assert_array_equal(metric.values, wanted, err_msg=name)


def of_rows(rows: list[dict[str, Any]]) -> dict[str, dict[int, float]]:
    """Numbers by name and step; the last one of a step counts."""
    found: dict[str, dict[int, float]] = {}
    for row in rows:
        for name, value in row.items():
            if name != "step" and isinstance(value, (int, float)):
                found.setdefault(name, {})[row["step"]] = value
    return found


def test_json_lines_of_python(tmp_path):
    path = tmp_path / "log.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    assert "NaN" in path.read_text() and "-Infinity" in path.read_text()
    run = lastbit.logged(path)
    assert_equal(run, of_rows(ROWS))
    assert run.files == [path] and run.notes == [f"{path}: left out, since it is text: note"]
    assert "loss" in str(run) and "5e-324" not in str(run.metrics["loss"])


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_tables_of_python(tmp_path, end):
    path = tmp_path / "log.csv"
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, ["step", "loss", "eval/accuracy", "note"], lineterminator=end)
        writer.writeheader()
        writer.writerows(ROWS)
    assert_equal(lastbit.logged(path), of_rows(ROWS))


def test_tables_of_pandas(tmp_path):
    pandas = pytest.importorskip("pandas")
    pandas.DataFrame(ROWS).to_csv(tmp_path / "log.csv")
    # pandas writes NaN as an empty cell: nothing was measured there.
    expected = of_rows(ROWS)
    del expected["loss"][2]
    assert_equal(lastbit.logged(tmp_path / "log.csv"), expected)


def test_metrics_and_steps_are_chosen(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("batch,loss,eval/loss,train_runtime\n3,0.5,0.25,9\n6,0.25,0.125,8\n")
    assert sorted(lastbit.logged(path, step_key="batch").metrics) == ["eval/loss", "loss"]
    assert sorted(lastbit.logged(path, metric="*loss").metrics) == ["eval/loss", "loss"]
    assert sorted(lastbit.logged(path, metric=["train_runtime"]).metrics) == ["train_runtime"]
    with pytest.raises(lastbit.InputError, match="metric: found lss, .*did you mean loss"):
        lastbit.logged(path, metric="lss")
    with pytest.raises(lastbit.InputError, match="step_key: found bach, .*did you mean batch"):
        lastbit.logged(path, step_key="bach")


def test_a_run_directory_of_ours(tmp_path, config):
    folder = lastbit.train(config, out=tmp_path / "run").folder
    told, run = lastbit.read(folder), lastbit.logged(folder)
    assert run.files == [folder / "metrics.jsonl"]
    for replica in dict.fromkeys(told.metrics["replica"].tolist()):
        rows = told.of(replica)
        for name in ("loss", "test_accuracy", "rel_l1", "epoch"):
            measured = ~np.isnan(rows[name])
            metric = run.metrics[f"{replica}/{name}"]
            np.testing.assert_array_equal(metric.steps, rows["step"][measured])
            np.testing.assert_array_equal(metric.values, rows[name][measured])
    del config["replicas"]
    one = lastbit.logged(lastbit.train(config, out=tmp_path / "one").folder)
    assert "loss" in one.metrics and not any(name.endswith("/loss") for name in one.metrics)


def accumulated(folder: Path) -> dict[str, dict[int, float]]:
    """The scalars of a folder as TensorBoard itself reads them."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from tensorboard.util import tensor_util

    own = EventAccumulator(str(folder), size_guidance={"scalars": 0, "tensors": 0})
    own.Reload()
    found = {tag: {event.step: event.value for event in own.Scalars(tag)} for tag in own.Tags()["scalars"]}
    for tag in own.Tags()["tensors"]:
        if own.SummaryMetadata(tag).plugin_data.plugin_name == "scalars":
            events = own.Tensors(tag)
            found[tag] = {event.step: float(tensor_util.make_ndarray(event.tensor_proto)) for event in events}
    return found


def test_event_files_of_pytorch(tmp_path):
    pytest.importorskip("tensorboard")
    tensorboard = pytest.importorskip("torch.utils.tensorboard")
    with tensorboard.SummaryWriter(tmp_path) as writer:
        for step in (0, 1, 300, 2**40):
            writer.add_scalar("train/loss", 1 / (3 + step), step)
            writer.add_scalar("train/new", 0.1 * step, step, new_style=True)
            writer.add_scalar("train/double", 0.1 * step, step, new_style=True, double_precision=True)
            writer.add_scalar("bad", [math.nan, math.inf, -math.inf, 0.0][step % 4], step)
        writer.add_histogram("weights", np.arange(10), 1)
        writer.add_text("note", "a text", 1)
        writer.add_image("image", np.zeros((3, 4, 4)), 1)
        writer.add_pr_curve("curve", np.array([0, 1]), np.array([0.2, 0.7]), 1)
        writer.add_hparams({"lr": 0.1}, {"hparam/loss": 0.5}, run_name="hparams")
    run = lastbit.logged(tmp_path)
    own = {name: metric for name, metric in run.metrics.items() if name != "hparam/loss"}
    told = accumulated(tmp_path)
    assert set(own) == {"train/loss", "train/new", "train/double", "bad"}
    assert_equal(lastbit.LoggedRun(own, run.files, run.notes), told)
    assert own["train/double"].values[1] == 0.1 and own["train/loss"].values[0] == np.float32(1 / 3)
    assert run.metrics["hparam/loss"].values.tolist() == [0.5]


def test_scalars_of_one_chart_are_told_apart(tmp_path):
    pytest.importorskip("tensorboard")
    tensorboard = pytest.importorskip("torch.utils.tensorboard")
    with tensorboard.SummaryWriter(tmp_path) as writer:
        writer.add_scalars("loss", {"train": 0.5, "eval": 0.25}, 1)
    run = lastbit.logged(tmp_path)
    assert {name: metric.values.tolist() for name, metric in run.metrics.items()} == {
        "loss_train/loss": [0.5],
        "loss_eval/loss": [0.25],
    }
    assert any("preceded by the name of each: loss" in note for note in run.notes)


def test_a_resumed_run_counts_as_tensorboard_counts_it(tmp_path):
    pytest.importorskip("tensorboard")
    tensorboard = pytest.importorskip("torch.utils.tensorboard")
    for session, steps, start in [("a", range(1, 9), None), ("b", range(7, 10), 5)]:
        with tensorboard.SummaryWriter(tmp_path, purge_step=start, filename_suffix=session) as writer:
            for step in steps:
                writer.add_scalar("loss", step + (0.5 if start else 0), step)
    first, second = sorted(tmp_path.iterdir(), key=lambda path: path.name[-1])
    # The names begin with the time in seconds, which may be the same.
    second.rename(tmp_path / "events.out.tfevents.9999999999.b")
    run = lastbit.logged(tmp_path)
    expected = {"loss": {step: float(step) for step in range(1, 5)} | {step: step + 0.5 for step in range(7, 10)}}
    assert_equal(run, expected)
    assert accumulated(tmp_path) == expected
    assert any("steps go back from 8 to 5" in note and "4 values" in note for note in run.notes)


@pytest.fixture
def event_file(tmp_path):
    """A small event file, by TensorBoard's own writer."""
    pytest.importorskip("tensorboard")
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.summary.writer.event_file_writer import EventFileWriter

    writer = EventFileWriter(str(tmp_path))
    for step, loss in [(1, 0.5), (2, 0.25)]:
        value = Summary.Value(tag="loss", simple_value=loss)
        writer.add_event(Event(wall_time=1.5, step=step, summary=Summary(value=[value])))
    writer.close()
    (path,) = tmp_path.iterdir()
    return path


def test_a_cut_event_file_is_read_up_to_its_last_whole_record(event_file):
    whole = event_file.read_bytes()
    values, notes = [], 0
    for length in range(len(whole) + 1):
        event_file.write_bytes(whole[:length])
        try:
            run = lastbit.logged(event_file)
        except lastbit.InputError as error:
            assert "no metrics" in str(error)
            values.append(0)
            continue
        steps = run.metrics["loss"].steps.tolist()
        assert steps == [1, 2][: len(steps)]
        assert run.metrics["loss"].values.tolist() == [0.5, 0.25][: len(steps)]
        values.append(len(steps))
        notes += any("has no end and is left out" in note for note in run.notes)
    assert values == sorted(values) and set(values) == {0, 1, 2}
    # Cut anywhere within the last record, which both events have the size of.
    assert notes == values.count(1) - 1


def test_a_changed_bit_of_an_event_file_is_refused(event_file):
    whole = event_file.read_bytes()
    for bit in range(8 * len(whole)):
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << bit % 8
        event_file.write_bytes(damaged)
        with pytest.raises(lastbit.InputError, match=rf"{event_file.name}: found a wrong checksum of the"):
            lastbit.logged(event_file)


def test_tensors_of_tensorboard(tmp_path):
    pytest.importorskip("tensorboard")
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary, SummaryMetadata
    from tensorboard.summary.writer.event_file_writer import EventFileWriter
    from tensorboard.util.tensor_util import make_tensor_proto

    scalars = SummaryMetadata(plugin_data=SummaryMetadata.PluginData(plugin_name="scalars"))
    other = SummaryMetadata(plugin_data=SummaryMetadata.PluginData(plugin_name="histograms"))
    writer = EventFileWriter(str(tmp_path))
    expected: dict[str, dict[int, float]] = {}
    for dtype in ("float16", "float32", "float64", "int8", "uint8", "int16", "uint16", "int32", "int64"):
        value = np.asarray(3).astype(dtype) / np.asarray(4).astype(dtype) if "f" in dtype else np.dtype(dtype).type(100)
        proto = make_tensor_proto(np.asarray(value, dtype=dtype))
        summary = Summary(value=[Summary.Value(tag=dtype, tensor=proto, metadata=scalars)])
        writer.add_event(Event(wall_time=1.5, step=3, summary=summary))
        expected[dtype] = {3: float(value)}
    for tag, array in [("vector", np.ones(2)), ("text", np.asarray("a"))]:
        value = Summary.Value(tag=tag, tensor=make_tensor_proto(array), metadata=scalars)
        writer.add_event(Event(wall_time=1.5, step=3, summary=Summary(value=[value])))
    value = Summary.Value(tag="other", tensor=make_tensor_proto(np.asarray(1.0)), metadata=other)
    writer.add_event(Event(wall_time=1.5, step=3, summary=Summary(value=[value])))
    writer.close()
    assert_equal(lastbit.logged(tmp_path), expected)


def test_the_trainer_of_hugging_face(tmp_path):
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("accelerate")
    pytest.importorskip("tensorboard")
    import torch_models as models

    torch.set_num_threads(1)
    ids = models.gpt2_batch(24)["input_ids"]
    rows = [{"input_ids": row, "labels": row} for row in ids]

    class WithNan(transformers.TrainerCallback):  # type: ignore[misc]
        def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, float], **_: Any) -> None:
            state.log_history.append({"step": state.global_step, "mine": math.nan})

    args = transformers.TrainingArguments(
        output_dir=str(tmp_path),
        per_device_train_batch_size=4,
        max_steps=7,
        logging_steps=1,
        eval_strategy="steps",
        eval_steps=3,
        save_strategy="steps",
        save_steps=3,
        report_to=["tensorboard"],
        disable_tqdm=True,
        use_cpu=True,
        seed=1,
    )
    trainer = transformers.Trainer(
        models.gpt2(), args, train_dataset=rows, eval_dataset=rows[:8], callbacks=[WithNan()]
    )
    trainer.train()
    history = of_rows(trainer.state.log_history)
    timed = {name for name in history if "runtime" in name or "per_second" in name}
    assert {"eval_runtime", "train_steps_per_second"} <= timed
    kept = {name: values for name, values in history.items() if name not in timed}
    # The last checkpoint, of step 7, was saved before the totals of the training were logged.
    trainer.save_state()
    run = lastbit.logged(tmp_path / "trainer_state.json")
    assert_equal(run, kept)
    assert np.isnan(run.metrics["mine"].values).all() and "NaN" in (tmp_path / "trainer_state.json").read_text()
    # With the event files beside it: the same metrics, and no second name for any of them.
    whole = lastbit.logged(tmp_path)
    beside = {name for name in whole.metrics if name not in kept}
    assert_equal(lastbit.LoggedRun({n: m for n, m in whole.metrics.items() if n in kept}, [], []), kept)
    assert not beside, beside
    assert len(whole.files) == 2 and any("event files round to 32 bits" in note for note in whole.notes)
    # Killed before the end: checkpoints alone, then with the rest from event files.
    (tmp_path / "trainer_state.json").unlink()
    for folder in tmp_path.glob("checkpoint-[67]"):
        for file in folder.iterdir():
            file.unlink()
    run = lastbit.logged(tmp_path)
    assert run.files[0] == tmp_path / "checkpoint-3" / "trainer_state.json"
    assert run.metrics["loss"].steps.tolist() == [1, 2, 3, 4, 5, 6, 7]
    np.testing.assert_array_equal(run.metrics["loss"].values[:3], [history["loss"][step] for step in (1, 2, 3)])
    rest = [float(np.float32(history["loss"][step])) for step in (4, 5, 6, 7)]
    np.testing.assert_array_equal(run.metrics["loss"].values[3:], rest)


def test_the_loggers_of_lightning(tmp_path):
    loggers = pytest.importorskip("lightning.pytorch.loggers")
    rows: list[tuple[int, dict[str, float]]] = [
        (4, {"train_loss": 0.1, "epoch": 0}),
        (9, {"train_loss": 1 / 3, "epoch": 0}),
        (9, {"val_loss": 0.7, "epoch": 0}),
        (14, {"train_loss": math.nan, "epoch": 1}),
    ]
    logger = loggers.CSVLogger(tmp_path, name="lightning_logs")
    for step, metrics in rows:
        logger.log_metrics(metrics, step)
        logger.save()
    expected = of_rows([{"step": step, **metrics} for step, metrics in rows])
    assert (tmp_path / "lightning_logs" / "version_0" / "metrics.csv").exists()
    assert_equal(lastbit.logged(tmp_path), expected)
    # A resumed training logs to a folder of its own.
    logger = loggers.CSVLogger(tmp_path, name="lightning_logs")
    logger.log_metrics({"train_loss": 0.25, "epoch": 0}, 9)
    logger.save()
    run = lastbit.logged(tmp_path)
    assert run.metrics["train_loss"].values.tolist() == [0.1, 0.25]
    assert any("read as one run that was resumed" in note for note in run.notes)
