"""PDEs with your own parameters and data, judged: stable, restrained, diverged or undecided.

====================  ==============================================================================
:func:`heat`          the heat equation on an interval
:func:`beltrami`      Beltrami reaction-diffusion of a signal or an image
:func:`scheme`        any explicit linear scheme on a periodic mesh
:func:`kernel`        a one-layer network on an image under gradient descent, or a linear equation of it
====================  ==============================================================================

Each does what ``lastbit pde`` does, with the same bits, in memory; with ``out`` it also writes the command's record.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from lastbit import _lastbit
from lastbit._arguments import PathLike, Size, data, settings, size
from lastbit._arguments import scheme as _named
from lastbit._json import loads
from lastbit._progress import Progress, Shower
from lastbit._result import Result

__all__ = ["PdeResult", "beltrami", "heat", "kernel", "scheme"]

Array = npt.NDArray[np.float64]
Data = npt.ArrayLike | PathLike
Show = bool | Callable[[Progress], object]

#: Functions here have an argument of this name.
_size = size


@dataclass(frozen=True)
class PdeResult(Result):
    """A run of a PDE, and the verdict on its stability.

    Attributes
    ----------
    verdict
        ``"stable"``, ``"restrained"`` (bounded, but it never settles), ``"diverged"`` or ``"undecided"``.
    sentence
        The verdict with its evidence, in words.
    growth_per_step
        Growth rate of a perturbed copy (finite-time Lyapunov exponent) over the second half of the run.
    standard_error
        Standard error of ``growth_per_step``.
    resolution
        Growth per step that cannot be told from a transient in this many steps.
    unstable_share
        Share of the later steps at which the energy did not fall.
    reason, remedy
        Why the verdict is undecided, and what would decide it; otherwise None.
    diverged_at
        First step beyond the bound, of a run that diverged.
    steps
        Steps that were run; growing runs are continued beyond those asked for.
    dt
        Step size.
    dt_max
        Largest stable step size in closed form; None where there is none.
    numbers
        Closed forms, and what was measured at the end, by name.
    hash
        Hash of the bits of the final state.
    x
        Mesh points of a run on a line; otherwise None.
    snapshots
        The state at some steps, by step: arrays of one or two dimensions. The time is ``step * dt``. A run that
        diverged has one at ``diverged_at``.
    curves
        What was measured along the run, by name, over ``curves["step"]``.
    twin
        Distance of a copy perturbed by one ulp: ``step``, ``distance``, ``rel_l1``, ``max_ulps``.
    sharpness
        Of a kernel, the sharpness along the run: ``step``, ``lambda_max``, ``normalized`` (unstable above 2) and
        others.
    regimes
        Of the network, the regime of each position at the end: -1 not activated, 0 transitioning, 1 activated.
    settings
        The settings, complete.
    folder
        Folder of the record, if one was written.
    """

    verdict: str
    sentence: str
    growth_per_step: float
    standard_error: float
    resolution: float
    unstable_share: float
    reason: str | None
    remedy: str | None
    diverged_at: int | None
    steps: int
    dt: float
    dt_max: float | None
    numbers: dict[str, float] = field(repr=False)
    hash: str
    x: Array | None = field(repr=False)
    snapshots: dict[int, Array] = field(repr=False)
    curves: dict[str, Array] = field(repr=False)
    twin: dict[str, Array] = field(repr=False)
    sharpness: dict[str, Array] = field(repr=False)
    regimes: Array | None = field(repr=False)
    settings: dict[str, Any] = field(repr=False)
    folder: Path | None = None

    def __str__(self) -> str:
        bound = "" if self.dt_max is None else f" Largest stable step in closed form: {self.dt_max:.6g}."
        return f"dt = {self.dt:.6g}: {self.sentence}{bound}"


def heat(
    initial: Data | None = None,
    *,
    dt: float = 0.4,
    dx: float = 1.0,
    kappa: float = 1.0,
    ends: str = "dirichlet",
    points: int = 31,
    height: float = 1.5,
    steps: int = 2000,
    times: Sequence[float] | None = None,
    precision: str = "f64",
    out: PathLike | None = None,
    fresh: bool = False,
    progress: Show = True,
) -> PdeResult:
    """Run and judge the heat equation on an interval: explicit Euler, three-point stencil.

    It is stable up to ``dt = dx**2 / (2 * kappa)``.

    Parameters
    ----------
    initial
        Initial profile: an array of one dimension, or the path of a CSV or NPY file. Default: a triangle.
    dt
        Step size.
    dx
        Mesh width.
    kappa
        Diffusivity.
    ends
        ``"dirichlet"`` (held), ``"neumann"`` (no flux) or ``"periodic"``.
    points, height
        Mesh points and height of the triangle.
    steps
        Steps to run, at least 64; growing runs are continued up to 20 times.
    times
        Times at which to keep the profile, each at the nearest step. Default: six, evenly spaced.
    precision
        ``"f64"`` or ``"f32"``.
    out
        Folder of records: the run is written there as ``lastbit pde heat`` does, or taken from there. Default: none.
    fresh
        Whether to compute again what is in ``out``.
    progress
        Whether to show a line on stderr while it runs; or a function that is called with a :class:`Progress`.

    Returns
    -------
    PdeResult

    Examples
    --------
    >>> import lastbit
    >>> [lastbit.pde.heat(dt=dt, steps=500).verdict for dt in (0.49, 0.51)]
    ['stable', 'diverged']
    """
    given = settings(
        dt=dt,
        dx=dx,
        kappa=kappa,
        ends=ends,
        points=points,
        height=height,
        steps=steps,
        times=times,
        precision=precision,
    )
    with Shower(progress) as shower:
        return _result(_lastbit.heat(data("initial", initial, 1), given, (out, fresh, shower.show)))


def beltrami(
    signal: Data | None = None,
    *,
    overdrive: float | None = None,
    dt: float | None = None,
    dx: float = 1.0,
    delta: float = 0.01,
    lambda_: float = 1.0,
    dimensions: int = 1,
    points: int = 256,
    size: Size = (64, 64),
    noise: float = 0.05,
    seed: int = 1,
    steps: int = 4000,
    snapshots: Sequence[int] | None = None,
    precision: str = "f64",
    out: PathLike | None = None,
    fresh: bool = False,
    progress: Show = True,
) -> PdeResult:
    """Run and judge Beltrami reaction-diffusion of a signal or an image.

    Beyond the sharp bound the run is restrained: it stays bounded and never settles.

    Parameters
    ----------
    signal
        The data, also the initial state: an array of one dimension (a signal) or of two (a grey image), or the path
        of a CSV, NPY or PNG file. Default: a noisy test signal or image.
    overdrive
        Time step as a multiple of the sharp bound ``2 / (lambda_ + 4 * d / (delta * dx**2))``, with d dimensions.
        Default: 10, if there is no ``dt``.
    dt
        Time step.
    dx
        Mesh width.
    delta
        Gradient below which the diffusion is linear.
    lambda_
        Weight of the data term.
    dimensions
        1 for a test signal, 2 for a test image.
    points, size
        Points of that signal; rows and columns of that image.
    noise, seed
        Standard deviation of the noise on it, and its seed.
    steps
        Steps to run, at least 64; growing runs are continued up to 20 times.
    snapshots
        Steps at which to keep the state. Default: two, late in the run.
    precision, out, fresh, progress
        As for :func:`heat`.

    Returns
    -------
    PdeResult

    Examples
    --------
    >>> import lastbit
    >>> [lastbit.pde.beltrami(overdrive=factor, steps=1000).verdict for factor in (0.9, 10)]
    ['stable', 'restrained']
    """
    given = settings(
        overdrive=overdrive,
        dt=dt,
        dx=dx,
        delta=delta,
        lambda_=lambda_,
        dimensions=dimensions,
        points=points,
        size=_size("size", size),
        noise=noise,
        seed=seed,
        steps=steps,
        snapshots=snapshots,
        precision=precision,
    )
    with Shower(progress) as shower:
        return _result(_lastbit.beltrami(data("signal", signal, 1, 2), given, (out, fresh, shower.show)))


def scheme(
    scheme: PathLike | Mapping[str, Any],
    *,
    dt: float = 0.1,
    dx: float = 1.0,
    kappa: float = 1.0,
    lambda_: float = 1.0,
    speed: float = 1.0,
    speed_y: float = 1.0,
    mu: float = 0.9,
    z: float = 1.0,
    initial: Data | None = None,
    points: int = 64,
    size: Size = (32, 32),
    steps: int = 2000,
    precision: str = "f64",
    out: PathLike | None = None,
    fresh: bool = False,
    progress: Show = True,
) -> PdeResult:
    """Run and judge an explicit linear scheme on a periodic mesh.

    Parameters
    ----------
    scheme, dx, kappa, lambda_, speed, speed_y, mu, z
        The scheme and its parameters, as for :func:`lastbit.bounds.scheme`.
    dt
        Step size.
    initial
        Initial state: an array of as many dimensions as the scheme has, or the path of a CSV, NPY or PNG file.
        Default: a noisy test signal or image.
    points, size
        Points of that signal; rows and columns of that image.
    steps
        Steps to run, at least 64; growing runs are continued up to 20 times.
    precision, out, fresh, progress
        As for :func:`heat`.

    Returns
    -------
    PdeResult

    Examples
    --------
    >>> import lastbit
    >>> run = lastbit.pde.scheme("advection-upwind", dt=1.01, steps=500)
    >>> run.verdict, run.dt_max
    ('diverged', 1.0)
    """
    named, own = _named(scheme)
    given = settings(
        **named,
        dt=dt,
        dx=dx,
        kappa=kappa,
        lambda_=lambda_,
        speed=speed,
        speed_y=speed_y,
        mu=mu,
        z=z,
        points=points,
        size=_size("size", size),
        steps=steps,
        precision=precision,
    )
    with Shower(progress) as shower:
        return _result(_lastbit.scheme_run(own, data("initial", initial, 1, 2), given, (out, fresh, shower.show)))


def kernel(
    image: Data | None = None,
    kernel: Size = (32, 32),
    *,
    dt: float = 0.03,
    alpha: float = 20.0,
    mu: float | None = None,
    equation: str = "non-linear",
    a: float = -0.5,
    size: Size = (256, 256),
    pooling: str = "mean",
    activation: str = "swish",
    beta: float = 1.0,
    label: float = 1.0,
    bias: float = 0.0,
    no_window: bool = False,
    k: float = 3.0,
    form: str = "paper",
    initial: Data | None = None,
    seed: int = 1,
    steps: int = 1000,
    sharpness_every: int = 10,
    snapshots: Sequence[int] | None = None,
    precision: str = "f64",
    out: PathLike | None = None,
    fresh: bool = False,
    progress: Show = True,
) -> PdeResult:
    """Run and judge gradient descent on the kernel of a one-layer network, or on one of its linear equations.

    Beside it runs a copy whose steps are rounded as ``(dt/k)(k g)``.

    Parameters
    ----------
    image
        The image: an array of two dimensions, or the path of a PNG or NPY file. Default: a checkerboard of +1 and -1.
    kernel
        Rows and columns of the kernel; one number is both.
    dt
        Step size.
    alpha
        Weight decay.
    mu
        Momentum: Nesterov's scheme instead of forward Euler.
    equation
        ``"non-linear"`` (the network itself), ``"linear"``, ``"linear-residual"``, ``"activated"`` or
        ``"not-activated"``.
    a
        Residual of the linear equation.
    size
        Rows and columns of the checkerboard.
    pooling
        ``"mean"`` or ``"sum"`` over the positions.
    activation, beta
        ``"swish"`` with its steepness ``beta``, ``"relu"``, ``"tanh"`` or ``"sigmoid"``.
    label, bias
        Label of the image, 0 or 1; bias of the sigmoid.
    no_window
        Whether the kernel is as large as the image, and periodic.
    k, form
        Factor of the perturbed copy, and where it stands: ``"paper"`` or another form of ``lastbit pde kernel --help``.
    initial
        Initial kernel: an array, or the path of a file. Default: normal, from ``seed``.
    seed
        Seed of the initial kernel.
    steps
        Steps to run, at least 64; growing runs are continued up to 20 times.
    sharpness_every
        Steps between two measurements of the sharpness; 0 for none.
    snapshots
        Steps at which to keep the kernel. Default: five at the end.
    precision, out, fresh, progress
        As for :func:`heat`.

    Returns
    -------
    PdeResult

    Examples
    --------
    >>> import lastbit
    >>> run = lastbit.pde.kernel(size=32, kernel=8, dt=0.03, steps=200)
    >>> run.verdict, run.snapshots[200].shape, run.curves["loss"][-1] < run.curves["loss"][0]
    ('stable', (8, 8), np.True_)
    """
    given = settings(
        kernel=None if no_window else _size("kernel", kernel),
        dt=dt,
        alpha=alpha,
        mu=mu,
        equation=equation,
        a=a,
        size=_size("size", size),
        pooling=pooling,
        activation=activation,
        beta=beta,
        label=label,
        bias=bias,
        no_window=no_window,
        k=k,
        form=form,
        seed=seed,
        steps=steps,
        sharpness_every=sharpness_every,
        snapshots=snapshots,
        precision=precision,
    )
    with Shower(progress) as shower:
        found = _lastbit.kernel(data("image", image, 2), data("initial", initial, 2), given, (out, fresh, shower.show))
        return _result(found)


def _result(found: dict[str, Any]) -> PdeResult:
    told = loads(found["told"])
    verdict, series = told["verdict"], found["series"]
    return PdeResult(
        verdict=verdict["kind"],
        sentence=told["sentence"],
        growth_per_step=verdict["growth_per_step"],
        standard_error=verdict["growth_standard_error"],
        resolution=verdict["resolution"],
        unstable_share=verdict["unstable_share"],
        reason=told["reason"],
        remedy=told["remedy"],
        diverged_at=verdict["diverged_at"],
        steps=verdict["steps"],
        dt=told["dt"],
        dt_max=told["dt_max"],
        numbers=told["numbers"],
        hash=told["hash"],
        x=series.get("profiles", {}).get("x"),
        snapshots=found["snapshots"],
        curves=series["curves"],
        twin=series.get("twin", {}),
        sharpness=series.get("sharpness", {}),
        regimes=found["fields"].get("regimes"),
        settings=told["settings"],
        folder=None if told["folder"] is None else Path(told["folder"]),
    )
