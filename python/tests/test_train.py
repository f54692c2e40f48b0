"""``lastbit.train`` and ``lastbit.read``: the command's bits, Ctrl-C, threads."""

import json
import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import lastbit

TOML = """
[data]
name = "mnist01"
limit = 160
test-limit = 40
[network]
kind = "mlp"
hidden = [16]
activation = "tanh"
[optimizer]
name = "sgd"
lr = 0.1
[training]
epochs = 3
batch = 16
metrics-every = 5
[replicas]
k = [1, 3, 4]
"""


def test_the_bits_are_those_of_the_command(tmp_path, command, config):
    (tmp_path / "config.toml").write_text(TOML)
    told = command("train", "config.toml", "--out", "told")
    of_file = lastbit.train(tmp_path / "config.toml", out=tmp_path / "file", progress=False)
    of_dict = lastbit.train(config, out=tmp_path / "dict", progress=False)
    hashes = [replica["hash"] for replica in told["replicas"]]
    for result in (of_file, of_dict):
        assert [replica["hash"] for replica in result.replicas] == hashes
        assert (result.hash, result.steps, result.folder.is_dir()) == (hashes[0], 30, True)
        assert result.summary["replicas"] == told["replicas"]
    assert (tmp_path / "dict/metrics.jsonl").read_bytes() == (tmp_path / "told/metrics.jsonl").read_bytes()
    assert hashes[0] in str(of_dict) and str(of_dict.folder) in of_dict._repr_html_()


def test_settings_can_be_changed(tmp_path, config):
    slower = {**config, "optimizer": {"name": "sgd", "lr": 0.05}}
    expected = lastbit.train(slower, out=tmp_path / "0", progress=False).hash
    for i, change in enumerate([{"optimizer.lr": 0.05}, {"optimizer": {"lr": np.float64(0.05)}}]):
        assert lastbit.train(config, out=tmp_path / f"{i + 1}", set=change, progress=False).hash == expected


def test_wrong_settings_are_refused(tmp_path, config):
    for change, message in [
        ({"optimizer.lr": -1.0}, "optimizer"),
        ({"data.name": "nothing-like-it"}, "no such data set"),
        ({"training.size": 3}, "unknown field `size`"),
    ]:
        with pytest.raises(lastbit.InputError, match=message):
            lastbit.train(config, out=tmp_path / "run", set=change, progress=False)
    with pytest.raises(lastbit.InputError, match="device: found tpu, expected one of"):
        lastbit.train(config, out=tmp_path / "run", device="tpu")
    with pytest.raises(lastbit.InputError, match="CONFIG: found none"):
        lastbit.train(out=tmp_path / "run")
    lastbit.train(config, out=tmp_path / "run", progress=False)
    with pytest.raises(lastbit.InputError, match="found a run, expected a folder without one; resume continues"):
        lastbit.train(config, out=tmp_path / "run", progress=False)


def test_a_run_directory_is_read_as_columns(tmp_path, config):
    result = lastbit.train(config, out=tmp_path / "run", progress=False)
    run = lastbit.read(result.folder)
    rows = [json.loads(line) for line in (tmp_path / "run/metrics.jsonl").read_text().splitlines()]
    assert run.metrics["step"].dtype == np.int64 and run.metrics["loss"].dtype == np.float64
    assert run.metrics["step"].tolist() == [row["step"] for row in rows]
    assert run.metrics["rel_l1"].tolist() == [row["rel_l1"] for row in rows]
    own = run.of("k3")
    assert set(own["replica"].tolist()) == {"k3"} and own["rel_l1"][-1] > 0
    assert run.summary == result.summary and run.settings["optimizer"]["name"] == "sgd"
    assert "finished" in str(run)
    with pytest.raises(lastbit.InputError, match="replica: found k9, expected one of k1, k3, k4"):
        run.of("k9")
    with pytest.raises(lastbit.InputError, match="expected a run directory"):
        lastbit.read(tmp_path)


def test_other_python_threads_run_meanwhile(tmp_path, config):
    config["training"] = {"steps": 500, "batch": 16, "metrics-every": 1000}
    counts, done = [0], threading.Event()

    def count():
        while not done.wait(0.001):
            counts[0] += 1

    thread = threading.Thread(target=count)
    thread.start()
    seen: list[lastbit.Progress] = []
    before, started = counts[0], time.monotonic()
    lastbit.train(config, out=tmp_path / "run", progress=seen.append)
    seconds = time.monotonic() - started
    during = counts[0] - before
    done.set()
    thread.join()
    # A thousand a second if nothing holds it up; with the GIL held it would be none.
    assert during > 20 * seconds, (during, seconds)
    assert seen and seen[-1].label == "train" and seen[-1].total == 500
    assert all(a.done <= b.done for a, b in zip(seen, seen[1:]))


def test_an_exception_of_the_progress_function_stops_the_run_at_a_checkpoint(tmp_path, config):
    config["training"] = {"steps": 200_000, "batch": 16, "metrics-every": 1000}

    def stop(progress):
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        lastbit.train(config, out=tmp_path / "run", progress=stop)
    assert any((tmp_path / "run/checkpoints").iterdir())


# A shell may have had SIGINT ignored, which processes inherit.
SCRIPT = """
import json, signal, sys, lastbit
signal.signal(signal.SIGINT, signal.default_int_handler)
config, out = json.loads(sys.argv[1]), sys.argv[2]
print("started", flush=True)
try:
    lastbit.train(config, out=out, progress=False)
except KeyboardInterrupt as stopped:
    print(stopped)
    sys.exit(130)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGINT to send to another process")
def test_ctrl_c_saves_a_checkpoint_and_a_resumed_run_has_the_same_bits(tmp_path, config):
    config["training"] = {"steps": 2000, "batch": 16, "metrics-every": 1000}
    out = tmp_path / "run"
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, json.dumps(config), str(out)], stdout=subprocess.PIPE, text=True, env=os.environ
    )
    # The run has begun when its settings are there.
    while not (out / "config.toml").exists():
        assert process.poll() is None
        time.sleep(0.001)
    process.send_signal(signal.SIGINT)
    sent = time.monotonic()
    told, _ = process.communicate(timeout=60)
    # A step takes well below a millisecond; the rest is writing a checkpoint, on a machine that may be busy.
    assert time.monotonic() - sent < 10
    assert process.returncode == 130, told
    assert "Interrupted after step" in told and "of 2000, saved" in told and "resume=True" in told
    assert not (out / "summary.json").exists()
    resumed = lastbit.train(out=out, resume=True, progress=False)
    whole = lastbit.train(config, out=tmp_path / "whole", progress=False)
    assert [row["hash"] for row in resumed.replicas] == [row["hash"] for row in whole.replicas]


def test_progress_is_one_line_on_stderr_of_work_that_takes_a_while(capsys, monkeypatch):
    from lastbit import _progress

    clock = [0.0]
    monkeypatch.setattr(_progress.time, "monotonic", lambda: clock[0])
    status = {"step": 5, "train_loss": 0.25, "test_accuracy": None, "rel_l1": 1e-7}
    with _progress.Shower(True) as shower:
        assert shower.show is not None
        for clock[0] in (0.5, 1.1, 1.2):
            shower.show("train", 50, 100, status, ["waiting"] if clock[0] == 0.5 else [])
    told = capsys.readouterr().err
    assert told.startswith("waiting\n\rtrain: 50 % (50 of 100), loss 0.2500, RelL1 1.0e-07")
    assert told.count("train:") == 1 and told.endswith("\r")
    with _progress.Shower(False) as shower:
        assert shower.show is None
