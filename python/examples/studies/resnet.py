"""Train a small ResNet on 1,200 images of CIFAR-10, with a fault or a harmless change on request.

    python resnet.py --out runs/plain
    python resnet.py --out runs/faulty --bug batch-norm-eps
    python resnet.py --out runs/other --change channels-last

A script as many people write one, in plain PyTorch. It writes `metrics.jsonl` and, at its end, `checkpoint.pt` into the
folder `--out`. A run takes some seconds on one core and has the same bits each time. `bench/envelope_power.py` runs it
often: are the faults found, and are the harmless changes left alone?
"""

import argparse
import itertools
import json
import lzma
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

IMAGES = Path(__file__).resolve().parents[3] / "crates/lastbit-lab/assets/cifar10-small.lzma"
WIDTH, BATCH, LR, WARMUP, MOMENTUM, WEIGHT_DECAY = 8, 32, 0.1, 10, 0.9, 5e-4

BUGS = {
    "lr-1-percent": "the learning rate is 1 % too large",
    "decay-on-biases": "weight decay also applies to biases and norms",
    "batch-norm-eps": "epsilon of batch norm is 1e-3 instead of 1e-5",
    "train-mode-in-eval": "batch norm takes the statistics of the batch in evaluation",
    "optimizer-not-restored": "a resume keeps the settings of the optimizer, but not its state",
    "data-order-after-resume": "a resume begins with the first batch again",
}
CHANGES = {
    "threads-2": "two threads",
    "mkldnn-off": "other kernels for convolutions",
    "channels-last": "another layout of the images in memory",
    "channels-last-but-norms": "another layout of the images in memory, but not for batch norm",
    "compiled": "torch.compile",
    "foreach": "the optimizer's implementation foreach",
    "fused": "the optimizer's implementation fused",
}


class Block(nn.Module):
    def __init__(self, inputs, outputs, stride, eps):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.norm1, self.norm2 = nn.BatchNorm2d(outputs, eps), nn.BatchNorm2d(outputs, eps)
        self.shortcut = nn.Identity() if stride == 1 else nn.Conv2d(inputs, outputs, 1, stride, bias=False)

    def forward(self, x):
        y = self.norm2(self.conv2(F.relu(self.norm1(self.conv1(x)))))
        return F.relu(y + self.shortcut(x))


class ResNet(nn.Module):
    def __init__(self, eps):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, WIDTH, 3, padding=1, bias=False), nn.BatchNorm2d(WIDTH, eps)
        self.blocks = nn.Sequential(
            Block(WIDTH, WIDTH, 1, eps), Block(WIDTH, 2 * WIDTH, 2, eps), Block(2 * WIDTH, 4 * WIDTH, 2, eps)
        )
        self.head = nn.Linear(4 * WIDTH, 10)

    def forward(self, x):
        return self.head(self.blocks(F.relu(self.norm(self.conv(x)))).mean((2, 3)))


def load_images():
    """Images and labels to train on and to evaluate on: the set `cifar10-small` of `lastbit data list`."""
    content = np.frombuffer(lzma.decompress(IMAGES.read_bytes()), np.uint8).copy()
    # Stored as differences from the same color of the pixel before (3 bytes before) and from the row above (96).
    for distance in (3, 96):
        for offset in range(distance):
            content[offset::distance] = np.cumsum(content[offset::distance], dtype=np.uint8)
    labels = torch.from_numpy(content[:1500].astype(np.int64))
    images = torch.from_numpy(content[1500:].reshape(1500, 32, 32, 3).transpose(0, 3, 1, 2).astype(np.float32))
    images = (images - images[:1200].mean((0, 2, 3), keepdim=True)) / images[:1200].std((0, 2, 3), keepdim=True)
    return images[:1200], labels[:1200], images[1200:], labels[1200:]


