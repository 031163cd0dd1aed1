#!/usr/bin/env python3
"""Lockstep beside PyTorch on one GPU: samples/s of the standard workloads, a JSON line each. PyTorch runs eager and compiled,
channels_last where there are convolutions; the fastest counts. Both multiply in
fp32 and convolve in TF32, as PyTorch does by itself. Must: twice its samples/s at batch 64, 1.2 times at 4096."""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Lockstep's options and PyTorch's for the same data.
WORKLOADS = {"linear": [], "mlp": ["--image-shape", "1x28x28"], "simplecnn": ["--image-shape", "3x14x14"],
             "convnet": ["--image-shape", "1x28x28"]}
CONVOLUTIONS = {"simplecnn", "convnet"}
MUSTS = {64: 2.0, 4096: 1.2}
STEPS = {64: 400, 4096: 60}
LIMIT_S = 40


def ours(options, model, batch):
    with tempfile.TemporaryDirectory() as folder:
        run = pathlib.Path(folder) / "run"
        command = [options.bin / "trainer", "--device", "cuda:0", "--model", model, "--dataset", "synthetic", *WORKLOADS[model],
                   "--samples", str(4 * batch), "--batch-size", str(batch), "--max-steps", str(STEPS[batch]), "--eval-every", "0",
                   "--matmul-precision", "highest", "--conv-precision", "tf32", "--quiet", "--run-dir", run]
        subprocess.run([str(word) for word in command], check=True, timeout=LIMIT_S, env=os.environ | options.libraries)
        return json.loads((run / "summary.json").read_text())


def peer(model, batch, *variant):
    command = [sys.executable, ROOT / "tests/bench/torch_ddp.py", "--workload", model, "--batch", str(batch), "--steps",
               str(STEPS[batch]), *variant]
    try:
        output = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=LIMIT_S, check=True).stdout
    except (subprocess.TimeoutExpired, subprocess.CalledProcessError):
        return None
    return json.loads(output.splitlines()[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "build/cuda/bin")
    parser.add_argument("--libraries", type=lambda folders: {"LD_LIBRARY_PATH": folders}, default={},
                        help="LD_LIBRARY_PATH of our programs alone: PyTorch brings its own libraries")
    options = parser.parse_args()
    missed = 0
    for batch, must in MUSTS.items():
        for model in WORKLOADS:
            variants = [[], ["--compile"], *([["--channels_last"]] if model in CONVOLUTIONS else [])]
            runs = {" ".join(variant) or "eager": peer(model, batch, *variant) for variant in variants}
            rates = {name: run["samples_s"] for name, run in runs.items() if run}
            mine = ours(options, model, batch)
            best = max(rates, key=rates.get, default=None)
            ratio = mine["samples_per_s"] / rates[best] if best else None
            missed += ratio is not None and ratio < must
            print(json.dumps({"model": model, "batch": batch, "samples_per_s": mine["samples_per_s"], "step_ms": mine["step_ms"],
                              "startup_ms": mine["startup_ms"], "peer": rates, "ratio": ratio, "must": must}), flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
