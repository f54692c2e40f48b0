"""Stability bounds from theory, without running anything.

====================  ==============================================================================
:func:`scheme`        all stable step sizes of a linear scheme, certified (von Neumann analysis)
:func:`kernel`        stable weight decays of a one-layer network on an image
====================  ==============================================================================

Each does what ``lastbit bounds`` does.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from lastbit import _lastbit
from lastbit._arguments import PathLike, Size, data, settings, size
from lastbit._arguments import scheme as _named
from lastbit._json import loads
from lastbit._result import Result

__all__ = ["KernelBounds", "SchemeBounds", "WindowedBounds", "kernel", "scheme"]

Array = npt.NDArray[np.float64]
Rows = list[dict[str, Any]]

#: Functions here have an argument of this name.
_size = size


@dataclass(frozen=True)
class SchemeBounds(Result):
    """At which step sizes a linear scheme is stable, and how it amplifies frequencies at one of them.

    Attributes
    ----------
    scheme
        Name of the scheme.
    sentence
        The stable steps, their edges and the most amplified frequency, in words.
    kind
        ``"up-to"`` (all steps up to one edge), ``"always"``, ``"never"``, ``"intervals"`` or ``"undecided"``.
    dt_max
        Largest step shown to be stable: infinite where every step is stable, 0 where none is. None if the stable steps
        are no single interval from 0 on.
    intervals
        One row per interval of stable steps, as ``pandas.DataFrame`` takes them: ``low`` and ``high``, its ends as
        shown to be stable (0 and infinity where there is no edge); ``low_unstable`` and ``high_unstable``, the nearest
        steps beyond them shown to be unstable, otherwise None.
    undecided
        Steps about which nothing could be shown: rows with ``from``, ``to`` and ``why``.
    dt
        The step size of what follows.
    stable
        Whether the scheme is stable there; None where that could not be shown.
    most_unstable, most_unstable_amplification
        The most amplified frequency, radians per mesh point along each axis, and its factor per step.
    omega, amplification
        Frequencies in radians per mesh point, and the factor per step of each. In one dimension both have one axis; in
        two dimensions ``amplification`` has two and ``omega`` a third, for the entries of a frequency.
    settings
        The settings, complete.
    details
        All of what ``lastbit bounds scheme --json`` prints but the amplification.
    """

    scheme: str
    sentence: str = field(repr=False)
    kind: str
    dt_max: float | None
    intervals: Rows
    undecided: Rows
    dt: float
    stable: bool | None
    most_unstable: list[float]
    most_unstable_amplification: float
    omega: Array = field(repr=False)
    amplification: Array = field(repr=False)
    settings: dict[str, Any] = field(repr=False)
    details: dict[str, Any] = field(repr=False)

    def __str__(self) -> str:
        return self.sentence


def scheme(
    scheme: PathLike | Mapping[str, Any],
    *,
    dt: float | None = None,
    dx: float = 1.0,
    kappa: float = 1.0,
    lambda_: float = 1.0,
    speed: float = 1.0,
    speed_y: float = 1.0,
    mu: float = 0.9,
    z: float = 1.0,
) -> SchemeBounds:
    """Find all stable step sizes of a linear scheme.

    The steps are subdivided until each interval is proven stable (at all frequencies) or unstable (at one). An edge is
    a bracket: the largest step shown to be stable and the smallest shown to be unstable.

    Parameters
    ----------
    scheme
        A scheme of the textbook (``lastbit bounds scheme --help`` lists them), the path of a TOML file, or a dictionary
        with ``dimensions`` and ``term``: a list of dictionaries with ``level`` (1 new, 0 present, -1 before),
        ``offset`` and ``coefficient`` (a polynomial in dt, lowest power first).
    dt
        Step size at which to show the amplification. Default: the largest stable one.
    dx
        Mesh width.
    kappa
        Diffusivity.
    lambda_
        Decay.
    speed, speed_y
        Speed of advection or of waves; along y.
    mu, z
        Momentum and curvature.

    Returns
    -------
    SchemeBounds

    Examples
    --------
    >>> import lastbit
    >>> bounds = lastbit.bounds.scheme("heat", kappa=2, dt=0.3)
    >>> round(bounds.dt_max, 9), bounds.most_unstable[0] == 3.141592653589793
    (0.25, True)
    >>> euler = {"dimensions": 1, "term": [{"level": 0, "offset": [0], "coefficient": [1, -4]}]}
    >>> round(lastbit.bounds.scheme(euler).dt_max, 9)
    0.5
    """
    named, own = _named(scheme)
    given = settings(**named, dt=dt, dx=dx, kappa=kappa, lambda_=lambda_, speed=speed, speed_y=speed_y, mu=mu, z=z)
    text, columns = _lastbit.scheme_bounds(given, own)
    found = loads(text)
    bounds = found["bounds"]
    steps, most = bounds["stable_dt"], bounds["most_unstable"]
    amplification = columns.pop("amplification")
    omega = np.stack(list(columns.values()), axis=-1)
    if len(columns) == 1:
        omega = omega[:, 0]
    else:
        # Frequencies of the second axis follow one another.
        width = int(np.count_nonzero(omega[:, 0] == omega[0, 0]))
        omega, amplification = omega.reshape(-1, width, 2), amplification.reshape(-1, width)
    return SchemeBounds(
        scheme=bounds["scheme"],
        sentence=found["sentence"],
        kind=steps["kind"],
        dt_max=np.inf if steps["kind"] == "always" else steps["dt"],
        intervals=[_interval(interval) for interval in steps["intervals"]],
        undecided=steps["undecided"],
        dt=bounds["dt"],
        stable=bounds["stable"],
        most_unstable=most["omega"],
        most_unstable_amplification=most["amplification"],
        omega=omega,
        amplification=amplification,
        settings=bounds["settings"],
        details={name: value for name, value in bounds.items() if name != "amplification"},
    )


def _interval(interval: dict[str, Any]) -> dict[str, Any]:
    low, high = interval["from"], interval["to"]
    return {
        "low": 0.0 if low is None else low["stable"],
        "high": np.inf if high is None else high["stable"],
        "low_unstable": None if low is None else low.get("unstable"),
        "high_unstable": None if high is None else high.get("unstable"),
    }


@dataclass(frozen=True)
class WindowedBounds(Result):
    """Bounds for the actual kernel size, by the eigenvalues of the patch operator.

    Attributes
    ----------
    alpha_min, alpha_max
        The stable weight decays under forward Euler lie between these.
    empty
        Whether no weight decay is stable.
    eig_min, eig_max
        Smallest and largest eigenvalue of the patch operator.
    residual, products
        Largest residual of the two, and the products with the operator that it took.
    dt_max
        Largest stable step size at the weight decay that was asked for; None without one, or if no step is stable.
    """

    alpha_min: float
    alpha_max: float
    empty: bool
    eig_min: float
    eig_max: float
    residual: float
    products: int
    dt_max: float | None = None

    def __str__(self) -> str:
        return _decays(self.alpha_min, self.alpha_max, self.empty)


@dataclass(frozen=True)
class KernelBounds(Result):
    """Stable weight decays of a one-layer network on an image.

    Attributes
    ----------
    alpha_min, alpha_max
        For a kernel as large as the image, the stable weight decays under forward Euler lie between these.
    empty
        Whether no weight decay is stable.
    dt, a
        The step size, and the residual of the linear equation.
    dt_max
        Largest stable step size at the weight decay that was asked for; None without one, or if no step is stable.
    windowed
        The same for the actual kernel size.
    schemes
        One row per scheme (forward Euler, Nesterov by the paper's limit and by the exact one), as
        ``pandas.DataFrame`` takes them: ``scheme``, ``alpha_min``, ``alpha_max``, ``empty``, and these as
        ``windowed_...`` for the actual kernel size.
    amplification
        Factor per step, ``1 - dt * (alpha + q * |image at the frequency|^2)``, over the frequencies of the image: 0 to
        pi downwards, -pi to pi across.
    image_hash
        Hash of the image.
    settings
        The settings, complete.
    """

    alpha_min: float
    alpha_max: float
    empty: bool
    dt: float
    a: float
    dt_max: float | None
    windowed: WindowedBounds
    schemes: Rows = field(repr=False)
    amplification: Array = field(repr=False)
    image_hash: str = field(repr=False)
    settings: dict[str, Any] = field(repr=False)

    def __str__(self) -> str:
        whole = _decays(self.alpha_min, self.alpha_max, self.empty)
        kernel = self.settings["kernel"]
        return f"stable weight decays at dt = {self.dt:.6g}: {whole}; with the {kernel} kernel: {self.windowed}"


def _decays(alpha_min: float, alpha_max: float, empty: bool) -> str:
    return "none" if empty else f"{alpha_min:.6g} to {alpha_max:.6g}"


def kernel(
    image: npt.ArrayLike | PathLike | None = None,
    kernel: Size = (32, 32),
    *,
    dt: float = 0.001,
    mu: float = 0.9,
    alpha: float | None = None,
    a: float | None = None,
    size: Size = (256, 256),
    pooling: str = "mean",
    activation: str = "swish",
    beta: float = 1.0,
    label: float = 1.0,
    bias: float = 0.0,
    products: int = 400,
) -> KernelBounds:
    """Bound the weight decay, and the step size, of a one-layer network on an image.

    The bounds are those of the linear equation of Swish at 0.

    Parameters
    ----------
    image
        The image: an array of two dimensions, or the path of a PNG or NPY file. Default: a checkerboard of +1 and -1.
    kernel
        Rows and columns of the kernel; one number is both.
    dt
        Step size for which to bound the weight decay.
    mu
        Momentum of Nesterov's scheme.
    alpha
        Weight decay for which to bound the step size.
    a
        Residual ``yhat - y``. Default: that of an untrained network, ``sigmoid(-bias) - label``.
    size
        Rows and columns of the checkerboard.
    pooling
        ``"mean"`` or ``"sum"`` over the positions.
    activation, beta
        ``"swish"``, and its steepness.
    label, bias
        Label of the image, 0 or 1; bias of the sigmoid.
    products
        Most products with the patch operator.

    Returns
    -------
    KernelBounds

    Examples
    --------
    On a checkerboard of N x N, the largest eigenvalue is w^2 (N - w + 1)^2 for a w x w kernel:

    >>> import lastbit
    >>> bounds = lastbit.bounds.kernel(size=16, kernel=3)
    >>> round(bounds.windowed.eig_max, 6) == 3**2 * (16 - 3 + 1) ** 2
    True
    """
    given = settings(
        kernel=_size("kernel", kernel),
        dt=dt,
        mu=mu,
        alpha=alpha,
        a=a,
        size=_size("size", size),
        pooling=pooling,
        activation=activation,
        beta=beta,
        label=label,
        bias=bias,
        products=products,
    )
    text, amplification = _lastbit.kernel_bounds(data("image", image, 2), given)
    found = loads(text)
    bounds = found["bounds"]
    windowed = bounds["windowed"]
    return KernelBounds(
        alpha_min=bounds["alpha_min"],
        alpha_max=bounds["alpha_max"],
        empty=bounds["empty"],
        dt=bounds["settings"]["dt"],
        a=bounds["a"],
        dt_max=bounds.get("dt_max"),
        windowed=WindowedBounds(**windowed),
        schemes=[_row(row) for row in found["schemes"]],
        amplification=amplification,
        image_hash=bounds["image_hash"],
        settings=bounds["settings"],
    )


def _row(decays: dict[str, Any]) -> dict[str, Any]:
    windowed = {f"windowed_{name}": value for name, value in decays["windowed"].items()}
    return {"scheme": decays["scheme"], **decays["image_sized"], **windowed}
