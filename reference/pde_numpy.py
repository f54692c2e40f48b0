"""The three PDE schemes of lastbit in numpy, as an independent second opinion.

    python reference/pde_numpy.py golden    # writes crates/lastbit/tests/golden/*.json
    python reference/pde_numpy.py time      # steps per second, as a markdown table

Every expression keeps the operation order stated in the Rust modules. numpy rounds + - * / sqrt
as IEEE 754 says, one operation at a time, so the trajectories must agree to the last bit. Each
step writes into arrays made once, with `out=`, as a careful numpy programmer would.
"""

import json
import statistics
import sys
import time
from pathlib import Path

import numpy as np
import scipy.linalg

GOLDEN = Path(__file__).resolve().parent.parent / "crates" / "lastbit" / "tests" / "golden"


class Heat:
    """u + r ((right - here) - (here - left)), ends held (Dirichlet) or without flux (Neumann)."""

    def __init__(self, r, ends, u):
        assert ends in ("dirichlet", "neumann")
        self.r, self.ends = u.dtype.type(r), ends
        self.u = u.copy()
        self.difference = np.empty(len(u) - 1, u.dtype)
        self.change = np.empty(len(u) - 2, u.dtype)

    def step(self):
        u, d, change = self.u, self.difference, self.change
        np.subtract(u[1:], u[:-1], out=d)
        np.subtract(d[1:], d[:-1], out=change)
        change *= self.r
        u[1:-1] += change
        if self.ends == "neumann":
            # Beyond the ends stands a copy of the end, so one of the two differences is zero.
            zero = u.dtype.type(0)
            u[0] += self.r * (d[0] - zero)
            u[-1] += self.r * (zero - d[-1])


class Beltrami1d:
    """Flux p / sqrt(p p + delta delta) at the half points, then dt (div F + lambda (I - u))."""

    def __init__(self, dt, dx, delta, lam, signal):
        kind = signal.dtype.type
        self.dt, self.per_dx, self.lam = kind(dt), kind(1.0 / dx), kind(lam)
        self.delta_squared = kind(delta) * kind(delta)
        self.signal, self.u = signal, signal.copy()
        self.p = np.empty(len(signal) - 1, signal.dtype)
        self.root = np.empty_like(self.p)
        # The flux beyond both ends is zero and stays so.
        self.flux = np.zeros(len(signal) + 1, signal.dtype)
        self.change = np.empty_like(signal)
        self.gap = np.empty_like(signal)

    def step(self):
        u, p, root, flux, change, gap = self.u, self.p, self.root, self.flux, self.change, self.gap
        np.subtract(u[1:], u[:-1], out=p)
        p *= self.per_dx
        np.multiply(p, p, out=root)
        root += self.delta_squared
        np.sqrt(root, out=root)
        np.divide(p, root, out=flux[1:-1])
        np.subtract(flux[1:], flux[:-1], out=change)
        change *= self.per_dx
        np.subtract(self.signal, u, out=gap)
        gap *= self.lam
        change += gap
        change *= self.dt
        u += change


class Beltrami2d:
    """Forward differences p, q; w = 1 / sqrt(p p + q q + delta delta); backward divergence."""

    def __init__(self, dt, dx, delta, lam, image):
        kind = image.dtype.type
        self.dt, self.per_dx, self.lam = kind(dt), kind(1.0 / dx), kind(lam)
        self.delta_squared = kind(delta) * kind(delta)
        self.signal, self.u = image, image.copy()
        # The last column of p and the last row of q lie beyond the edge and stay zero.
        self.p, self.q = np.zeros_like(image), np.zeros_like(image)
        self.w, self.square = np.empty_like(image), np.empty_like(image)

    def step(self):
        u, p, q, w, square = self.u, self.p, self.q, self.w, self.square
        np.subtract(u[:, 1:], u[:, :-1], out=p[:, :-1])
        p[:, -1] = 0
        p *= self.per_dx
        np.subtract(u[1:], u[:-1], out=q[:-1])
        q[-1] = 0
        q *= self.per_dx
        np.multiply(p, p, out=w)
        np.multiply(q, q, out=square)
        w += square
        w += self.delta_squared
        np.sqrt(w, out=w)
        np.divide(1, w, out=w)
        p *= w
        q *= w
        # From here on w holds the right-left and square the down-above part of the divergence.
        # The first column and row have zero flux before them: x - 0 is x, bit for bit.
        w[:, 0] = p[:, 0]
        np.subtract(p[:, 1:], p[:, :-1], out=w[:, 1:])
        square[0] = q[0]
        np.subtract(q[1:], q[:-1], out=square[1:])
        w += square
        w *= self.per_dx
        np.subtract(self.signal, u, out=square)
        square *= self.lam
        w += square
        w *= self.dt
        u += w


