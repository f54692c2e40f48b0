"""The extension: what the package calls. Use the functions of ``lastbit`` instead."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

__version__: str

_Path = str | os.PathLike[str]
_Show = Callable[[str, int, int, dict[str, Any] | None, list[str]], None]
_Pair = tuple[float, float, Any]
_Array = npt.NDArray[np.float64]
_Data = str | _Array | None
_Options = tuple[_Path | None, bool, _Show | None]
_Run = str | Sequence[tuple[str, Sequence[int], Sequence[float]]]
_Tensor = tuple[str, str, list[int], npt.NDArray[np.uint8]]

def hash_of_bytes(arrays: Sequence[npt.NDArray[np.uint8]]) -> list[str]: ...
def below(seed: int, stream: int, counter: int, bound: int) -> int: ...
def command(arguments: Sequence[str]) -> int: ...
def judge(
    step: Callable[[npt.NDArray[Any], int], npt.NDArray[Any]],
    x0: npt.NDArray[Any],
    *,
    steps: int,
    at_most: int,
    dt: float,
    energy: Callable[[npt.NDArray[Any]], float] | None,
    is_linear: bool,
    scale: float,
    linear_range: float,
) -> dict[str, Any]: ...
def eigenpairs(
    space: Any,
    multiply: Callable[[Any], Any],
    known: Sequence[Any],
    *,
    top: int,
    smallest: bool,
    tolerance: float,
    max_matvecs: int,
    probe: int | None,
) -> tuple[list[_Pair], _Pair | None, Any | None, int]: ...
def attribution(
    space: Any,
    multiply: Callable[[Any], Any],
    starts: Sequence[Any],
    *,
    products: int,
    optimizer: str,
    momentum: float,
    gain: float,
    decay: float,
    squares: tuple[float, float],
    preconditioner: float,
    rounding: float,
) -> dict[str, Any] | None: ...
def stability_threshold(optimizer: str, momentum: float) -> float: ...
def noise(
    table: list[str] | list[tuple[str, list[tuple[str | None, float]]]],
    *,
    metric: str | None,
    at: str,
    level: float,
    power: float,
    gain: float | None,
    lower_is_better: bool,
    below: float | None,
    above: float | None,
    equivalent: float | None,
    plan: int | None,
    boundary: str,
    rounding: Sequence[str],
    compare: Sequence[str] | None,
    pairs: bool,
    grid: bool,
    resamples: int,
    seed: int,
) -> str: ...
def check(
    run: _Run, envelope: str, level: float, metrics: Sequence[str], step_key: str | None
) -> str: ...
def envelope_of(
    runs: Sequence[tuple[str, _Run]], metrics: Sequence[str], step_key: str | None, perturbation: str
) -> str: ...
def envelope_widened(envelope: str, runs: Sequence[tuple[str, _Run]]) -> str: ...
def envelope_open(path: _Path) -> str: ...
def envelope_save(envelope: str, path: _Path) -> None: ...
def diff(a: str | list[_Tensor], b: str | list[_Tensor], only: str | None) -> str: ...
def logged(
    path: _Path, metric: Sequence[str], step_key: str | None
) -> tuple[list[tuple[str, npt.NDArray[np.uint64], _Array]], list[Path], list[str]]: ...
def example_config() -> str:
    """A commented configuration of a training (TOML)."""

def train(
    config: _Path | None,
    settings: str | None,
    *,
    out: _Path | None,
    resume: bool,
    fork: _Path | None,
    set: Sequence[str],
    device: str | None,
    data: _Path | None,
    show: _Show | None,
) -> tuple[_Path, str]: ...

class ProbeRun:
    def __init__(self, out: _Path, settings: str, *, resume: bool) -> None: ...
    def resume_at(self, step: int) -> tuple[float, float]: ...
    def append(self, row: str, fingerprint: str | None) -> None: ...
    def finish(self, elapsed: float, measuring: float) -> str: ...
    def close(self) -> None: ...
def edge(
    config: _Path | None,
    settings: str | None,
    *,
    over: str,
    property: str | None,
    from_: float | None,
    to: float | None,
    tolerance: float,
    steps: int | None,
    at_most: int | None,
    seeds: Sequence[int],
    repeats: int,
    twins: bool,
    set: Sequence[str],
    device: str | None,
    data: _Path | None,
    out: _Path,
    fresh: bool,
    show: _Show | None,
) -> str: ...
def envelope_of_program(
    command: Sequence[str],
    *,
    runs: int,
    kind: str,
    launcher: bool,
    files: Sequence[str],
    metrics: Sequence[str],
    step_key: str | None,
    jobs: int,
    timeout: float | None,
    keep_going: bool,
    out: _Path,
    fresh: bool,
    show: _Show | None,
) -> str: ...
def envelope_of_training(
    config: _Path | None,
    settings: str | None,
    *,
    runs: int,
    set: Sequence[str],
    device: str | None,
    data: _Path | None,
    metrics: Sequence[str],
    step_key: str | None,
    out: _Path,
    fresh: bool,
    show: _Show | None,
) -> str: ...
def scheme_bounds(settings: str, own: str | None) -> tuple[str, dict[str, _Array]]: ...
def kernel_bounds(image: _Data, settings: str) -> tuple[str, _Array]: ...
def heat(initial: _Data, settings: str, options: _Options) -> dict[str, Any]: ...
def beltrami(signal: _Data, settings: str, options: _Options) -> dict[str, Any]: ...
def scheme_run(own: str | None, initial: _Data, settings: str, options: _Options) -> dict[str, Any]: ...
def kernel(image: _Data, initial: _Data, settings: str, options: _Options) -> dict[str, Any]: ...
def run(ids: Sequence[str], scale: str, device: str, out: _Path, fresh: bool, show: _Show | None) -> str: ...
def verify(folder: _Path, show: _Show | None) -> str: ...
def report(folder: _Path, out: _Path | None) -> tuple[_Path, list[str]]: ...