def batches(count, seed):
    """Batches for ever, in another order in each epoch."""
    generator = torch.Generator().manual_seed(seed)
    while True:
        yield from torch.randperm(count, generator=generator)[: count // BATCH * BATCH].split(BATCH)


def augment(images):
    """Random crops of the padded images, half of them flipped."""
    padded = F.pad(images, (4, 4, 4, 4))
    tops, lefts = torch.randint(9, (2, len(images))).tolist()
    crops = torch.stack([image[:, t : t + 32, x : x + 32] for image, t, x in zip(padded, tops, lefts)])
    flipped = torch.rand(len(images)) < 0.5
    return torch.where(flipped[:, None, None, None], crops.flip(3), crops)


def make_optimizer(model, bug, change):
    decayed = [p for p in model.parameters() if p.ndim >= 2 or bug == "decay-on-biases"]
    others = [p for p in model.parameters() if not (p.ndim >= 2 or bug == "decay-on-biases")]
    groups = [{"params": decayed, "weight_decay": WEIGHT_DECAY}, {"params": others, "weight_decay": 0.0}]
    lr = 1.01 * LR if bug == "lr-1-percent" else LR
    options = {change: True} if change in ("foreach", "fused") else {}
    return torch.optim.SGD([group for group in groups if group["params"]], lr=lr, momentum=MOMENTUM, **options)


@torch.no_grad()
def evaluate(model, images, labels, bug):
    model.train(bug == "train-mode-in-eval")
    logits = model(images)
    model.train()
    accuracy = (logits.argmax(1) == labels).float().mean()
    return {"eval_loss": F.cross_entropy(logits, labels).item(), "eval_accuracy": accuracy.item()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--stop-at", type=int, help="end here, with a checkpoint")
    parser.add_argument("--resume", type=Path, help="begin with this checkpoint")
    parser.add_argument("--double", action="store_true", help="train in float64")
    parser.add_argument("--bug", choices=BUGS)
    parser.add_argument("--change", choices=CHANGES)
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    torch.set_num_threads(2 if args.change == "threads-2" else 1)
    torch.backends.mkldnn.set_flags(_enabled=args.change != "mkldnn-off")
    torch.set_default_dtype(torch.float64 if args.double else torch.float32)
    has_other_layout = args.change in ("channels-last", "channels-last-but-norms")
    layout = torch.channels_last if has_other_layout else torch.contiguous_format

    images, labels, eval_images, eval_labels = load_images()
    images = images.to(torch.get_default_dtype())
    eval_images = eval_images.to(torch.get_default_dtype(), memory_format=layout)
    model = ResNet(eps=1e-3 if args.bug == "batch-norm-eps" else 1e-5).to(memory_format=layout)
    if args.change == "channels-last-but-norms":
        for norm in (module for module in model.modules() if isinstance(module, nn.BatchNorm2d)):
            norm.register_forward_pre_hook(lambda _, inputs: (inputs[0].contiguous(),))
    optimizer = make_optimizer(model, args.bug, args.change)
    warmup = torch.optim.lr_scheduler.LinearLR(optimizer, 0.1, total_iters=WARMUP)
    decay = torch.optim.lr_scheduler.MultiStepLR(optimizer, [args.steps // 2, args.steps * 3 // 4])
    scheduler = torch.optim.lr_scheduler.ChainedScheduler([warmup, decay])
    forward = torch.compile(model) if args.change == "compiled" else model

    first = 0
    if args.resume:
        state = torch.load(args.resume)
        first = state["step"]
        model.load_state_dict(state["model"])
        scheduler.load_state_dict(state["scheduler"])
        if args.bug == "optimizer-not-restored":
            state["optimizer"]["state"] = {}
        optimizer.load_state_dict(state["optimizer"])
        torch.set_rng_state(state["random"])
    skipped = 0 if args.bug == "data-order-after-resume" else first
    data = itertools.islice(batches(len(images), args.seed), skipped, None)

    args.out.mkdir(parents=True, exist_ok=True)
    with (args.out / "metrics.jsonl").open("a" if first else "w") as metrics:
        for step in range(first, args.stop_at or args.steps):
            row = {"step": step}
            if step % 20 == 0:
                row |= evaluate(forward, eval_images, eval_labels, args.bug)
            rows = next(data)
            loss = F.cross_entropy(forward(augment(images[rows]).to(memory_format=layout)), labels[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            scheduler.step()
            print(json.dumps(row | {"loss": loss.item()}), file=metrics, flush=True)
        last = step + 1
        if last == args.steps:
            print(json.dumps({"step": last} | evaluate(forward, eval_images, eval_labels, args.bug)), file=metrics)

    state = {"step": last, "random": torch.get_rng_state()}
    parts = {"model": model, "optimizer": optimizer, "scheduler": scheduler}
    torch.save(state | {name: part.state_dict() for name, part in parts.items()}, args.out / "checkpoint.pt")


if __name__ == "__main__":
    main()
