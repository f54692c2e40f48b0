"""Makes the data sets that travel within the program from the full ones.

    python reference/embed_data.py DATA ASSETS

DATA is the folder that `lastbit data get` of `mnist`, `fashion-mnist` and `cifar10` has filled. An asset is
an .lzma file of labels (train, test) and images (train, test), one byte a number. From each byte of
photographs is taken the byte a pixel before, then the same of the result a row before: what is left is the
difference of each pixel from left + above - above left.
"""

import lzma
import sys
from pathlib import Path

import numpy as np

# Name, full data set, examples to train and test on, classes, distances of the deltas: a pixel, a row.
SETS = [
    ("mnist01", "mnist", (12665, 2115), 2, ()),
    ("fashion-mnist-small", "fashion-mnist", (1200, 600), 10, ()),
    ("cifar10-small", "cifar10", (1200, 300), 10, (3, 96)),
]


def first(folder, part, count, classes):
    """The first examples of the first classes."""
    inputs, targets = (np.load(folder / f"{part}-{kind}.npy") for kind in ("inputs", "targets"))
    ours = np.flatnonzero(targets < classes)[:count]
    return inputs[ours], targets[ours].astype(np.uint8)


def packed(parts, deltas):
    arrays = [labels for _, labels in parts] + [images for images, _ in parts]
    content = np.concatenate([array.ravel() for array in arrays])
    for distance in deltas:
        content[distance:] = content[distance:] - content[:-distance]
    options = {"preset": 9 | lzma.PRESET_EXTREME, "dict_size": 16 << 20, "lc": 4, "pb": 0}
    filters = [{"id": lzma.FILTER_LZMA1, **options}]
    return lzma.compress(content.tobytes(), format=lzma.FORMAT_ALONE, filters=filters)


if __name__ == "__main__":
    data, assets = map(Path, sys.argv[1:])
    for name, full, sizes, classes, deltas in SETS:
        parts = [first(data / full, part, size, classes) for part, size in zip(("train", "test"), sizes)]
        (assets / f"{name}.lzma").write_bytes(packed(parts, deltas))
