"""Makes the data files of this folder: python3 make.py (standard library only, the same bytes every time)."""

import json
import math
import random
import struct
import zlib


def write_csv(name, header, rows):
    with open(name, "w", newline="\n") as file:
        file.write(",".join(header) + "\n")
        file.writelines(",".join(str(value) for value in row) + "\n" for row in rows)


def write_png(name, rows):
    """8-bit grey levels, one list for each row."""

    def chunk(kind, data):
        checksum = struct.pack(">I", zlib.crc32(kind + data))
        return struct.pack(">I", len(data)) + kind + data + checksum

    header = struct.pack(">IIBBBBB", len(rows[0]), len(rows), 8, 0, 0, 0, 0)
    pixels = zlib.compress(b"".join(b"\0" + bytes(row) for row in rows), 9)
    with open(name, "wb") as file:
        file.write(b"\x89PNG\r\n\x1a\n")
        file.write(chunk(b"IHDR", header) + chunk(b"IDAT", pixels) + chunk(b"IEND", b""))


def write_safetensors(name, tensors):
    """Tensors of f64 by name: (shape, values)."""
    header, data = {}, b""
    for key, (shape, values) in tensors.items():
        end = len(data) + 8 * len(values)
        header[key] = {"dtype": "F64", "shape": shape, "data_offsets": [len(data), end]}
        data += struct.pack(f"<{len(values)}d", *values)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(name, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


draw = random.Random(1)

# A step, a ramp and noise on 100 points.
signal = [(0.0 if x < 30 else 1.0 if x < 60 else (100 - x) / 40) + draw.gauss(0, 0.05) for x in range(100)]
write_csv("signal.csv", ["u"], [[round(value, 4)] for value in signal])

# A disc and a square on a gradient, with noise: 48 x 48 grey levels.
photo = []
for y in range(48):
    row = []
    for x in range(48):
        level = 60 + 2 * x
        if (x - 17) ** 2 + (y - 20) ** 2 < 100:
            level = 220
        if 28 <= x < 42 and 26 <= y < 40:
            level = 30
        row.append(max(0, min(255, round(level + draw.gauss(0, 8)))))
    photo.append(row)
write_png("photo.png", photo)

# 24 points of a sine with noise.
points = [-3 + 6 * i / 23 for i in range(24)]
write_csv("curve.csv", ["x", "y"], [[round(x, 4), round(math.sin(x) + draw.gauss(0, 0.1), 4)] for x in points])

# First weights of a 1-6-5-1 network, by the names PyTorch would give them.
tensors, widths = {}, [1, 6, 5, 1]
for layer, (inputs, outputs) in enumerate(zip(widths, widths[1:]), start=1):
    bound = 1 / math.sqrt(inputs)
    tensors[f"fc{layer}.weight"] = ([outputs, inputs], [draw.uniform(-bound, bound) for _ in range(outputs * inputs)])
    tensors[f"fc{layer}.bias"] = ([outputs], [draw.uniform(-bound, bound) for _ in range(outputs)])
write_safetensors("start.safetensors", tensors)

# Test accuracies of two methods with the same ten seeds.
base = [93.2 + draw.gauss(0, 0.16) for _ in range(10)]
mine = [value + 0.25 + draw.gauss(0, 0.12) for value in base]
rows = [["base", seed, round(value, 2)] for seed, value in enumerate(base)]
rows += [["mine", seed, round(value, 2)] for seed, value in enumerate(mine)]
write_csv("results.csv", ["group", "seed", "value"], rows)
