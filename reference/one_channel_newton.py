"""Minima of the one-layer network of docs/findings.md by Newton's method, and the edge of each, in numpy.

A kernel of 3x3 pixels, padding "same", Swish, mean over positions, sigmoid, cross-entropy, weight decay; the first
zeros and ones of MNIST, read from the embedded data set. Prints each minimum that was found with its loss, its
edge 2/lambda_max and how many of the starting points lead there.

    python reference/one_channel_newton.py                     # 16 images, weight decay 0.002
    python reference/one_channel_newton.py --decay 5e-4
    python reference/one_channel_newton.py --decay 5e-4 --images 50
"""

import argparse
import lzma
from collections import Counter
from pathlib import Path

import numpy as np

DATA = Path(__file__).parent.parent / "crates/lastbit-lab/assets/mnist01.lzma"
TRAIN, TEST, PIXELS = 12665, 2115, 28


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def read(images):
    """Labels, and for each image and position the nine pixels below the kernel."""
    content = np.frombuffer(lzma.open(DATA).read(), np.uint8)
    labels = content[:images].astype(float)
    pixels = content[TRAIN + TEST :][: images * PIXELS**2].reshape(images, PIXELS, PIXELS) / 255.0
    padded = np.pad(pixels, ((0, 0), (1, 1), (1, 1)))
    shifted = [padded[:, i : i + PIXELS, j : j + PIXELS] for i in range(3) for j in range(3)]
    return labels, np.stack([image.reshape(images, -1) for image in shifted], -1)


def loss_gradient_hessian(kernel, labels, patches, decay):
    count, positions, size = patches.shape
    u = patches @ kernel
    s = sigmoid(u)
    first, second = s + u * s * (1 - s), s * (1 - s) * (2 + u * (1 - 2 * s))
    z = (u * s).mean(1)
    slope = (first[..., None] * patches).mean(1)
    p = sigmoid(z)
    loss = np.mean(np.logaddexp(0, z) - labels * z) + decay / 2 * kernel @ kernel
    gradient = ((p - labels)[:, None] * slope).mean(0) + decay * kernel
    gauss_newton = np.einsum("i,ij,ik->jk", p * (1 - p), slope, slope)
    weights = (p - labels)[:, None] * second / positions
    curvature = np.einsum("iq,iqj,iqk->jk", weights, patches, patches, optimize=True)
    return loss, gradient, (gauss_newton + curvature) / count + decay * np.eye(size)


def minimum(kernel, of):
    """Newton's method with the modulus of each eigenvalue and a line search: downhill from anywhere."""
    loss, gradient, hessian = of(kernel)
    for _ in range(2000):
        values, vectors = np.linalg.eigh(hessian)
        step = -vectors @ ((vectors.T @ gradient) / np.maximum(np.abs(values), 1e-6))
        length = 1.0
        while True:
            there = of(kernel + length * step)
            if there[0] <= loss + 1e-4 * length * (gradient @ step) or length < 1e-10:
                break
            length /= 2
        kernel = kernel + length * step
        loss, gradient, hessian = there
        if np.linalg.norm(gradient) < 1e-14:
            break
    values = np.linalg.eigvalsh(hessian)
    return loss, 2 / values[-1], np.linalg.norm(gradient), values[0]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=16)
    parser.add_argument("--decay", type=float, default=0.002)
    parser.add_argument("--starts", type=int, default=30)
    chosen = parser.parse_args()
    labels, patches = read(chosen.images)
    rng = np.random.default_rng(0)
    found = Counter()
    for _ in range(chosen.starts):
        start = rng.uniform(-1 / 3, 1 / 3, 9) * rng.choice([1, 3, 10])
        loss, edge, norm, least = minimum(start, lambda k: loss_gradient_hessian(k, labels, patches, chosen.decay))
        assert norm < 1e-10 and least > 0, f"no minimum: gradient {norm:.1e}, smallest eigenvalue {least:.1e}"
        found[(round(loss, 9), round(edge, 4))] += 1
    for (loss, edge), count in sorted(found.items()):
        print(f"loss {loss:.9f}   edge {edge:.4f}   from {count} of {chosen.starts} starting points")


if __name__ == "__main__":
    main()
