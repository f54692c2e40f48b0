"""Training runs."""

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lastbit import _lastbit
from lastbit._json import loads, table
from lastbit._progress import Progress, Shower
from lastbit._result import Result

PathLike = str | os.PathLike[str]


@dataclass(frozen=True)
class TrainResult(Result):
    """A finished training run.

    Attributes
    ----------
    folder
        The run directory; :func:`lastbit.read` reads its metrics.
    data
        Name of the data set.
    parameters
        Number of parameters of the network.
    steps, steps_planned
        Steps done, and steps asked for; fewer are done where all replicas diverged.
    hash
        Hash of the parameters of the first replica: equal for bit-identical weights.
    replicas
        One row per replica with its last metrics, as ``pandas.DataFrame`` takes them: ``replica``, ``train_loss``,
        ``test_loss``, ``test_accuracy``, and the distance from the first replica: ``rel_l1``, ``max_ulps``,
        ``agreeing_bits``, ``distance``, ``growth_per_step``; ``diverged`` (step) and ``hash``.
    summary
        All of the run's ``summary.json``.
    """

    folder: Path
    data: str
    parameters: int
    steps: int
    steps_planned: int
    hash: str | None
    replicas: list[dict[str, Any]] = field(repr=False)
    summary: dict[str, Any] = field(repr=False)

    def __str__(self) -> str:
        columns = {"replica": "replica", "train_loss": "train loss", "test_loss": "test loss"}
        columns |= {"test_accuracy": "test accuracy", "rel_l1": "RelL1", "max_ulps": "ulps"}
        columns |= {"growth_per_step": "growth/step", "diverged": "diverged", "hash": "hash"}
        head = f"{self.data}: {self.steps} of {self.steps_planned} steps, {self.parameters} parameters; "
        return f"{head}run directory {self.folder}\n{table(self.replicas, columns)}"


def train(
    config: PathLike | Mapping[str, Any] | None = None,
    *,
    out: PathLike | None = None,
    resume: bool = False,
    fork: PathLike | None = None,
    set: Mapping[str, Any] | None = None,
    device: str | None = None,
    data: PathLike | None = None,
    progress: bool | Callable[[Progress], object] = True,
) -> TrainResult:
    """Train replicas of a network that differ in rounding or a seed, bit for bit as ``lastbit train`` does.

    Ctrl-C saves a checkpoint and raises KeyboardInterrupt, whose message says how to resume. A resumed run is
    bit-identical to one without interruption. Other Python threads run meanwhile.

    Parameters
    ----------
    config
        The settings: the path of a TOML file, or a dictionary with the same keys
        (``print(lastbit.example_config())`` shows them all). May be left out with ``resume`` or ``fork``.
    out
        Run directory. Default: ``lastbit-out/train/NAME`` with the name of the file, or ``config`` for a dictionary.
    resume
        Continue the run in ``out`` from its last checkpoint; start one if there is none.
    fork
        Start a new run from this checkpoint.
    set
        Changes to the settings, such as ``{"optimizer.lr": 0.05}`` or ``{"optimizer": {"lr": 0.05}}``.
    device
        ``"cpu"`` or ``"cuda"``; short for ``set={"training.device": ...}``.
    data
        Folder of the data sets. Default: that of the command.
    progress
        Whether to show a line on stderr while it runs; or a function that is called with a :class:`Progress`.

    Returns
    -------
    TrainResult

    Examples
    --------
    >>> import lastbit, tempfile
    >>> config = {
    ...     "data": {"name": "mnist01", "limit": 64, "test-limit": 16},
    ...     "network": {"kind": "mlp", "hidden": [8], "activation": "tanh"},
    ...     "optimizer": {"name": "sgd", "lr": 0.1},
    ...     "training": {"steps": 20, "batch": 16},
    ...     "replicas": {"k": [1, 3, 4]},
    ... }
    >>> with tempfile.TemporaryDirectory() as out:
    ...     result = lastbit.train(config, out=out + "/run")
    >>> [row["rel_l1"] > 0 for row in result.replicas]
    [False, True, False]
    """
    path, settings = source(config)
    with Shower(progress) as shower:
        folder, text = _lastbit.train(
            path,
            settings,
            out=out,
            resume=resume,
            fork=fork,
            set=changes(set or {}),
            device=device,
            data=data,
            show=shower.show,
        )
    summary = loads(text)
    replicas = [replica for replica in summary["replicas"] if replica is not None]
    return TrainResult(
        folder=Path(folder),
        data=summary["data"],
        parameters=summary["parameters"],
        steps=summary["steps"],
        steps_planned=summary["steps_planned"],
        hash=replicas[0]["hash"] if replicas else None,
        replicas=replicas,
        summary=summary,
    )


def example_config() -> str:
    """Return a commented configuration of a training, with every key.

    Returns
    -------
    str
        The configuration as TOML, as ``lastbit train --example`` prints it.

    Examples
    --------
    >>> import lastbit, tomllib
    >>> sorted(tomllib.loads(lastbit.example_config()))
    ['data', 'logging', 'loss', 'network', 'optimizer', 'replicas', 'sharpness', 'training']
    """
    return _lastbit.example_config()


def source(config: PathLike | Mapping[str, Any] | None) -> tuple[str | None, str | None]:
    """The path of a configuration, or its settings as JSON."""
    if isinstance(config, Mapping):
        return None, json.dumps(_given(config), default=_number)
    return (None if config is None else os.fspath(config)), None


def changes(set: Mapping[str, Any], prefix: str = "") -> list[str]:
    """Changes to settings as ``section.key=value``, the value as TOML has it."""
    found = []
    for key, value in set.items():
        if isinstance(value, Mapping):
            found += changes(value, f"{prefix}{key}.")
        else:
            # Of numbers, strings, booleans and lists of them, JSON is TOML.
            found.append(f"{prefix}{key}={json.dumps(value, default=_number, ensure_ascii=False)}")
    return found


def _given(value: Any) -> Any:
    """Settings without those that are None, which TOML cannot say."""
    if isinstance(value, Mapping):
        return {str(key): _given(item) for key, item in value.items() if item is not None}
    return [_given(item) for item in value] if isinstance(value, (list, tuple)) else value


def _number(value: Any) -> Any:
    """A numpy number as Python's own, an array as a list, a path as text."""
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"{value!r} is no setting: expected numbers, text, booleans, lists and dictionaries")
