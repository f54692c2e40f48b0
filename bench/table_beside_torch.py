"""One seed of the table `tab-relu` at desk scale, beside the authors' way on this machine's CPU.

    cargo build --release
    python bench/table_beside_torch.py --lastbit target/release/lastbit [--rounds 3] [--threads 2]

Ours: `lastbit run tab-relu --cells 0..1/6`, six ResNet-8 in lock step, with everything a record holds
(distances, gradient fluctuations, checkpoints, figures). Theirs: six networks in PyTorch stepped in
turn over each batch, steps `(dt k)(g/k)` as in their released code, tests as often, nothing written
down. Same number of images, batches, epochs; for PyTorch the images are noise, crops and mirror
images are cut from tensors in memory. The whole table is six times this on both sides.

Sides take turns within a round; times and peak memory are those of the whole process, for PyTorch
also without importing it. Prints the median over the rounds and the ratios within a round.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

IMAGES, TESTS, BATCH, EPOCHS, EVALUATE_EVERY = 1200, 300, 16, 10, 150
FACTORS = (1, 3, 5, 7, 9, 11)
DT, MOMENTUM, DECAY, DROP_EVERY = 0.1, 0.9, 5e-4, 4


def theirs(threads):
    """Runs in a process of its own; prints the seconds without imports."""
    import torch
    from torch.nn import functional as F

    sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "reference"))
    from networks_torch import build

    torch.set_num_threads(threads)
    start = time.perf_counter()
    torch.manual_seed(0)
    description = {"net": "resnet", "depth": 8, "shortcut": "conv", "act": {"name": "relu"},
                   "norm": True, "input": [32, 32, 3], "outputs": 10}  # fmt: skip
    first = build(description).to(memory_format=torch.channels_last)
    networks = []
    for _ in FACTORS:
        network = build(description).to(memory_format=torch.channels_last)
        network.load_state_dict(first.state_dict())
        networks.append(network)
    optimizers = [
        torch.optim.SGD(network.parameters(), lr=DT * k, momentum=MOMENTUM, nesterov=True,
                        weight_decay=DECAY / k, foreach=True)
        for network, k in zip(networks, FACTORS)
    ]  # fmt: skip
    images, labels = torch.randn(IMAGES, 3, 32, 32), torch.randint(10, (IMAGES,))
    tests = torch.randn(TESTS, 3, 32, 32).contiguous(memory_format=torch.channels_last)
    answers = torch.randint(10, (TESTS,))
    padded = F.pad(images, (4, 4, 4, 4))
    step = 0
    for epoch in range(EPOCHS):
        for optimizer, k in zip(optimizers, FACTORS):
            optimizer.param_groups[0]["lr"] = DT * 0.1 ** (epoch // DROP_EVERY) * k
        order = torch.randperm(IMAGES)
        for at in range(0, IMAGES - BATCH + 1, BATCH):
            chosen = order[at : at + BATCH]
            crops = torch.empty(BATCH, 3, 32, 32).contiguous(memory_format=torch.channels_last)
            corners, flips = torch.randint(9, (BATCH, 2)).tolist(), (torch.rand(BATCH) < 0.5).tolist()
            for i, example in enumerate(chosen.tolist()):
                y, x = corners[i]
                crop = padded[example, :, y : y + 32, x : x + 32]
                crops[i] = crop.flip(2) if flips[i] else crop
            for network, optimizer, k in zip(networks, optimizers, FACTORS):
                optimizer.zero_grad(set_to_none=True)
                F.cross_entropy(network(crops), labels[chosen]).backward()
                if k != 1:
                    torch._foreach_div_([p.grad for p in network.parameters()], k)
                optimizer.step()
            step += 1
            if step % EVALUATE_EVERY == 0:
                for network in networks:
                    network.eval()
                    with torch.no_grad():
                        (network(tests).argmax(1) == answers).float().mean().item()
                    network.train()
    print(json.dumps({"seconds": time.perf_counter() - start}))


def measured(command):
    """Seconds, peak MiB and the last line of a process."""
    start = time.perf_counter()
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(command, stdout=said, stderr=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - start
        said.seek(0)
        lines = said.read().decode().splitlines()
    if status != 0:
        sys.exit(f"{' '.join(map(str, command))} ended with status {status}: {lines[-5:]}")
    return {"seconds": seconds, "mib": usage.ru_maxrss / 1024, "last": lines[-1] if lines else ""}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lastbit", default="target/release/lastbit")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--theirs", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.theirs:
        return theirs(options.threads)

    ours, torch, ratios = [], [], []
    for _ in range(options.rounds):
        with tempfile.TemporaryDirectory() as out:
            ours.append(measured([options.lastbit, "run", "tab-relu", "--cells", "0..1/6", "--out", out,
                                  "--threads", str(options.threads)]))  # fmt: skip
        torch.append(measured([sys.executable, "-W", "ignore", __file__, "--theirs",
                               "--threads", str(options.threads)]))  # fmt: skip
        torch[-1]["training"] = json.loads(torch[-1]["last"])["seconds"]
        ratios.append(torch[-1]["training"] / ours[-1]["seconds"])
        print(f"round: ours {ours[-1]['seconds']:.1f} s, PyTorch {torch[-1]['training']:.1f} s "
              f"without its start", file=sys.stderr, flush=True)  # fmt: skip

    def median(side, key):
        return statistics.median(one[key] for one in side)

    print("| one seed of tab-relu, desk scale | ours | PyTorch, six networks in turn | PyTorch/ours |")
    print("|---|---|---|---|")
    print(f"| seconds, {options.threads} threads | {median(ours, 'seconds'):.1f} | {median(torch, 'training'):.1f} "
          f"| {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f}) |")  # fmt: skip
    print(f"| peak memory, MiB | {median(ours, 'mib'):.0f} | {median(torch, 'mib'):.0f} "
          f"| {median(torch, 'mib') / median(ours, 'mib'):.2f} |")  # fmt: skip


if __name__ == "__main__":
    main()
