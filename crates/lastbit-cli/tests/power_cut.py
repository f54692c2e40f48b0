#!/usr/bin/env python3
"""Power cuts: what the disk may hold after one, and what the program makes of it.

    power_cut.py PROGRAM [--states N] [--seed S]

A training and an exhibit are run once under strace. Its calls are replayed into states of the disk that a journaling
file system may leave behind when the power fails after any of them:

- Contents that were not synced are lost, cut off anywhere, replaced by zeros, or there.
- Names that were created, renamed or removed, in a folder that was not synced since, are as before or as after, each by
  itself and in any order.
- What was synced is there. Syncing a file says nothing about its name.

In each state the program is run again. It must end well, with the bytes of a run without a power cut. Lock files are left
out: whoever finds one from before the start of the machine waits 30 s, which is tested elsewhere.
"""

import argparse
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

CONFIG = """
data = { name = "mnist01", limit = 48, test-limit = 16 }
network = { kind = "cnn", channels = [2], kernel = 5, stride = 4 }
optimizer = { name = "nesterov", dt = 0.05 }
training = { epochs = 2, batch = 16, metrics-every = 1, checkpoint-every = 2 }
attribution = { every = 2 }
replicas = { k = [1, 3] }
"""
COMMANDS = {
    "training": "train config.toml --out out --resume --threads 1",
    "exhibit": "run fig-heat --scale smoke --out out --threads 1",
}
CALLS = (
    "open,openat,creat,close,write,pwrite64,writev,lseek,ftruncate,fsync,fdatasync,rename,renameat,renameat2,unlink,"
    "unlinkat,rmdir,mkdir,mkdirat,link,linkat,fcntl,dup,copy_file_range,sendfile"
)


def run(program, arguments, folder, prefix=()):
    command = [*prefix, program, *arguments.split()]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=600)


def calls(text):
    """Each finished call as (name, arguments, result); calls of several threads are put together."""
    begun = {}
    for line in text.splitlines():
        process, _, call = line.partition(" ")
        call = call.strip()
        if call.endswith("<unfinished ...>"):
            begun[process] = call.removesuffix("<unfinished ...>")
            continue
        if resumed := re.match(r"<\.\.\. \w+ resumed>", call):
            call = begun.pop(process) + call[resumed.end() :]
        if found := re.fullmatch(r"(\w+)\((.*)\)\s+= (-?\d+).*", call):
            yield found[1], found[2], int(found[3])


