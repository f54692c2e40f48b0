"""A user's own regression, in PyTorch and numpy: loss and the three largest eigenvalues of the Hessian
at every step of full-batch gradient descent, in f64.

    python reference/sharpness_torch.py    # writes crates/lastbit-cli/tests/golden/sharpness.json

The network is 1 -> 6 -> 5 -> 1 with tanh, the loss half the mean squared error, the data 20 points of a
curve. All numbers are drawn here once and written out, so that the test hands over what a user would: a
.csv and a .safetensors. The Hessian is assembled column by column from double backward passes and
diagonalized by numpy; nothing iterates.

`growth` says what another rounding may do: the run is repeated from weights that are off by 1e-14, and the
largest relative change of a loss and of an eigenvalue is written, over 1e-14.
"""

import json
from pathlib import Path

import numpy as np
import torch

GOLDEN = Path(__file__).resolve().parent.parent / "crates/lastbit-cli/tests/golden"
STEPS, DT, TOP, OFF = 25, 0.2, 3, 1e-14
SHAPES = {"fc1.weight": (6, 1), "fc1.bias": (6,), "fc2.weight": (5, 6), "fc2.bias": (5,),
          "fc3.weight": (1, 5), "fc3.bias": (1,)}  # fmt: skip


def loss_of(theta, x, y):
    a = torch.tanh(x @ theta["fc1.weight"].T + theta["fc1.bias"])
    b = torch.tanh(a @ theta["fc2.weight"].T + theta["fc2.bias"])
    out = b @ theta["fc3.weight"].T + theta["fc3.bias"]
    return 0.5 * ((out - y) ** 2).sum(1).mean()


def eigenvalues(theta, x, y):
    tensors = list(theta.values())
    gradient = torch.autograd.grad(loss_of(theta, x, y), tensors, create_graph=True)
    flat = torch.cat([g.reshape(-1) for g in gradient])
    rows = []
    for entry in flat:
        row = torch.autograd.grad(entry, tensors, retain_graph=True, allow_unused=True)
        rows.append(torch.cat([(torch.zeros_like(t) if r is None else r).reshape(-1)
                               for r, t in zip(row, tensors)]))  # fmt: skip
    hessian = torch.stack(rows).numpy()
    assert np.abs(hessian - hessian.T).max() < 1e-13
    return np.linalg.eigvalsh((hessian + hessian.T) / 2)[::-1][:TOP].tolist()


def trained(weights, x, y):
    theta = {name: torch.tensor(w, dtype=torch.float64, requires_grad=True) for name, w in weights.items()}
    losses, spectra = [], []
    for step in range(STEPS + 1):
        loss = loss_of(theta, x, y)
        losses.append(loss.item())
        spectra.append(eigenvalues(theta, x, y))
        gradient = torch.autograd.grad(loss, list(theta.values()))
        with torch.no_grad():
            for t, g in zip(theta.values(), gradient):
                t -= DT * g
    return np.array(losses), np.array(spectra)


def main():
    draw = np.random.default_rng(2022)
    points = np.sort(draw.uniform(-2, 2, 20))
    values = np.sin(2 * points) + 0.1 * draw.normal(size=20)
    x, y = (torch.tensor(v[:, None], dtype=torch.float64) for v in (points, values))
    weights = {name: draw.normal(size=shape) * 0.8 for name, shape in SHAPES.items()}
    losses, spectra = trained(weights, x, y)
    other_losses, other_spectra = trained({n: w * (1 + OFF) for n, w in weights.items()}, x, y)
    growth = max(np.abs(other_losses / losses - 1).max(), np.abs(other_spectra / spectra - 1).max()) / OFF
    print(f"loss {losses[0]:.6f} -> {losses[-1]:.6f}, sharpness {spectra[0, 0]:.4f} -> {spectra[-1, 0]:.4f}, "
          f"largest {spectra[:, 0].max():.4f}, 2/dt {2 / DT}, growth {growth:.1f}")  # fmt: skip
    assert growth < 1e3, "too sensitive to compare ten digits"
    golden = {
        "made_by": f"reference/sharpness_torch.py, torch {torch.__version__}, numpy {np.__version__}",
        "steps": STEPS, "dt": DT, "growth": growth, "x": points.tolist(), "y": values.tolist(),
        "weights": [{"name": n, "shape": list(w.shape), "values": w.reshape(-1).tolist()}
                    for n, w in weights.items()],
        "losses": losses.tolist(), "sharpness": spectra.tolist(),
    }  # fmt: skip
    GOLDEN.mkdir(exist_ok=True)
    (GOLDEN / "sharpness.json").write_text(json.dumps(golden, indent=1) + "\n")


if __name__ == "__main__":
    main()