def evolved(run, steps):
    for _ in range(steps):
        run.step()
    return run.u


def triangle(n, height):
    middle = (n - 1) / 2.0
    return np.array([height * (1.0 - abs(i - middle) / middle) for i in range(n)])


# --- golden files -------------------------------------------------------------------------------

# Two plateaus, a ramp and some noise, in decimals short enough to read.
SIGNAL = [0.11, 0.08, 0.13, 0.1, 0.93, 0.88, 0.9, 0.86, 0.31, 0.27, 0.33, 0.3,
          0.36, 0.45, 0.49, 0.58, 0.63, 0.22, 0.18, 0.2, 0.41, 0.74, 0.79, 0.5]  # fmt: skip
HEIGHT, WIDTH = 8, 9


def image():
    pixel = lambda i, j: round((7 * i * i + 3 * j * j + 5 * i * j) % 23 / 23, 3)
    return np.array([[pixel(i, j) for j in range(WIDTH)] for i in range(HEIGHT)])


def write(name, content):
    # json writes floats with repr, the shortest decimal that reads back as the same bits.
    path = GOLDEN / f"{name}.json"
    path.write_text(json.dumps(content, indent=1) + "\n")
    print(f"wrote {path.name}")


def golden_heat():
    r, steps, start = 0.4, 100, triangle(31, 1.5)
    end = evolved(Heat(r, "dirichlet", start), steps)
    check_heat_with_scipy(r, steps, start, end)
    write("heat", {"made_by": "reference/pde_numpy.py golden", "r": r, "ends": "dirichlet",
                   "steps": steps, "start": start.tolist(), "end": end.tolist()})  # fmt: skip


def check_heat_with_scipy(r, steps, start, end):
    """u_n = A^n u_0, once by powers of the dense matrix and once by its eigenvectors."""
    n = len(start) - 2
    diagonal, beside = np.full(n, 1.0 - 2.0 * r), np.full(n - 1, r)
    matrix = np.diag(diagonal) + np.diag(beside, 1) + np.diag(beside, -1)
    by_power = np.linalg.matrix_power(matrix, steps) @ start[1:-1]
    values, vectors = scipy.linalg.eigh_tridiagonal(diagonal, beside)
    by_modes = vectors @ (values**steps * (vectors.T @ start[1:-1]))
    # Per step the stencil rounds four times, each time something below max u = 1.5; its weights
    # are positive and sum to 1, so errors add and do not grow: 4 u 1.5 a step. The matrix side: a
    # product of n-vectors errs by n u relative, 8 products give A^100, and an eigenvector basis is
    # orthogonal up to about n u with eigenvalues off by u, so (n + steps) u; both below 10 n u + steps u.
    u = np.finfo(float).eps / 2
    tolerance = 1.5 * (4 * steps + 10 * n + steps) * u
    for name, other in [("matrix power", by_power), ("eigenvectors", by_modes)]:
        gap = np.max(np.abs(end[1:-1] - other))
        print(f"heat against {name}: largest difference {gap:.2e}, tolerance {tolerance:.2e}")
        assert gap <= tolerance


def golden_beltrami(name, scheme, signal, limit, runs):
    dx, delta, lam = 1.0, 0.01, 1.0
    records = []
    for label, dt, steps in runs:
        end = evolved(scheme(dt, dx, delta, lam, signal), steps)
        records.append({"name": label, "dt": dt, "steps": steps, "end": end.ravel().tolist()})
    write(name, {"made_by": "reference/pde_numpy.py golden", "dx": dx, "delta": delta,
                 "lambda": lam, "dt_sharp": limit, "shape": list(signal.shape),
                 "signal": signal.ravel().tolist(), "runs": records})  # fmt: skip


OMEGAS = [0.1, 0.5, 1.0, float(np.pi / 2), 2.0, 2.5, 3.0, float(np.pi)]


