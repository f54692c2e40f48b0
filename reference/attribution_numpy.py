"""Attribution of growth on random quadratics, by numpy. Writes crates/lastbit/tests/golden/attribution.json.

    python reference/attribution_numpy.py

The step of each optimizer is written down as a function of the state and differentiated by complex steps, which
have no truncation error. The Jacobian in the coordinates (x, y) of the module doc of `attribution` is then cut into 2x2
blocks along the eigenvectors of the dense (for Adam preconditioned) Hessian, and each block is split by
numpy.linalg.eig. No matrix of the module doc is used. Prints how far the Jacobian is from being block diagonal.
"""

import json
from pathlib import Path

import numpy as np

OUT = Path(__file__).parent.parent / "crates/lastbit/tests/golden/attribution.json"
N = 9
ALPHA = 0.013
BETA1, BETA2, EPSILON, STEPS = 0.9, 0.99, 1e-8, 5


def corrections(n):
    return 1 - BETA1**n, np.sqrt(1 - BETA2**n)


def denominator(v, n):
    e1, e2 = corrections(n)
    return e1 * (np.sqrt(v) / e2 + EPSILON)


def step(name, mu, dt, h, state, held=None):
    """The state after a step; the state is a list of vectors."""
    gradient = lambda theta: h @ theta + ALPHA * theta
    theta = state[0]
    if name == "sgd":
        return [theta - dt * gradient(theta)]
    if name in ("heavy-ball", "nesterov"):
        g = gradient(theta)
        b = mu * state[1] + g
        return [theta - dt * (b if name == "heavy-ball" else g + mu * b), b]
    if name == "nesterov-pde":
        ahead = theta + mu * (theta - state[1])
        return [ahead - dt * dt * (1 + mu) / 2 * gradient(ahead), theta]
    g = gradient(theta)
    m = BETA1 * state[1] + (1 - BETA1) * g
    v = BETA2 * state[2] + (1 - BETA2) * g * g
    p = denominator(v, STEPS + 1) if held is None else held
    return [theta - dt * m / p, m, v]


def jacobian(function, state):
    flat = np.concatenate(state)
    sizes = np.cumsum([len(part) for part in state])[:-1]
    columns = []
    for i in range(len(flat)):
        moved = flat.astype(complex)
        moved[i] += 1e-200j
        columns.append(np.concatenate(function(np.split(moved, sizes))).imag / 1e-200)
    return np.array(columns).T


def coordinates(name, dt, p):
    """The matrix from differences of the state to (x, y)."""
    eye, zero = np.eye(N), np.zeros((N, N))
    if name == "sgd":
        return eye
    if name == "nesterov-pde":
        return np.block([[eye, zero], [eye, -eye]])
    if name == "adam":
        return np.block([[np.diag(np.sqrt(p)), zero], [zero, dt * np.diag(1 / np.sqrt(p))]])
    return np.block([[eye, zero], [zero, dt * eye]])


def by_cause(block, z, parts):
    total = np.sum((block @ z) ** 2) - np.sum(z**2)
    roots, vectors = np.linalg.eig(block)
    out = [i for i in range(len(roots)) if abs(roots[i]) > 1]
    rest = total
    if out:
        assert len(out) == 1 and np.isreal(roots).all()
        root = roots[out[0]].real
        along = vectors[:, out[0]].real * np.linalg.solve(vectors.real, z)[out[0]]
        growth = (root**2 - 1) * np.sum(along**2)
        parts["negative_curvature" if root > 0 else "overshoot"] += growth
        rest -= growth
    parts["transient" if rest > 0 else "contraction"] += rest


