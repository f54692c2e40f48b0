"""Test accuracy of a ResNet on CIFAR-10 in PyTorch, with the recipe of `lastbit train`.

    python reference/accuracy_torch.py DATA --depth 20 --epochs 15 --seeds 3

DATA is the folder of .npy files in the one that `lastbit data get cifar10` has made. The recipe:
batches of 128 without the last smaller one, Nesterov 0.9, learning rate 0.1 along half a cosine by epoch, weight decay 5e-4, random
crops with padding 4 and mirror images, PyTorch's default initialization. One line of JSON per seed.
It trains on a GPU where there is one; only the distribution of the accuracy is to be compared.
"""

import argparse
import json
import math
import time

import numpy as np
import torch
from networks_torch import build, named

MEAN, STD = (0.507, 0.487, 0.441), (0.267, 0.256, 0.276)


def images(path, device):
    pixels = torch.from_numpy(np.load(path)).to(device).permute(0, 3, 1, 2).float() / 255
    mean, std = (torch.tensor(values, device=device).view(1, 3, 1, 1) for values in (MEAN, STD))
    return (pixels - mean) / std


def augmented(batch):
    """Each image cropped at its own place of a frame of zeros, every second one mirrored."""
    count, _, height, width = batch.shape
    framed = torch.nn.functional.pad(batch, (4, 4, 4, 4))
    top, left = (torch.randint(0, 9, (count, 1), device=batch.device) for _ in range(2))
    rows = (top + torch.arange(height, device=batch.device)).view(count, 1, height, 1)
    columns = left + torch.arange(width, device=batch.device)
    flip = torch.rand(count, 1, device=batch.device) < 0.5
    columns = torch.where(flip, columns.flip(1), columns).view(count, 1, 1, width)
    examples = torch.arange(count, device=batch.device).view(count, 1, 1, 1)
    channels = torch.arange(3, device=batch.device).view(1, 3, 1, 1)
    return framed[examples, channels, rows, columns]


def accuracy(net, inputs, labels):
    net.eval()
    with torch.no_grad():
        right = sum(
            (net(part).argmax(1) == truth).sum().item()
            for part, truth in zip(inputs.split(1000), labels.split(1000))
        )
    net.train()
    return 100 * right / len(labels)


def train(folder, depth, epochs, seed, device):
    torch.manual_seed(seed)
    net = build(named(f"resnet{depth}")).to(device)
    inputs, tests = (images(f"{folder}/{part}-inputs.npy", device) for part in ("train", "test"))
    labels, truths = (
        torch.from_numpy(np.load(f"{folder}/{part}-targets.npy")).long().to(device)
        for part in ("train", "test")
    )
    optimizer = torch.optim.SGD(
        net.parameters(), lr=0.1, momentum=0.9, nesterov=True, weight_decay=5e-4
    )
    for epoch in range(epochs):
        for group in optimizer.param_groups:
            group["lr"] = 0.1 * (1 + math.cos(math.pi * epoch / epochs)) / 2
        order = torch.randperm(len(labels), device=device)
        for part in order.split(128)[: len(labels) // 128]:
            loss = torch.nn.functional.cross_entropy(net(augmented(inputs[part])), labels[part])
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
    return accuracy(net, tests, truths)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data")
    parser.add_argument("--depth", type=int, default=20)
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--seeds", type=int, default=3)
    arguments = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    for seed in range(arguments.seeds):
        start = time.time()
        result = train(arguments.data, arguments.depth, arguments.epochs, seed, device)
        line = {"seed": seed, "epochs": arguments.epochs, "accuracy": result}
        print(json.dumps(line | {"seconds": round(time.time() - start, 1)}), flush=True)


if __name__ == "__main__":
    main()
