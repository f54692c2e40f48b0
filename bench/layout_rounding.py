#!/usr/bin/env python3
"""How exact are convolutions and batch norm of PyTorch on a CPU in the two layouts of images?

    OMP_NUM_THREADS=1 python bench/layout_rounding.py

The inputs have the shapes of python/examples/studies/resnet.py: 32 images after a ReLU. Printed are relative errors against
float64 (norm of the difference over norm), in units of 2^-24, the largest error of rounding one number to float32.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

BATCH, SHAPES = 32, ((8, 32), (16, 16), (32, 8))
LAYOUTS = {"contiguous": torch.contiguous_format, "channels-last": torch.channels_last}


def convolution(x: Tensor, weight: Tensor) -> Tensor:
    return F.conv2d(x, weight, padding=1)


def batch_norm(x: Tensor, _: Tensor) -> Tensor:
    return F.batch_norm(x, None, None, training=True)


def main() -> None:
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads")
    torch.manual_seed(0)
    for channels, size in SHAPES:
        x, weight = torch.randn(BATCH, channels, size, size).relu(), torch.randn(channels, channels, 3, 3)
        for operation in (convolution, batch_norm):
            exact = operation(x.double(), weight.double())
            for name, layout in LAYOUTS.items():
                found = operation(x.contiguous(memory_format=layout), weight.contiguous(memory_format=layout))
                error = ((found - exact).norm() / exact.norm()).item() * 2**24
                print(f"{channels:2} channels, {size}x{size}  {operation.__name__:11}  {name:13}  {error:6.1f}", flush=True)


if __name__ == "__main__":
    main()
