"""Writes delta_columns.safetensors: the gated delta rule in float64, some columns of a few heads. Standard library only.

    python3 delta_columns.py

An implementation of its own, against which the project's FP64 reference is held: it decays the state first and keeps the
HF conventions (value head h reads key head h // rep, q already times 1/sqrt(128), state [head][key][value]). Columns of
the state never interact, so three of 128 show everything and keep the file small; `columns` names them. q is float64, so
that undoing the scale gives back exact float32 values.
"""
import json
import math
import random
import struct

D, KEYS, REP, TOKENS, COLUMNS = 128, 2, 3, 6, (0, 37, 127)
HEADS = KEYS * REP


def f32(x):
    return struct.unpack("<f", struct.pack("<f", x))[0]


def unit(rng):
    raw = [rng.gauss(0, 1) for _ in range(D)]
    norm = math.sqrt(sum(x * x for x in raw) + 1e-6)
    return [f32(x / norm) for x in raw]


def main():
    rng = random.Random(20260214)
    q = [[unit(rng) for _ in range(KEYS)] for _ in range(TOKENS)]
    k = [[unit(rng) for _ in range(KEYS)] for _ in range(TOKENS)]
    v = [[[f32(rng.gauss(0, 1)) for _ in COLUMNS] for _ in range(HEADS)] for _ in range(TOKENS)]
    g = [[f32(-math.exp(rng.uniform(-3, 0.5))) for _ in range(HEADS)] for _ in range(TOKENS)]
    beta = [[f32(rng.random()) for _ in range(HEADS)] for _ in range(TOKENS)]
    state0 = [[[f32(rng.gauss(0, 0.3)) for _ in COLUMNS] for _ in range(D)] for _ in range(HEADS)]
    q_scaled = [[[x / math.sqrt(D) for x in row] for row in token] for token in q]

    state = [[row[:] for row in head] for head in state0]
    out = []
    for t in range(TOKENS):
        out.append([])
        for h in range(HEADS):
            s, kk, qq = state[h], k[t][h // REP], q_scaled[t][h // REP]
            for c in range(len(COLUMNS)):
                column = [math.exp(g[t][h]) * s[r][c] for r in range(D)]
                write = beta[t][h] * (v[t][h][c] - math.fsum(column[r] * kk[r] for r in range(D)))
                for r in range(D):
                    s[r][c] = column[r] + kk[r] * write
            out[t].append([math.fsum(s[r][c] * qq[r] for r in range(D)) for c in range(len(COLUMNS))])

    arrays = {"q": (q_scaled, "d"), "k": (k, "f"), "v": (v, "f"), "g": (g, "f"), "beta": (beta, "f"),
              "state0": (state0, "f"), "out_f64": (out, "d"), "state_f64": (state, "d"),
              "columns": (list(map(float, COLUMNS)), "f")}
    header, data = {}, b""
    for name, (values, kind) in arrays.items():
        shape, flat = dimensions(values), values
        for _ in shape[1:]:
            flat = [x for part in flat for x in part]
        raw = struct.pack(f"<{len(flat)}{kind}", *flat)
        dtype, end = {"f": "F32", "d": "F64"}[kind], len(data) + len(raw)
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), end]}
        data += raw
    head = json.dumps(header).encode()
    head += b" " * (-len(head) % 8)
    with open("delta_columns.safetensors", "wb") as file:
        file.write(struct.pack("<Q", len(head)) + head + data)


def dimensions(values):
    return [len(values)] + dimensions(values[0]) if isinstance(values, list) else []


if __name__ == "__main__":
    main()
