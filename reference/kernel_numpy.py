"""The one-layer network of lastbit in numpy and scipy, as an independent second opinion.

    python reference/kernel_numpy.py golden    # writes crates/lastbit/tests/golden/kernel.json
    python reference/kernel_numpy.py time      # ms per step, as a markdown table

Everything is computed with the explicit matrix of patches P, one row per position and one column
per pixel of the window: K * I is P k, its adjoint P.T r, and the windowed spectrum that of P.T P.
`golden` checks P against scipy's correlation, the gradient against a complex step of the loss and
the Hessian against a complex step of the gradient before it writes anything.

`time` keeps its P: 50625 x 1024 doubles for the authors' figure, 415 MB, made once. A step is then
two products of a matrix with a vector, each of which reads all of it.
"""

import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import scipy.linalg
import scipy.signal

GOLDEN = Path(__file__).resolve().parent.parent / "crates" / "lastbit" / "tests" / "golden"


def patches(image, window):
    """P, a copy: sliding windows by rows of positions, each flattened by rows."""
    views = np.lib.stride_tricks.sliding_window_view(image, window)
    return views.reshape(-1, window[0] * window[1])


def swish(beta):
    """r, r', r'' for real or complex x."""

    def at(x):
        s = 1 / (1 + np.exp(-beta * x))
        slope = s * (1 - s)
        return x * s, s + beta * x * slope, beta * slope * (2 + beta * x * (1 - 2 * s))

    return at


def tanh(x):
    r = np.tanh(x)
    return r, 1 - r * r, -2 * r * (1 - r * r)


class OneLayer:
    """L = -y ln s(logit) - (1-y) ln(1 - s(logit)) + alpha/2 |k|^2,  logit = p sum r(P k) - b.

    Nothing takes an absolute value or compares, so that complex k give complex steps.
    """

    def __init__(self, p, activation, pooling, label, bias, alpha):
        assert pooling in ("sum", "mean")
        self.p, self.activation = p, activation
        self.weight = 1.0 if pooling == "sum" else 1.0 / len(p)
        self.label, self.bias, self.alpha = label, bias, alpha

    def logit(self, k):
        return self.weight * np.sum(self.activation(self.p @ k)[0]) - self.bias

    def loss(self, k):
        logit = self.logit(k)
        entropy = self.label * np.log1p(np.exp(-logit)) + (1 - self.label) * np.log1p(np.exp(logit))
        return entropy + self.alpha / 2 * (k @ k)

    def gradient(self, k):
        slopes = self.activation(self.p @ k)[1]
        residual = 1 / (1 + np.exp(-self.logit(k))) - self.label
        return residual * self.weight * (self.p.T @ slopes) + self.alpha * k

    def hessian(self, k):
        """Dense."""
        _, slope, bend = self.activation(self.p @ k)
        prediction = 1 / (1 + np.exp(-self.logit(k)))
        g = self.weight * (self.p.T @ slope)
        curved = (prediction - self.label) * self.weight * (self.p.T * bend) @ self.p
        return prediction * (1 - prediction) * np.outer(g, g) + curved + self.alpha * np.eye(len(k))


# --- golden file --------------------------------------------------------------------------------

# One problem below and one above the 36 pixels from which the Rust code correlates by Fourier.
PROBLEMS = [((9, 11), (3, 4)), ((16, 16), (8, 7))]
ACTIVATIONS = [({"name": "swish", "beta": 1.3}, swish(1.3)), ({"name": "tanh"}, tanh)]
BIAS, ALPHA = 0.2, 0.7
DT, STEPS = 0.1, 50

# Direct and Fourier, taller and wider, one row, and one with fewer positions than pixels, where
# the smallest eigenvalue is zero.
SPECTRA = [((9, 11), (3, 4)), ((16, 16), (8, 7)), ((24, 13), (7, 2)), ((40, 48), (5, 12)),
           ((30, 50), (1, 9)), ((10, 12), (7, 8))]  # fmt: skip


def noise(rng, *shape):
    """Normal, of size 0.3, in decimals short enough to read."""
    return np.round(0.3 * rng.standard_normal(shape), 4)