def von_neumann_schemes():
    """Amplification polynomials, coefficients from the highest power of A down, by frequency."""

    def wave(c):
        # u+ - 2u + u- = c^2 (right - 2u + left).
        return lambda omega: [1.0, -(2.0 - 4.0 * (c * np.sin(omega / 2)) ** 2), 1.0]

    def nesterov(mu, share):
        # v = u + mu (u - u-),  u+ = v - (1 + mu)/2 dt^2 z v: u_tt + a u_t = -z u with friction
        # mu = (2 - a dt)/(2 + a dt). A root leaves through -1 at z = 4/((1 + 2 mu) dt^2).
        # z belongs to a Laplacian: z = share * limit at the highest frequency, sin^2 below it.
        def polynomial(omega):
            z_dt2 = share * 4.0 / (1.0 + 2.0 * mu) * np.sin(omega / 2) ** 2
            kept = 1.0 - (1.0 + mu) / 2.0 * z_dt2
            return [1.0, -(1.0 + mu) * kept, mu * kept]

        return polynomial

    def adams_bashforth_3(c):
        # u+ = u - c/12 (23 D u - 16 D u- + 5 D u--), D the central difference, symbol i sin(omega).
        def polynomial(omega):
            s = 1j * c * np.sin(omega) / 12.0
            return [1.0, -1.0 + 23.0 * s, -16.0 * s, 5.0 * s]

        return polynomial

    return [
        ("leapfrog_wave", {"c": 0.7}, wave(0.7)),
        ("leapfrog_wave", {"c": 1.05}, wave(1.05)),
        ("nesterov", {"mu": 0.9, "share_of_limit": 0.5}, nesterov(0.9, 0.5)),
        ("nesterov", {"mu": 0.9, "share_of_limit": 0.99}, nesterov(0.9, 0.99)),
        ("nesterov", {"mu": 0.9, "share_of_limit": 1.01}, nesterov(0.9, 1.01)),
        ("ab3_advection", {"c": 0.5}, adams_bashforth_3(0.5)),
        ("ab3_advection", {"c": 0.8}, adams_bashforth_3(0.8)),
    ]


def golden_von_neumann():
    records = []
    for scheme, parameters, polynomial in von_neumann_schemes():
        largest = [float(np.max(np.abs(np.roots(polynomial(omega))))) for omega in OMEGAS]
        print(f"{scheme} {parameters}: largest root {max(largest):.12f}")
        records.append({"scheme": scheme, "parameters": parameters, "max_abs_root": largest})
    write("von_neumann", {"made_by": "reference/pde_numpy.py golden", "omegas": OMEGAS,
                          "schemes": records})  # fmt: skip


def golden():
    GOLDEN.mkdir(parents=True, exist_ok=True)
    golden_heat()
    golden_beltrami("beltrami_1d", Beltrami1d, np.array(SIGNAL), 2 / 401, [
        ("stable", 0.9 * 2 / 401, 500),
        ("overdriven", 10 * 2 / 401, 20),
    ])  # fmt: skip
    golden_beltrami("beltrami_2d", Beltrami2d, image(), 2 / 801, [
        ("stable", 0.9 * 2 / 801, 200),
        ("overdriven", 10 * 2 / 801, 5),
    ])  # fmt: skip
    golden_von_neumann()


# --- timing -------------------------------------------------------------------------------------


def steps_per_second(run, seconds=0.7):
    """From the median step of a run of that length, after a few to warm up."""
    evolved(run, 3)
    times, end = [], time.perf_counter() + seconds
    while time.perf_counter() < end or len(times) < 5:
        start = time.perf_counter()
        run.step()
        times.append(time.perf_counter() - start)
    return 1.0 / statistics.median(times)


def time_all():
    rng = np.random.default_rng(1)
    print("| scheme | size | precision | numpy, steps per second | ns per point |")
    print("|---|---|---|---|---|")

    def row(scheme, size, points, kind, run):
        rate = steps_per_second(run)
        print(f"| {scheme} | {size} | {kind} | {rate:.1f} | {1e9 / rate / points:.3f} |", flush=True)

    for n in (4096, 1 << 20):
        for kind in ("f64", "f32"):
            signal = rng.random(n).astype(kind[0] + str(int(kind[1:]) // 8))
            row("heat", f"{n}", n, kind, Heat(0.4, "neumann", signal))
            row("Beltrami 1-D", f"{n}", n, kind, Beltrami1d(0.9 * 2 / 401, 1.0, 0.01, 1.0, signal))
    for n in (1024, 2048):
        for kind in ("f64", "f32"):
            signal = rng.random((n, n)).astype(kind[0] + str(int(kind[1:]) // 8))
            row("Beltrami 2-D", f"{n} x {n}", n * n, kind,
                Beltrami2d(0.9 * 2 / 801, 1.0, 0.01, 1.0, signal))  # fmt: skip


if __name__ == "__main__":
    modes = {"golden": golden, "time": time_all}
    if len(sys.argv) != 2 or sys.argv[1] not in modes:
        sys.exit(f"usage: python {sys.argv[0]} golden | time")
    modes[sys.argv[1]]()
