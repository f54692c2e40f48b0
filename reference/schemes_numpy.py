"""Largest stable steps of the textbook's linear schemes, by numpy and scipy, as a second opinion.

    python reference/schemes_numpy.py    # writes crates/lastbit/tests/golden/stable_dt.json

No stencil is used. The space operators are written as functions of the frequency, the time integrators
by their stability polynomials:

    forward Euler       |1 + dt l| <= 1  iff  dt <= -2 Re l/|l|^2, so the limit is a minimum over the
                        frequencies of a quotient that needs no tolerance; long waves are included
    Lax-Friedrichs      |mean|^2 + dt^2 |v|^2 <= 1, likewise a minimum of a quotient
    all others          bisection of the step at which the largest root over a dense set of frequencies
                        exceeds 1 by 1e-11

Minima over the frequencies are polished by scipy.
"""

import json
from pathlib import Path

import numpy as np
import scipy.optimize

GOLDEN = Path(__file__).resolve().parent.parent / "crates" / "lastbit" / "tests" / "golden"

# From waves of a million points to those of two; pi itself is the last.
OMEGAS = np.unique(
    np.concatenate([np.geomspace(1e-6, np.pi, 2000), np.linspace(1e-3, np.pi, 4001), [np.pi / 2]])
)

SETS = [
    dict(dx=1.0, kappa=1.0, lam=1.0, speed=1.0, speed_y=1.0, mu=0.9, z=1.0),
    dict(dx=0.3, kappa=0.7, lam=2.5, speed=1.7, speed_y=-0.4, mu=0.5, z=3.0),
    dict(dx=1.0, kappa=0.1, lam=0.1, speed=1.0, speed_y=0.2, mu=0.0, z=140.0),
    dict(dx=1.0, kappa=1e-4, lam=0.1, speed=10.0, speed_y=3.0, mu=0.99, z=1e-3),
]


def half_sine(w):
    return np.sin(w / 2) ** 2


def diffusion(p, w):
    return -4 * p["kappa"] / p["dx"] ** 2 * half_sine(w)


def diffusion_4(p, w):
    """(-1, 16, -30, 16, -1)/12."""
    return -p["kappa"] / p["dx"] ** 2 / 12 * (64 * half_sine(w) - 4 * half_sine(2 * w))


def centred(p, w, speed="speed"):
    return -1j * p[speed] / p["dx"] * np.sin(w)


def polished(quotient, dimensions):
    """The least value of a function of the frequencies."""
    if dimensions == 1:
        values = quotient(OMEGAS)
        i = int(np.argmin(values))
        low, high = OMEGAS[max(i - 1, 0)], OMEGAS[min(i + 1, len(OMEGAS) - 1)]
        found = scipy.optimize.minimize_scalar(quotient, bounds=(low, high), method="bounded")
        return min(values[i], found.fun)
    # Polar: long waves in all directions, and the rest of the square.
    radius = np.geomspace(1e-6, np.pi, 400)[:, None]
    angle = np.linspace(0, np.pi, 721)[None, :]
    x, y = radius * np.cos(angle), radius * np.sin(angle)
    grid = np.linspace(-np.pi, np.pi, 401)
    gx, gy = np.meshgrid(grid, grid[200:])
    x, y = np.concatenate([x.ravel(), gx.ravel()]), np.concatenate([y.ravel(), gy.ravel()])
    use = np.hypot(x, y) > 1e-7
    x, y = x[use], y[use]
    values = quotient(x, y)
    i = int(np.nanargmin(values))
    # In the logarithm of the radius, where long waves are flat.
    at = lambda q: float(quotient(np.exp(q[0]) * np.cos(q[1]), np.exp(q[0]) * np.sin(q[1])))
    start = [np.log(np.hypot(x[i], y[i])), np.arctan2(y[i], x[i])]
    found = scipy.optimize.minimize(at, start, method="Nelder-Mead", options=dict(xatol=1e-12, fatol=1e-16))
    return min(values[i], found.fun)


def euler(symbol, dimensions=1):
    def limit(p):
        def quotient(*w):
            l = symbol(p, *w)
            return -2 * l.real / np.abs(l) ** 2

        least = polished(quotient, dimensions)
        return "never" if least <= 0 else least

    return limit


def lax_friedrichs_2d(p):
    def quotient(x, y):
        # 1 - m^2 = (1 - m)(1 + m), m the mean of the cosines, without cancellation.
        gap = (half_sine(x) + half_sine(y)) * (half_sine(np.pi - x) + half_sine(np.pi - y))
        flow = (p["speed"] * np.sin(x) + p["speed_y"] * np.sin(y)) / p["dx"]
        with np.errstate(divide="ignore", invalid="ignore"):
            # At (pi, pi) both vanish, as at the origin.
            return np.where(gap > 1e-20, np.sqrt(gap) / np.abs(flow), np.inf)

    return polished(quotient, 2)


def bisected(largest, natural):
    """The step at which `largest(dt)` exceeds 1, from natural * 1e-6 to natural * 1e3."""
    unstable = lambda dt: largest(dt) > 1 + 1e-11
    low, high = natural * 1e-6, natural * 1e3
    if not unstable(high):
        probes = np.geomspace(low, high, 100)
        return "always" if not any(unstable(dt) for dt in probes) else None
    probes = np.geomspace(low, high, 150)
    first = next(dt for dt in probes if unstable(dt))
    if first == low:
        return "never"
    low, high = first / (probes[1] / probes[0]), first
    for _ in range(45):
        middle = (low + high) / 2
        low, high = (low, middle) if unstable(middle) else (middle, high)
    return low


def of_diffusion(p):
    return p["dx"] ** 2 / p["kappa"]