def largest(x):
    return float(np.max(np.abs(x)))


def check(network, k, v):
    """Complex steps: Im f(x + i h e)/h errs by h^2 f''' alone, which at h = 1e-30 is nothing."""
    h = 1e-30
    gradient, hessian = network.gradient(k), network.hessian(k)
    unit = np.eye(len(k))
    by_step = np.array([network.loss(k + 1j * h * e).imag / h for e in unit])
    product = network.gradient(k + 1j * h * v).imag / h
    # Both sides sum a few hundred terms, in other orders, and cancel by at most ten.
    for name, a, b in [("gradient", gradient, by_step), ("Hessian", hessian @ v, product)]:
        gap = largest(a - b) / largest(a)
        assert gap < 1e-13, f"{name} against a complex step: {gap:.2e}"
    return max(largest(gradient - by_step) / largest(gradient),
               largest(hessian @ v - product) / largest(product))  # fmt: skip


def descent(network, k):
    """Losses along the way, and how much an error made at one step can have grown at another."""
    losses, amplification = [network.loss(k)], 1.0
    for _ in range(STEPS):
        values = scipy.linalg.eigvalsh(network.hessian(k))
        amplification *= max(1.0, largest(1 - DT * values))
        k = k - DT * network.gradient(k)
        losses.append(network.loss(k))
    return {"dt": DT, "losses": [float(x) for x in losses], "amplification": amplification,
            "end": k.tolist()}  # fmt: skip


def problem(rng, size, window):
    image, k, v = noise(rng, *size), noise(rng, window[0] * window[1]), noise(rng, window[0] * window[1])
    p = patches(image, window)
    by_scipy = scipy.signal.correlate2d(image, k.reshape(window), mode="valid").ravel()
    assert largest(p @ k - by_scipy) < 1e-14 * len(k), "P k is not the correlation"
    networks, worst, growth = [], 0.0, 0.0
    for described, activation in ACTIVATIONS:
        for pooling in ("sum", "mean"):
            for label in (0.0, 1.0):
                network = OneLayer(p, activation, pooling, label, BIAS, ALPHA)
                worst = max(worst, check(network, k, v))
                run = descent(network, k)
                growth = max(growth, run["amplification"])
                networks.append({
                    "activation": described, "pooling": pooling, "label": label, "bias": BIAS,
                    "alpha": ALPHA, "loss": float(network.loss(k)),
                    "gradient": network.gradient(k).tolist(),
                    "hessian_vector": (network.hessian(k) @ v).tolist(), "descent": run,
                })  # fmt: skip
    print(f"{size}, window {window}: {len(networks)} networks, complex steps agree to {worst:.1e}, "
          f"errors of a descent grow by at most {growth:.2f}")  # fmt: skip
    return {"size": size, "window": window, "image": image.ravel().tolist(), "kernel": k.tolist(),
            "direction": v.tolist(), "networks": networks}  # fmt: skip


def spectrum(rng, size, window):
    image = noise(rng, *size)
    p = patches(image, window)
    values = scipy.linalg.eigh(p.T @ p, eigvals_only=True)
    # The same from the singular values, which lose no digits in the product.
    singular = scipy.linalg.svdvals(p)
    least = singular[-1] ** 2 if len(p) >= p.shape[1] else 0.0
    gap = max(abs(values[-1] - singular[0] ** 2), abs(values[0] - least)) / values[-1]
    print(f"{size}, window {window}: e in [{values[0]:.6e}, {values[-1]:.6e}], svd agrees to {gap:.1e}")
    assert gap < 1e-14 * len(values), "eigenvalues and singular values"
    return {"size": size, "window": window, "image": image.ravel().tolist(),
            "eig_min": float(values[0]), "eig_max": float(values[-1])}  # fmt: skip


