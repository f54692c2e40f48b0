"""Weights, directions, inputs and targets by formula, so that golden files need not hold them.

    python reference/formulas.py    # checks the generator against its published vectors and against Rust

`Stream(seed, stream)` is that of `crates/lastbit/src/rng.rs`: Philox4x32-10, the value at a counter
being a function of seed, stream and counter alone. Everything else is f64 with + - * / sqrt only,
one operation at a time in the order written here, so that Rust repeats every bit:

    parameter t, element i      u = Stream(1, t).uniform(i)
      weight of a batch norm    0.5 + u
      other tensor of one axis  0.2 * (u - 0.5)
      any other tensor          (u - 0.5) * sqrt(6.0 / fan_in)      fan_in = elements / shape[0]
    direction t, element i      Stream(2, t).uniform(i) - 0.5
    input (n, y, x, c)          2.0 * Stream(3, 0).uniform(((n*H + y)*W + x)*C + c) - 1.0
    class of example n          Stream(4, 0).block(n)[0] % classes
    target (n, j)               2.0 * Stream(4, 1).uniform(n*width + j) - 1.0
    probe j = 0, 1, 2 of t, i   Stream(5 + j, t).uniform(i) - 0.5

t counts the tensors of `named_parameters()`, buffers not included; i runs through PyTorch's layout
row by row (convolutions: output, input, row, column).
"""

import numpy as np

WEIGHT_SEED, DIRECTION_SEED, INPUT_SEED, TARGET_SEED, PROBE_SEED = 1, 2, 3, 4, 5
PROBES = 3

MULTIPLIERS = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
WEYL = 0x9E3779B9, 0xBB67AE85
LOW, HALF = np.uint64(0xFFFFFFFF), np.uint64(32)


def philox4x32_10(counter, key):
    """Four words per column of `counter`, a 4 x n array of 32-bit words kept in 64 bits."""
    a, b, c, d = counter
    for round_ in range(10):
        k0, k1 = (np.uint64((word + round_ * step) & 0xFFFFFFFF) for word, step in zip(key, WEYL))
        first, second = MULTIPLIERS[0] * a, MULTIPLIERS[1] * c
        a, b = (second >> HALF) ^ b ^ k0, second & LOW
        c, d = (first >> HALF) ^ d ^ k1, first & LOW
    return np.stack([a, b, c, d])


class Stream:
    """Random numbers addressed by counter; counters may be an array."""

    def __init__(self, seed, stream):
        self.seed, self.stream = seed, stream

    def block(self, counters):
        counters = np.atleast_1d(np.asarray(counters, np.uint64))
        low, high = (np.full_like(counters, word) for word in words(self.stream))
        return philox4x32_10(np.stack([counters & LOW, counters >> HALF, low, high]), words(self.seed))

    def uniform(self, counters):
        high, low = self.block(counters)[:2]
        bits = (high << np.uint64(20)) | (low >> np.uint64(12))
        return (bits.astype(np.float64) + 0.5) * (1.0 / 2**52)


def words(x):
    return x & 0xFFFFFFFF, x >> 32


def weight(t, shape, is_norm_weight):
    u = Stream(WEIGHT_SEED, t).uniform(np.arange(np.prod(shape)))
    if is_norm_weight:
        values = 0.5 + u
    elif len(shape) == 1:
        values = 0.2 * (u - 0.5)
    else:
        values = (u - 0.5) * np.sqrt(6.0 / (u.size // shape[0]))
    return values.reshape(shape)


def direction(t, shape):
    return (Stream(DIRECTION_SEED, t).uniform(np.arange(np.prod(shape))) - 0.5).reshape(shape)


def inputs(batch, height, width, channels):
    """NCHW, as PyTorch wants it; the counters run as NHWC."""
    u = Stream(INPUT_SEED, 0).uniform(np.arange(batch * height * width * channels))
    return np.ascontiguousarray((2.0 * u - 1.0).reshape(batch, height, width, channels).transpose(0, 3, 1, 2))


def classes_of(batch, classes):
    return (Stream(TARGET_SEED, 0).block(np.arange(batch))[0] % np.uint64(classes)).astype(np.int64)


def targets(batch, width):
    return 2.0 * Stream(TARGET_SEED, 1).uniform(np.arange(batch * width)).reshape(batch, width) - 1.0


def probes(t, values):
    """The three sums of g_i (u_i - 0.5) over all elements."""
    i, flat = np.arange(values.size), values.reshape(-1)
    return [float(flat @ (Stream(PROBE_SEED + j, t).uniform(i) - 0.5)) for j in range(PROBES)]


def check():
    # "kat_vectors" of the Random123 distribution, philox4x32, 10 rounds.
    for counter, key, expected in [
        ([0] * 4, [0] * 2, "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
        ([0xFFFFFFFF] * 4, [0xFFFFFFFF] * 2, "408f276d 41c83b0e a20bc7c6 6d5451fd"),
        ([0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344], [0xA4093822, 0x299F31D0],
         "d16cfe09 94fdcceb 5001e420 24126ea1"),
    ]:  # fmt: skip
        found = philox4x32_10(np.array(counter, np.uint64)[:, None], key)[:, 0]
        assert " ".join(f"{word:08x}" for word in found) == expected, found

    # As printed by `Stream::uniform` in Rust, with seeds, streams and counters beyond 32 bits.
    for seed, stream, counter, expected in RUST_DRAWS:
        found = float(Stream(seed, stream).uniform(counter)[0])
        assert found == expected, (seed, stream, counter, found, expected)


RUST_DRAWS = [
    (1, 0, 0, 0.8902591729757107),
    (2, 7, 123456, 0.4816187709474872),
    (2**40 + 5, 2**33 + 1, 2**35 + 9, 0.9352535230035507),
]

if __name__ == "__main__":
    check()
    print("Philox4x32-10 agrees with its published vectors and with the Rust code")