def of_speed(p):
    return p["dx"] / abs(p["speed"])


def one_level(factor, natural):
    """`factor(p, dt, w)` is the amplification."""

    def limit(p):
        return bisected(lambda dt: np.abs(factor(p, dt, OMEGAS)).max(), natural(p))

    return limit


def roots(polynomial, natural):
    """`polynomial(p, dt, w)`: coefficients of the characteristic polynomial, highest first."""
    few = np.concatenate([OMEGAS[::150], [np.pi / 2, np.pi]])

    def largest(p, dt):
        return max(np.abs(np.roots(polynomial(p, dt, w))).max() for w in few)

    return lambda p: bisected(lambda dt: largest(p, dt), natural(p))


def runge_kutta(z):
    return 1 + z * (1 + z / 2 * (1 + z / 3 * (1 + z / 4)))


def courant(p, dt):
    return abs(p["speed"]) * dt / p["dx"]


def beam_warming(p, dt, w):
    nu, e = courant(p, dt), np.exp(-1j * w)
    return 1 - nu / 2 * (3 - 4 * e + e**2) + nu**2 / 2 * (1 - e) ** 2


def lax_wendroff(p, dt, w):
    nu = courant(p, dt)
    return 1 - 1j * nu * np.sin(w) - 2 * nu**2 * half_sine(w)


def nesterov(z, mu, dt):
    s = dt**2 * (1 + mu) / 2
    return [1, -(1 + mu) * (1 - s * z), mu * (1 - s * z)]


def ab(weights):
    def polynomial(p, dt, w):
        z = dt * diffusion(p, w)
        return [1, -1 - weights[0] * z] + [-b * z for b in weights[1:]]

    return polynomial


def bdf2(p, dt, w):
    return [1.5 - dt * diffusion(p, w), -2, 0.5]


def dufort_frankel(p, dt, w):
    r = 2 * p["kappa"] * dt / p["dx"] ** 2
    return [1 + r, -2 * r * np.cos(w), -(1 - r)]


def of_wave(p, dt, w):
    return [1, -2 + 4 * courant(p, dt) ** 2 * half_sine(w), 1]


SCHEMES = {
    "heat": euler(diffusion),
    "heat-2d": euler(lambda p, x, y: diffusion(p, x) + diffusion(p, y), 2),
    "heat-crank-nicolson": one_level(
        lambda p, dt, w: (2 + dt * diffusion(p, w)) / (2 - dt * diffusion(p, w)), of_diffusion
    ),
    "heat-fourth-order": euler(diffusion_4),
    "heat-dufort-frankel": roots(dufort_frankel, of_diffusion),
    "heat-bdf2": roots(bdf2, of_diffusion),
    "heat-ab2": roots(ab([3 / 2, -1 / 2]), of_diffusion),
    "heat-ab3": roots(ab([23 / 12, -16 / 12, 5 / 12]), of_diffusion),
    "heat-rk4": one_level(lambda p, dt, w: runge_kutta(dt * diffusion(p, w)), of_diffusion),
    "reaction-diffusion": euler(lambda p, w: diffusion(p, w) - p["lam"]),
    "reaction-diffusion-2d": euler(lambda p, x, y: diffusion(p, x) + diffusion(p, y) - p["lam"], 2),
    "advection-ftcs": euler(centred),
    "advection-upwind": euler(lambda p, w: -abs(p["speed"]) / p["dx"] * (2 * half_sine(w) + 1j * np.sin(w))),
    "advection-lax-friedrichs": one_level(
        lambda p, dt, w: np.cos(w) - 1j * courant(p, dt) * np.sin(w), of_speed
    ),
    "advection-lax-friedrichs-2d": lax_friedrichs_2d,
    "advection-lax-wendroff": one_level(lax_wendroff, of_speed),
    "advection-beam-warming": one_level(beam_warming, of_speed),
    "advection-leap-frog": roots(
        lambda p, dt, w: [1, 2j * courant(p, dt) * np.sin(w), -1], of_speed
    ),
    "advection-rk4": one_level(lambda p, dt, w: runge_kutta(dt * centred(p, w)), of_speed),
    "advection-diffusion": euler(lambda p, w: diffusion(p, w) + centred(p, w)),
    "advection-diffusion-2d": euler(
        lambda p, x, y: diffusion(p, x) + diffusion(p, y) + centred(p, x) + centred(p, y, "speed_y"), 2
    ),
    "wave-leap-frog": roots(of_wave, of_speed),
    "nesterov": lambda p: bisected(
        lambda dt: np.abs(np.roots(nesterov(p["z"], p["mu"], dt))).max(), p["z"] ** -0.5
    ),
    "nesterov-heat": roots(
        lambda p, dt, w: nesterov(-diffusion(p, w), p["mu"], dt),
        lambda p: of_diffusion(p) ** 0.5,
    ),
}

# By how much each may be off: minima of quotients carry roundings and the last digits of the search;
# bisection places an edge where the excess is 1e-11, and double roots on the circle (waves) are
# computed to the square root of a rounding, 3e-8.
TOLERANCE = {"wave-leap-frog": 1e-6, "advection-leap-frog": 1e-6}


def main():
    cases = []
    for p in SETS:
        for name, limit in SCHEMES.items():
            found = limit(p)
            found = found if isinstance(found, str) else float(found)
            cases.append(
                {"scheme": name, "parameters": p, "stable_dt": found, "within": TOLERANCE.get(name, 1e-8)}
            )
            print(name, found)
    lines = ",\n  ".join(json.dumps(case) for case in cases)
    (GOLDEN / "stable_dt.json").write_text('{"cases": [\n  ' + lines + "\n]}\n")


if __name__ == "__main__":
    main()
