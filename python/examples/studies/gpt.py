"""Train a small GPT on the characters of the Apache License, with a fault or a harmless change on request.

    python gpt.py --out runs/plain
    python gpt.py --out runs/faulty --bug lr-1-percent
    python gpt.py --out runs/other --change threads-2

A script as many people write one, in plain PyTorch. It writes `metrics.jsonl` and, at its end, `checkpoint.pt` into the
folder `--out`. A run takes some seconds on one core and has the same bits each time. `bench/envelope_power.py` runs it
often: are the faults found, and are the harmless changes left alone?
"""

import argparse
import itertools
import json
import math
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

TEXT = Path(__file__).resolve().parents[3] / "LICENSE-APACHE"
CONTEXT, WIDTH, HEADS, LAYERS = 64, 64, 4, 2
BATCH, LR, WARMUP, WEIGHT_DECAY = 8, 3e-3, 20, 0.1

BUGS = {
    "lr-1-percent": "the learning rate is 1 % too large",
    "decay-on-biases": "weight decay also applies to biases and norms",
    "dropped-micro-batch": "of each accumulation, only the last micro-batch counts",
    "loss-averaged-twice": "the loss is divided by the number of micro-batches twice",
    "dropout-in-eval": "dropout is active in evaluation",
    "optimizer-not-restored": "a resume keeps the settings of the optimizer, but not its state",
    "data-order-after-resume": "a resume begins with the first batch again",
}
CHANGES = {
    "threads-2": "two threads",
    "mkldnn-off": "other kernels for matrix products",
    "compiled": "torch.compile, with the random numbers of eager PyTorch",
    "compiled-own-random": "torch.compile, with random numbers of its own: other dropout masks",
    "foreach": "the optimizer's implementation foreach",
    "fused": "the optimizer's implementation fused",
    "one-batch": "the same examples as one batch, without accumulation: with dropout, other masks",
}


class Block(nn.Module):
    def __init__(self, dropout):
        super().__init__()
        self.dropout = dropout
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.proj = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        wide, narrow = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)
        self.mlp = nn.Sequential(wide, nn.GELU(), narrow, nn.Dropout(dropout))

    def forward(self, x):
        b, t, _ = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, t, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        dropout = self.dropout if self.training else 0.0
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, dropout_p=dropout)
        x = x + F.dropout(self.proj(y.transpose(1, 2).reshape(b, t, WIDTH)), self.dropout, self.training)
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    def __init__(self, characters, dropout):
        super().__init__()
        self.token, self.position = nn.Embedding(characters, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.Sequential(*(Block(dropout) for _ in range(LAYERS)))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, characters)

    def forward(self, x):
        return self.head(self.norm(self.blocks(self.token(x) + self.position.weight[: x.shape[1]])))


def load_text():
    """Windows of CONTEXT + 1 characters: to train on and to evaluate on."""
    text = TEXT.read_text()
    index = {character: i for i, character in enumerate(sorted(set(text)))}
    windows = torch.tensor([index[c] for c in text]).unfold(0, CONTEXT + 1, CONTEXT // 2)
    return windows[:-32], windows[-32:], len(index)


def batches(windows, seed):
    """Batches for ever, in another order in each epoch."""
    generator = torch.Generator().manual_seed(seed)
    while True:
        for rows in torch.randperm(len(windows), generator=generator)[: len(windows) // BATCH * BATCH].split(BATCH):
            yield windows[rows]


def make_optimizer(model, bug, change):
    decayed = [p for p in model.parameters() if p.ndim >= 2 or bug == "decay-on-biases"]
    others = [p for p in model.parameters() if not (p.ndim >= 2 or bug == "decay-on-biases")]
    groups = [{"params": decayed, "weight_decay": WEIGHT_DECAY}, {"params": others, "weight_decay": 0.0}]
    lr = 1.01 * LR if bug == "lr-1-percent" else LR
    options = {change: True} if change in ("foreach", "fused") else {}
    return torch.optim.AdamW([group for group in groups if group["params"]], lr=lr, betas=(0.9, 0.95), **options)


def warmup_cosine(steps):
    def factor(step):
        if step < WARMUP:
            return (step + 1) / WARMUP
        return 0.05 + 0.95 * 0.5 * (1 + math.cos(math.pi * (step - WARMUP) / (steps - WARMUP)))

    return factor


def loss_of(model, windows):
    logits = model(windows[:, :-1])
    return F.cross_entropy(logits.flatten(0, 1), windows[:, 1:].flatten()), logits


@torch.no_grad()
def evaluate(model, windows, bug):
    model.train(bug == "dropout-in-eval")
    loss, logits = loss_of(model, windows)
    accuracy = (logits.argmax(-1) == windows[:, 1:]).float().mean()
    model.train()
    return {"eval_loss": loss.item(), "eval_accuracy": accuracy.item()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--stop-at", type=int, help="end here, with a checkpoint")
    parser.add_argument("--resume", type=Path, help="begin with this checkpoint")
    parser.add_argument("--dropout", type=float, default=0.1)
    parser.add_argument("--bug", choices=BUGS)
    parser.add_argument("--change", choices=CHANGES)
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    torch.set_num_threads(2 if args.change == "threads-2" else 1)
    torch.backends.mkldnn.set_flags(_enabled=args.change != "mkldnn-off")
    accumulation = 1 if args.change == "one-batch" else 2

    train_set, eval_set, characters = load_text()
    model = GPT(characters, args.dropout)
    optimizer = make_optimizer(model, args.bug, args.change)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, warmup_cosine(args.steps))
    forward = model
    if args.change in ("compiled", "compiled-own-random"):
        torch._inductor.config.fallback_random = args.change == "compiled"
        forward = torch.compile(model)

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
    data = itertools.islice(batches(train_set, args.seed), skipped, None)

    args.out.mkdir(parents=True, exist_ok=True)
    with (args.out / "metrics.jsonl").open("a" if first else "w") as metrics:
        for step in range(first, args.stop_at or args.steps):
            row = {"step": step}
            if step % 20 == 0:
                row |= evaluate(forward, eval_set, args.bug)
            loss_sum = 0.0
            for micro_batch in next(data).chunk(accumulation):
                loss, _ = loss_of(forward, micro_batch)
                loss = loss / accumulation
                loss_sum += loss.item()
                if args.bug == "dropped-micro-batch":
                    optimizer.zero_grad()
                if args.bug == "loss-averaged-twice":
                    loss = loss / accumulation
                loss.backward()
            grad_norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
            print(json.dumps(row | {"loss": loss_sum, "grad_norm": grad_norm.item()}), file=metrics, flush=True)
        last = step + 1
        if last == args.steps:
            print(json.dumps({"step": last} | evaluate(forward, eval_set, args.bug)), file=metrics)

    state = {"step": last, "random": torch.get_rng_state()}
    parts = {"model": model, "optimizer": optimizer, "scheduler": scheduler}
    torch.save(state | {name: part.state_dict() for name, part in parts.items()}, args.out / "checkpoint.pt")


if __name__ == "__main__":
    main()
