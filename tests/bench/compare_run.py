"""Runs one side once and says what it took."""
import dataclasses
import json
import math
import os
import pathlib
import subprocess
import tempfile
import time

from compare_workloads import RANKS

HERE = pathlib.Path(__file__).resolve().parent
TIME_LIMIT_S = 600


class RunFailed(Exception):
    pass


@dataclasses.dataclass
class Result:
    step_ms: float  # median
    samples_per_s: float  # all ranks, over the whole of the timed steps
    loss: float
    parameters: int
    peak_bytes: int  # highest proportional set size of a rank
    startup_ms: float  # command typed to first step done
    wall_ms: float  # command typed to its end


def limit_step_ms(bin_folder, workload):
    """Milliseconds of a step whose kernels take what they would at their limits, on one thread of a rank."""
    return measured_step(bin_folder, workload)["limit_ms"]


def kernel_times(bin_folder, workload):
    """Name and milliseconds of each kernel of the workload's step alone, in the plan's order."""
    return [(kernel["kernel"], kernel["ms"]) for kernel in measured_step(bin_folder, workload)["kernels"]]


def measured_step(bin_folder, workload):
    output, _ = run([str(bin_folder / "limits"), "--step", "--amp", workload.amp, "--json", workload.name_in_limits])
    return json.loads(output)[0]


def environment():
    return os.environ | {"OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}


def run(command):
    """Standard output, and wall time in ms."""
    begin = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment())
    try:
        output, errors = process.communicate(timeout=TIME_LIMIT_S)
    except subprocess.TimeoutExpired:
        process.terminate()
        process.communicate()  # until its ranks have ended, too: they would slow what comes next
        raise RunFailed(f"{' '.join(command)}: not done after {TIME_LIMIT_S} s") from None
    wall_ms = (time.perf_counter() - begin) * 1e3
    if process.returncode != 0:
        raise RunFailed(f"{' '.join(command)}: exit code {process.returncode}\n{errors[-2000:]}")
    return output, wall_ms


def figures_in(output):
    """What torch_ddp.py prints."""
    line = next((line for line in reversed(output.splitlines()) if line.startswith("{")), None)
    if line is None:
        raise RunFailed(f"torch_ddp.py printed no figures:\n{output[-2000:]}")
    figures = json.loads(line)
    if not math.isfinite(figures["loss"]):  # arithmetic with NaN has a speed of its own; our trainer ends with 6
        raise RunFailed(f"PyTorch's loss is {figures['loss']}")
    return figures


def run_peer(python, workload, variant_options):
    command = [python, "-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={RANKS}",
               str(HERE / "torch_ddp.py"), "--workload", workload.peer_workload, "--batch", str(workload.batch),
               "--steps", str(workload.peer_steps), "--warmup", "2" if workload.is_long else "5",
               "--bind", "--no_sync_steps", "0", "--started", str(time.time()), *variant_options]
    output, wall_ms = run(command)
    figures = figures_in(output)
    return Result(figures["step_ms"], figures["samples_s"], figures["loss"], figures["params"],
                  figures["peak_memory_bytes"], figures["startup_ms"], wall_ms)


def run_trainer(bin_folder, trainer_options):
    """`launch trainer` with these options in a folder of its own that goes away again."""
    with tempfile.TemporaryDirectory(prefix="lockstep-compare-") as folder:
        command = [str(bin_folder / "launch"), f"--nproc_per_node={RANKS}", str(bin_folder / "trainer"), "train",
                   *trainer_options, "--threads", "1", "--eval-every", "0", "--run-dir", f"{folder}/run", "--quiet"]
        _, wall_ms = run(command)
        summary = json.loads(pathlib.Path(folder, "run", "summary.json").read_text())
    return Result(summary["step_ms"]["median"], summary["samples_per_s"], summary["final_loss"],
                  summary["parameters"], summary["peak_memory_bytes"], summary["startup_ms"], wall_ms)


def run_ours(bin_folder, workload):
    return run_trainer(bin_folder, [
        "--model", workload.our_model, "--dataset", "synthetic", "--batch-size", str(workload.batch),
        "--max-steps", str(workload.our_steps), "--amp", workload.amp, *workload.trainer_options])


def run_startup(bin_folder, dataset):
    """mlp for a single step."""
    return run_trainer(bin_folder, ["--model", "mlp", "--dataset", dataset, "--max-steps", "1"])