class Trace:
    """The calls below `root` as operations on numbered files and folders.

    ("name", folder, name, file or None)    an entry of a folder appears, changes or goes
    ("move", folder, from, to, file)        an entry is renamed
    ("write", file, offset, bytes), ("cut", file, length), ("sync", file or folder)
    """

    def __init__(self, text, root):
        self.root, self.operations = root, []
        self.folders, self.lengths, self.open = {0: {}}, {}, {}
        for name, arguments, result in calls(text):
            if result >= 0:
                self.add(name, arguments, result)

    def place(self, text):
        """The folder, the name in it, and what is there."""
        path = os.path.relpath(os.path.join(os.path.dirname(self.root), text), self.root)
        if path.startswith(".."):
            return None, None, None
        if path == ".":
            return None, None, 0
        *above, name = path.split("/")
        folder = 0
        for part in above:
            folder = self.folders[folder][part]
        return folder, name, self.folders[folder].get(name)

    def create(self, folder, name, is_folder):
        number = len(self.folders) + len(self.lengths)
        if is_folder:
            self.folders[number] = {}
        else:
            self.lengths[number] = 0
        self.folders[folder][name] = number
        self.operations.append(("name", folder, name, number))
        return number

    def add(self, name, arguments, result):
        texts = [bytes.fromhex(t.replace("\\x", "")) for t in re.findall(r'"((?:\\x..)*)"', arguments)]
        paths = [t.decode() for t in texts] if not name.endswith(("write", "write64", "writev")) else []
        first = arguments.split(",")[0].strip()
        handle = self.open.get(int(first)) if first.isdigit() else None
        if name.endswith("at"):
            assert first == "AT_FDCWD", f"a path below an open folder: {name}({arguments})"
        if name in ("open", "openat", "creat"):
            folder, entry, number = self.place(paths[0])
            if number is None and folder is not None and "O_CREAT" in arguments:
                number = self.create(folder, entry, False)
            elif number is not None and "O_TRUNC" in arguments:
                self.cut(number, 0)
            self.open[result] = number is not None and [number, 0, "O_APPEND" in arguments]
        elif name in ("mkdir", "mkdirat"):
            folder, entry, number = self.place(paths[0])
            if folder is not None:
                self.create(folder, entry, True)
        elif name.startswith("rename"):
            (folder, entry, number), (to, target, _) = map(self.place, paths)
            if folder is not None:
                assert folder == to, "only within a folder"
                self.folders[folder][target] = self.folders[folder].pop(entry)
                self.operations.append(("move", folder, entry, target, number))
        elif name in ("unlink", "unlinkat", "rmdir"):
            folder, entry, _ = self.place(paths[0])
            if folder is not None:
                del self.folders[folder][entry]
                self.operations.append(("name", folder, entry, None))
        elif not handle:
            assert name in ("close", "fcntl", "dup", "lseek") or "write" in name or "sync" in name, (name, arguments)
        elif name in ("write", "writev", "pwrite64"):
            data = b"".join(texts)[:result]
            offset = self.lengths[handle[0]] if handle[2] else handle[1]
            if name == "pwrite64":
                offset = int(arguments.split(",")[-1])
            else:
                handle[1] = offset + len(data)
            self.lengths[handle[0]] = max(self.lengths[handle[0]], offset + len(data))
            self.operations.append(("write", handle[0], offset, data))
        elif name == "lseek":
            handle[1] = result
        elif name == "ftruncate":
            self.cut(handle[0], int(arguments.split(",")[1]))
        elif name in ("fsync", "fdatasync"):
            self.operations.append(("sync", handle[0]))
        elif name == "close":
            del self.open[int(first)]
        elif name == "fcntl" and "F_DUPFD" in arguments:
            self.open[result] = handle
        else:
            assert name == "fcntl", (name, arguments)

    def cut(self, number, length):
        self.lengths[number] = length
        self.operations.append(("cut", number, length))


def after(operations):
    """The contents of a file after these operations."""
    data = bytearray()
    for kind, _, at, *written in operations:
        data.extend(bytes(max(0, at - len(data))))
        if kind == "write":
            data[at : at + len(written[0])] = written[0]
        else:
            del data[at:]
    return bytes(data)


def contents(synced, late, how, draw):
    """What a file may hold of operations that were synced and of later ones."""
    if how == "any":
        how = draw.choice(["lost", "whole", "torn", "zeros"])
    if how == "torn" and late:
        count = draw.randrange(len(late))
        kind, number, at, *written = late[count]
        late = late[:count]
        if kind == "write":
            late.append((kind, number, at, written[0][: draw.randrange(len(written[0]) + 1)]))
    elif how == "zeros":
        late = [(*o[:3], bytes(len(o[3]))) if o[0] == "write" else o for o in late]
    return after(synced if how == "lost" else synced + late)


def state(trace, cut, names, how, draw):
    """Files and folders by path, if the power fails after `cut` operations."""
    operations = trace.operations[:cut]
    synced = {number: i for i, (kind, number, *_) in enumerate(operations) if kind == "sync"}
    folders, files = {0: {}}, {}
    for i, (kind, number, *rest) in enumerate(operations):
        is_late = i > synced.get(number, -1)
        if kind in ("write", "cut"):
            files.setdefault(number, ([], []))[is_late].append((kind, number, *rest))
        elif kind != "sync" and not (is_late and (names == "lost" or names == "any" and draw.random() < 0.5)):
            *old, name, entry = rest
            entries = folders.setdefault(number, {})
            if old and entries.get(old[0]) == entry:
                del entries[old[0]]
            entries[name] = entry
    found = {}

    def walk(folder, path):
        for name, number in folders.get(folder, {}).items():
            if number in trace.folders:
                found[path + name] = None
                walk(number, f"{path}{name}/")
            elif number is not None and name != "lock":
                found[path + name] = contents(*files.get(number, ([], [])), how, draw)

    walk(0, "")
    return found