def golden():
    rng = np.random.default_rng(20)
    content = {"made_by": "reference/kernel_numpy.py golden",
               "problems": [problem(rng, *case) for case in PROBLEMS],
               "spectra": [spectrum(rng, *case) for case in SPECTRA]}  # fmt: skip
    # json writes floats with repr, the shortest decimal that reads back as the same bits.
    path = GOLDEN / "kernel.json"
    path.write_text(json.dumps(content, indent=None, separators=(", ", ": ")) + "\n")
    print(f"wrote {path.name}, {path.stat().st_size // 1024} KiB")


# --- timing -------------------------------------------------------------------------------------

SIDE, WINDOW, BETA = 256, 32, 1.0
STEPS_TIMED = 15
# OpenBLAS, OpenMP and MKL each listen to another name.
THREAD_VARIABLES = ["OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"]


def checkerboard(n):
    i = np.arange(n)
    return np.where((i[:, None] + i) % 2 == 0, 1.0, -1.0)


def seconds_per_step():
    """The median step of the authors' figure: Swish, mean pooling, label 1, alpha 20, dt 0.05."""
    p = patches(checkerboard(SIDE), (WINDOW, WINDOW))
    positions, label, alpha, dt = len(p), 1.0, 20.0, 0.05
    k = np.random.default_rng(1).standard_normal(WINDOW * WINDOW)
    c, s, slope = (np.empty(positions) for _ in range(3))
    gradient = np.empty_like(k)
    times = []
    for _ in range(STEPS_TIMED + 2):
        start = time.perf_counter()
        np.matmul(p, k, out=c)
        np.multiply(c, -BETA, out=s)
        np.exp(s, out=s)
        s += 1
        np.divide(1, s, out=s)
        logit = (c @ s) / positions
        # r' = s + beta c s (1 - s)
        np.subtract(1, s, out=slope)
        slope *= s
        slope *= c
        slope *= BETA
        slope += s
        np.matmul(p.T, slope, out=gradient)
        residual = 1 / (1 + np.exp(-logit)) - label
        gradient *= residual / positions
        gradient += alpha * k
        gradient *= dt
        k -= gradient
        times.append(time.perf_counter() - start)
    # The first two steps touch fresh memory.
    return statistics.median(times[2:])


def seconds_per_step_by_fourier():
    """The same step with numpy's own transform instead of a matrix; it uses one thread."""
    transformed = np.fft.rfft2(checkerboard(SIDE))
    positions, label, alpha, dt = SIDE - WINDOW + 1, 1.0, 20.0, 0.05
    k = np.random.default_rng(1).standard_normal((WINDOW, WINDOW))

    def correlate(values, side):
        product = np.conj(np.fft.rfft2(values, (SIDE, SIDE))) * transformed
        return np.fft.irfft2(product, (SIDE, SIDE))[:side, :side]

    times = []
    for _ in range(10 * STEPS_TIMED):
        start = time.perf_counter()
        c = correlate(k, positions)
        s = 1 / (1 + np.exp(-BETA * c))
        residual = 1 / (1 + np.exp(-np.mean(c * s))) - label
        gradient = residual / positions**2 * correlate(s + BETA * c * s * (1 - s), WINDOW)
        k = k - dt * (gradient + alpha * k)
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def seconds_with(threads):
    """In a process of its own: BLAS reads the number of threads when it is loaded."""
    environment = os.environ | {name: str(threads) for name in THREAD_VARIABLES}
    command = [sys.executable, __file__, "step"]
    answer = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    return float(answer.stdout)


def time_all():
    print(f"| {SIDE} x {SIDE}, window {WINDOW} x {WINDOW} | threads | ms per step |")
    print("|---|---|---|")
    for threads in (1, 2):
        print(f"| numpy, patch matrix kept | {threads} | {1e3 * seconds_with(threads):.2f} |", flush=True)
    print(f"| numpy, by its Fourier transform | 1 | {1e3 * seconds_per_step_by_fourier():.2f} |")


if __name__ == "__main__":
    modes = {"golden": golden, "time": time_all, "step": lambda: print(seconds_per_step())}
    if len(sys.argv) != 2 or sys.argv[1] not in modes:
        sys.exit(f"usage: python {sys.argv[0]} golden | time")
    modes[sys.argv[1]]()