def case(rng, name, mu, dt, threshold):
    # Eigenvalues on both sides of both thresholds.
    orthogonal, _ = np.linalg.qr(rng.normal(size=(N, N)))
    eigenvalues = threshold * np.array([-0.4, -0.1, -1e-3, 1e-3, 0.2, 0.6, 0.97, 1.1, 1.5])
    h = (orthogonal * eigenvalues) @ orthogonal.T
    h = (h + h.T) / 2
    count = {"sgd": 1, "adam": 3}.get(name, 2)
    run = [rng.normal(size=N) for _ in range(count)]
    sizes = [0.5] * count
    if name == "adam":
        # Near v, the Hessian in the coordinates of the preconditioner has the eigenvalues above.
        run[2] = 0.5 + rng.uniform(size=N)
        scale = np.sqrt(denominator(run[2], STEPS + 1))
        h = scale[:, None] * h * scale[None, :]
        # A gradient of order one, and differences of comparable size in x and y.
        run[0] = np.linalg.solve(h, run[0])
        sizes = [1e-5, 1e-5 / dt, 1e-3]
    d = [size * rng.normal(size=N) for size in sizes]
    copy = [a + b for a, b in zip(run, d)]
    d = [b - a for a, b in zip(run, copy)]
    after, moved = step(name, mu, dt, h, run), step(name, mu, dt, h, copy)
    p = denominator(after[2], STEPS + 1) if name == "adam" else np.ones(N)
    held = (lambda s: step(name, mu, dt, h, s, p)) if name == "adam" else (lambda s: step(name, mu, dt, h, s))
    c = coordinates(name, dt, p)
    size = c.shape[0]
    j = c @ jacobian(held, run)[:size, :size] @ np.linalg.inv(c)
    z = c @ np.concatenate(d)[:size]
    after_z = c @ np.concatenate([b - a for a, b in zip(after, moved)])[:size]
    root = np.sqrt(p)
    seen = (h + ALPHA * np.eye(N)) / root[:, None] / root[None, :]
    _, vectors = np.linalg.eigh(seen)
    parts = dict.fromkeys(["overshoot", "negative_curvature", "transient", "contraction"], 0.0)
    outside = 0.0
    for u in vectors.T:
        basis = np.kron(np.eye(size // N), u[:, None])
        block = basis.T @ j @ basis
        outside = max(outside, np.abs(j @ basis - basis @ block).max())
        by_cause(block, basis.T @ z, parts)
    was = np.sum(z**2)
    held_growth = np.sum((j @ z) ** 2)
    full = c @ jacobian(lambda s: step(name, mu, dt, h, s), run)[:size] @ np.concatenate(d)
    parts["preconditioner"] = np.sum(full**2) - held_growth
    print(f"{name}: coupling of different eigenvectors {outside:.1e}", {k: f"{v / was:.3g}" for k, v in parts.items()})
    flat = lambda values: np.concatenate(values).tolist() if values else []
    return {
        "optimizer": name, "mu": mu, "dt": dt, "hessian": h.tolist(),
        "theta": run[0].tolist(), "memory": flat(run[1:]),
        "copy_theta": copy[0].tolist(), "copy_memory": flat(copy[1:]),
        "growth": 0.5 * np.log(np.sum(after_z**2) / was),
        "parts": {key: value / was for key, value in parts.items()},
    }


def main():
    rng = np.random.default_rng(0)
    cases = []
    for mu in [0.5, 0.9]:
        for name, dt, threshold in [
            ("sgd", 0.1, 2 / 0.1),
            ("heavy-ball", 0.1, (2 + 2 * mu) / 0.1),
            ("nesterov", 0.1, (2 + 2 * mu) / ((1 + 2 * mu) * 0.1)),
            ("nesterov-pde", 0.3, 4 / ((1 + 2 * mu) * 0.3**2)),
            ("adam", 0.01, (2 + 2 * BETA1) / ((1 - BETA1) * 0.01)),
        ]:
            cases.append(case(rng, name, mu, dt, threshold))
    file = {"alpha": ALPHA, "beta1": BETA1, "beta2": BETA2, "epsilon": EPSILON, "steps": STEPS, "cases": cases}
    OUT.write_text(json.dumps(file, indent=1) + "\n")


main()