def survives(program, command, state, expected):
    """Runs the program in a state of the disk; what is wrong with what it leaves, if anything."""
    with tempfile.TemporaryDirectory() as folder:
        prepare(folder)
        for path, data in state.items():
            # The machine has started again: numbers of processes from before mean nothing, and an hour has passed.
            place = Path(folder, "out", re.sub(r"\.unfinished-[0-9a-f]{8}-", ".unfinished-00000000-", path))
            if data is None:
                place.mkdir(parents=True, exist_ok=True)
            else:
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_bytes(data)
            if place.name.startswith(".unfinished-"):
                os.utime(place, (time.time() - 2 * 3600,) * 2)
        ran = run(program, command, folder)
        if ran.returncode != 0:
            return f"exit code {ran.returncode}: {ran.stderr}"
        found = files_below(Path(folder, "out"))
        wrong = sorted(path for path in found.keys() | expected.keys() if found.get(path) != expected.get(path))
        return f"other bytes: {wrong}" if wrong else None


def prepare(folder):
    Path(folder, "config.toml").write_text(CONFIG)


def files_below(out):
    files = (path for path in out.rglob("*") if path.is_file() and path.name != "timing.json")
    return {str(path.relative_to(out)): path.read_bytes() for path in files}


def attack(program, what, command, count, seed):
    """Cuts the power in the work of one command; the number of states, and what went wrong."""
    with tempfile.TemporaryDirectory() as folder:
        prepare(folder)
        log = Path(folder, "calls")
        Path(folder, "out").mkdir()
        ran = run(program, command, folder, ["strace", "-f", "-xx", "-s", "100000000", "-e", CALLS, "-o", str(log)])
        assert ran.returncode == 0, ran.stderr
        expected = files_below(Path(folder, "out"))
        trace = Trace(log.read_text(), str(Path(folder, "out")))
    cuts = range(len(trace.operations) + 1)
    extremes = [("lost", "lost"), ("whole", "lost"), ("whole", "zeros"), ("whole", "torn"), ("lost", "whole"), ("any", "any")]
    draw, states = random.Random(seed), {}
    policies = [(cut, *policy) for cut in cuts for policy in extremes]
    draw.shuffle(policies)
    # Some policies give the same state; more are drawn until there are enough, or no more of them.
    policies += [(draw.choice(cuts), "any", "any") for _ in range(10 * count)]
    for cut, names, how in policies:
        if len(states) >= count:
            break
        found = state(trace, cut, names, how, draw)
        states.setdefault(frozenset(found.items()), f"{what}, cut after {cut} of {len(cuts) - 1} calls, names {names}, contents {how}")
    whole = state(trace, len(trace.operations), "whole", "whole", draw)
    replayed = {path: data for path, data in whole.items() if data is not None and not path.endswith("timing.json")}
    assert replayed == expected, "the replay of all calls must be what the run left"
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        outcomes = pool.map(lambda found: survives(program, command, dict(found), expected), states)
        wrong = [f"{label}: {outcome}" for label, outcome in zip(states.values(), outcomes) if outcome]
    print(f"{what}: {len(cuts) - 1} calls, {len(states)} states after a power cut, {len(wrong)} wrong")
    return wrong


def main():
    parser = argparse.ArgumentParser(description="Power cuts: every state must resume to the same bytes.")
    parser.add_argument("program", type=os.path.abspath)
    parser.add_argument("--states", type=int, default=40, help="states to try of each command")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    wrong = []
    for what, command in COMMANDS.items():
        wrong += attack(options.program, what, command, options.states, options.seed)
    print("\n".join(wrong))
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
