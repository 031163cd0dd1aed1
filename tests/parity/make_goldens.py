#!/usr/bin/env python3
"""Writes goldens/*.json with the PyTorch of the Python that runs it: make_goldens.py [KIND ...]"""
import json
import pathlib
import sys
import types

import torch

import golden_layers
import golden_mixed_precision
import golden_models
import golden_ops
import golden_optimizers
import golden_recurrent
import golden_schedules
import golden_sequences
import golden_vision

KINDS = {"ops": golden_ops, "layers": golden_layers, "optimizers": golden_optimizers, "models": golden_models,
         "schedules": golden_schedules, "mixed_precision": golden_mixed_precision, "vision": golden_vision, "sequences": golden_sequences,
         "recurrent": golden_recurrent}
KINDS["averages"] = types.SimpleNamespace(make=golden_optimizers.make_averages)
KINDS["fifty_steps"] = types.SimpleNamespace(make=golden_optimizers.make_fifty_steps)


def main():
    torch.set_num_threads(1)
    folder = pathlib.Path(__file__).resolve().parent / "goldens"
    folder.mkdir(exist_ok=True)
    for kind in sys.argv[1:] or KINDS:
        cases = KINDS[kind].make()
        # One case a line: small, and a change shows which case it touched.
        lines = ",\n".join(json.dumps(case, separators=(",", ":")) for case in cases)
        text = f'{{"pytorch":"{torch.__version__}","cases":[\n{lines}\n]}}\n'
        path = folder / f"{kind}.json"
        path.write_text(text)
        print(f"{path.relative_to(folder.parent)}: {len(cases)} cases, {len(text) / 1000:.0f} kB")


if __name__ == "__main__":
    main()
