#!/usr/bin/env python3
"""Lockstep beside PyTorch on one GPU: samples/s of the standard workloads, a JSON line each, then their ratios. PyTorch runs
eager, with a fused optimizer, and compiled with that, where there are convolutions in channels_last too; the fastest counts,
and there is no ratio unless all ran. Both multiply in fp32 and convolve in TF32, as PyTorch does by itself, or compute in bf16.
Must: twice its samples/s at batch 64, 1.2 times at 4096; --large: its samples/s with the models that people train in bf16."""
import argparse
import dataclasses
import json
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests/bench"))
import compare_workloads  # noqa: E402

NAMES = ("mlp", "convnet", "simplecnn", "linear")
MUSTS = {64: 2.0, 4096: 1.2}
LARGE_MUST = 1.0
STEPS = {64: 400, 4096: 60}
LIMIT_S = 90  # the first torch.compile of a machine takes most of it


@dataclasses.dataclass(frozen=True)
class Case:
    """A workload as it runs here."""
    name: str
    batch: int
    steps: int
    model: str
    trainer_options: tuple
    peer: str
    peer_variants: dict


def small_cases(batch):
    workloads = {workload.name: workload for workload in compare_workloads.WORKLOADS}
    return [Case(name, batch, STEPS[batch], workload.our_model, workload.trainer_options, workload.peer_workload,
                 variants_of(workload.peer_variants()))
            for name, workload in ((name, workloads[name]) for name in NAMES)]


def large_cases():
    """In bf16, at batches of a GPU and gpt2's full length. PyTorch with the fused optimizer, convolutions in channels_last."""
    of = {"gpt2": (16, 20, (*compare_workloads.ADAMW, "--model-args", "dropout=0")),
          "resnet50": (256, 20, compare_workloads.IMAGENET), "lstm": (128, 60, compare_workloads.ADAM),
          "transformer": (64, 60, compare_workloads.TRANSFORMER), "rnn": (128, 100, compare_workloads.ADAM)}
    cases = []
    for name, (batch, steps, options) in of.items():
        peer = ("--amp", "bf16", "--tuned", *(("--channels_last",) if name == "resnet50" else ()))
        cases.append(Case(name, batch, steps, name, (*options, "--amp", "bf16"), name,
                          {"tuned": peer, "compile+tuned": (*peer, "--compile")}))
    return cases


def variants_of(variants):
    """But for those that are compiled without the fused optimizer: it costs nothing, and compiling takes most of the time."""
    return {name: options for name, options in variants.items() if "--compile" not in options or "--tuned" in options}


def output_of(command, **more):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=LIMIT_S, check=False, **more)
    if done.returncode != 0:
        raise RuntimeError(f"exit code {done.returncode}: {(done.stderr.strip().splitlines() or [''])[-1]}")
    return done.stdout


def ours(options, case):
    with tempfile.TemporaryDirectory() as folder:
        run = pathlib.Path(folder) / "run"
        output_of([options.bin / "trainer", "--device", "cuda:0", "--model", case.model, "--dataset", "synthetic",
                   *case.trainer_options, "--samples", 4 * case.batch, "--batch-size", case.batch,
                   "--max-steps", case.steps, "--eval-every", 0, "--matmul-precision", "highest",
                   "--conv-precision", "tf32", "--quiet", "--run-dir", run], env=os.environ | options.libraries)
        summary = json.loads((run / "summary.json").read_text())
    return {name: summary[name] for name in ("samples_per_s", "step_ms", "startup_ms")}


def theirs(case, variant):
    output = output_of([sys.executable, ROOT / "tests/bench/torch_ddp.py", "--workload", case.peer,
                        "--batch", case.batch, "--steps", case.steps, *variant])
    return json.loads(output.splitlines()[-1])["samples_s"]


def or_why_not(measure, *arguments):
    """What it measured, or a text."""
    try:
        return measure(*arguments)
    except (RuntimeError, OSError, subprocess.TimeoutExpired) as failure:
        return f"failed: {failure}"


def ratio_of(options, case):
    """None where there is none. Prints what was measured."""
    mine = or_why_not(ours, options, case)
    peer = {name: or_why_not(theirs, case, variant) for name, variant in case.peer_variants.items()}
    is_whole = not any(isinstance(figure, str) for figure in (mine, *peer.values()))
    ratio = mine["samples_per_s"] / max(peer.values()) if is_whole else None
    print(json.dumps({"model": case.name, "batch": case.batch, "ours": mine, "peer": peer, "ratio": ratio}), flush=True)
    return ratio


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "build/cuda-sm90/bin")
    parser.add_argument("--libraries", type=lambda folders: {"LD_LIBRARY_PATH": folders}, default={},
                        help="LD_LIBRARY_PATH of our programs alone: PyTorch brings its own libraries")
    parser.add_argument("--batch", type=int, choices=MUSTS, default=64)
    parser.add_argument("--large", action="store_true", help="models that people train, at batches of their own")
    options = parser.parse_args()
    cases = large_cases() if options.large else small_cases(options.batch)
    ratios = {case.name: ratio_of(options, case) for case in cases}
    must = LARGE_MUST if options.large else MUSTS[options.batch]
    print(f"times PyTorch's samples/s (must {must}): "
          + ", ".join(f"{name} {ratio:.2f}" if ratio else f"{name} not compared" for name, ratio in ratios.items()))
    return 0 if all(ratio is not None and ratio >= must for ratio in ratios.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
