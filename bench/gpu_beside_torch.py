"""A training step of ResNet-56 on a CUDA GPU, beside PyTorch on the same one.

    cargo bench -p lastbit-cuda --bench gpu_steps --no-run      # prints the path of the program, GPU_STEPS below
    python bench/gpu_beside_torch.py --lastbit GPU_STEPS [--replicas 1 6 36] [--json FILE]

Batches of 128 images of 32x32, SGD with momentum 0.9 and weight decay 5e-4. Prints a line of JSON for
each way: milliseconds of device time for one step of one network, median of the rounds, and GiB of
device memory for each replica; then all of them side by side. `--json` writes them to a file, with the
device and its driver. PyTorch's ways, each without and with TF32:

    turns      networks stepped one after the other, eager, deterministic: the authors' way
    graph      one network, the whole step in a CUDA graph
    compiled   one network by torch.compile, the whole step in a CUDA graph, fastest algorithms instead of
               deterministic ones; also in bfloat16 (autocast)
    vmap       torch.func.vmap over stacked networks, gradients by torch.func.grad, in a CUDA graph
"""

import argparse
import json
import statistics
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "reference"))

BATCH, DT, MOMENTUM, DECAY = 128, 0.1, 0.9, 5e-4
WARM_UP, ROUNDS, STEPS = 4, 5, 4
NETWORK = {"net": "resnet", "depth": 56, "shortcut": "conv", "act": {"name": "relu"},
           "norm": True, "input": [32, 32, 3], "outputs": 10}  # fmt: skip


def timed(torch, step, networks):
    """Milliseconds for one step of one network."""
    for _ in range(WARM_UP):
        step()
    rounds = []
    for _ in range(ROUNDS):
        first, last = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        first.record()
        for _ in range(STEPS):
            step()
        last.record()
        torch.cuda.synchronize()
        rounds.append(first.elapsed_time(last) / (STEPS * networks))
    return statistics.median(rounds)


def captured(torch, step):
    """The step as a CUDA graph; warmed up aside, as PyTorch asks for."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(WARM_UP):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph.replay


def turns(torch, replicas, in_graph, compiled=False, half=False):
    from networks_torch import build
    from torch.nn import functional as F

    networks = [build(NETWORK).cuda().to(memory_format=torch.channels_last) for _ in range(replicas)]
    optimizers = [
        torch.optim.SGD(n.parameters(), lr=DT, momentum=MOMENTUM, weight_decay=DECAY, foreach=True)
        for n in networks
    ]
    x = torch.randn(BATCH, 3, 32, 32, device="cuda").to(memory_format=torch.channels_last)
    y = torch.randint(10, (BATCH,), device="cuda")

    def loss(network):
        with torch.autocast("cuda", torch.bfloat16, enabled=half):
            return F.cross_entropy(network(x), y)

    forward = torch.compile(loss) if compiled else loss

    def step():
        for network, optimizer in zip(networks, optimizers):
            optimizer.zero_grad(set_to_none=not in_graph)
            forward(network).backward()
            optimizer.step()

    return timed(torch, captured(torch, step) if in_graph else step, replicas)


def vmapped(torch, replicas):
    from networks_torch import build
    from torch.func import functional_call, grad, stack_module_state, vmap
    from torch.nn import functional as F

    networks = [build(NETWORK).cuda() for _ in range(replicas)]
    # Running statistics would be written in place, which vmap cannot do for shared tensors.
    for network in networks:
        for module in network.modules():
            if isinstance(module, torch.nn.BatchNorm2d):
                module.track_running_stats = False
                module.running_mean = module.running_var = module.num_batches_tracked = None
    parameters, buffers = stack_module_state(networks)
    model = networks[0]
    x = torch.randn(BATCH, 3, 32, 32, device="cuda")
    y = torch.randint(10, (BATCH,), device="cuda")
    velocity = {name: torch.zeros_like(p) for name, p in parameters.items()}

    def loss(parameters, buffers):
        return F.cross_entropy(functional_call(model, (parameters, buffers), (x,)), y)

    gradients = vmap(grad(loss))

    @torch.no_grad()
    def step():
        found = gradients(parameters, buffers)
        for name, p in parameters.items():
            v = velocity[name].mul_(MOMENTUM).add_(found[name]).add_(p, alpha=DECAY)
            p.sub_(v, alpha=DT)

    return timed(torch, captured(torch, step), replicas)


def theirs(way, replicas, precision):
    """In a process of its own, so that each starts with an empty device."""
    import torch

    compiled = way == "compiled"
    torch.backends.cudnn.deterministic = not compiled
    torch.backends.cudnn.benchmark = compiled
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = precision != "f32"
    torch.manual_seed(0)
    if way == "vmap":
        time = vmapped(torch, replicas)
    else:
        time = turns(torch, replicas, way != "turns", compiled, precision == "bf16")
    memory = torch.cuda.max_memory_reserved() / replicas / 2**30
    print(json.dumps({"program": "torch " + torch.__version__, "way": way, "precision": precision,
                      "replicas": replicas, "ms_per_step_and_network": round(time, 3),
                      "gib_per_replica": round(memory, 2)}))  # fmt: skip


def said(command, what):
    """The lines of JSON that a program prints, passed on as they are."""
    done = subprocess.run(command, capture_output=True, text=True)
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if not lines:
        print(f"{what}: failed: {done.stderr.strip().splitlines()[-1:]}", flush=True)
    for line in lines:
        print(line, flush=True)
    return [json.loads(line) for line in lines]


def side_by_side(rows):
    """Each program and way with its times in each precision."""
    found = {}
    for row in rows:
        name = f"{row.get('program', 'lastbit')} {row.get('way', '')}".strip()
        times = found.setdefault((name, row["replicas"]), {})
        times[row["precision"]] = row["ms_per_step_and_network"]
    columns = ("f32", "tf32", "bf16")
    lines = [f"{'':28}{'replicas':>9}" + "".join(f"{c:>9}" for c in columns)]
    for (name, replicas), times in found.items():
        cells = "".join(f"{times[c]:9.2f}" if c in times else f"{'':9}" for c in columns)
        lines.append(f"{name:28}{replicas:9}{cells}")
    return "\n".join(lines)


def device():
    """Name and driver, as the driver's own tool says them."""
    asked = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    return subprocess.run(asked, capture_output=True, text=True).stdout.strip()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--lastbit", type=Path, help="path of the benchmark gpu_steps")
    parser.add_argument("--replicas", type=int, nargs="+", default=[1, 6, 36])
    parser.add_argument("--json", type=Path, help="where to write what was measured")
    parser.add_argument("--theirs", nargs=3, metavar=("WAY", "REPLICAS", "PRECISION"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.theirs:
        way, replicas, precision = args.theirs
        return theirs(way, int(replicas), precision)
    rows = []
    if args.lastbit:
        for precision in ("f32", "tf32"):
            counts = [str(n) for n in args.replicas]
            rows += said([args.lastbit, precision, *counts], "lastbit " + precision)
    several = [("vmap", n) for n in args.replicas if n > 1]
    for precision in ("f32", "tf32", "bf16"):
        ways = [("turns", 6), ("graph", 1), ("compiled", 1)] + several
        for way, replicas in ways if precision != "bf16" else [("compiled", 1)]:
            command = [sys.executable, __file__, "--theirs", way, str(replicas), precision]
            rows += said(command, f"{way}, {replicas} replicas, {precision}")
    print(side_by_side(rows))
    if args.json:
        args.json.write_text(json.dumps({"device": device(), "rows": rows}, indent=1) + "\n")

if __name__ == "__main__":
    main()
