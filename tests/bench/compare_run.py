"""Runs one side once and says what it took."""
import dataclasses
import json
import os
import pathlib
import subprocess
import tempfile
import threading
import time

from compare_workloads import RANKS

HERE = pathlib.Path(__file__).resolve().parent
TIME_LIMIT_S = 600
# Reading a PyTorch process's map takes milliseconds of a core: seldom enough not to slow it by one per cent.
SAMPLE_EVERY_S = 1.0


class RunFailed(Exception):
    pass


@dataclasses.dataclass
class Result:
    step_ms: float  # median
    samples_per_s: float  # all ranks, over the whole of the timed steps
    loss: float
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
    done = subprocess.run([bin_folder / "limits", "--step", "--amp", workload.amp, "--json", workload.name_in_limits],
                          capture_output=True, text=True, env=environment(), timeout=TIME_LIMIT_S, check=False)
    if done.returncode != 0:
        raise RunFailed(f"limits ended with {done.returncode}: {done.stderr.strip()}")
    return json.loads(done.stdout)[0]


def environment():
    return os.environ | {"OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}


def workers_of(pid):
    """Processes started by `pid` that have a RANK: not the helpers that they start themselves."""
    try:
        children = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return [child for child in children if b"\0RANK=" in b"\0" + pathlib.Path(f"/proc/{child}/environ").read_bytes()]
    except OSError:  # gone meanwhile
        return []


def proportional_set_size(pid):
    try:
        for line in pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return 0


class PeakMemory(threading.Thread):
    """The highest proportional set size of any worker of a launcher, until stopped."""

    def __init__(self, launcher_pid):
        super().__init__(daemon=True)
        self.launcher_pid, self.peak, self.stopped = launcher_pid, 0, threading.Event()

    def run(self):
        while not self.stopped.wait(SAMPLE_EVERY_S):
            for worker in workers_of(self.launcher_pid):
                self.peak = max(self.peak, proportional_set_size(worker))

    def stop(self):
        self.stopped.set()
        self.join()
        return self.peak


def run(command, watch_memory=False):
    """Standard output, wall time in ms and, if watched, peak memory."""
    begin = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment())
    memory = PeakMemory(process.pid)
    if watch_memory:
        memory.start()
    try:
        output, errors = process.communicate(timeout=TIME_LIMIT_S)
    except subprocess.TimeoutExpired:
        process.terminate()
        raise RunFailed(f"{' '.join(command)}: not done after {TIME_LIMIT_S} s") from None
    finally:
        peak = memory.stop() if watch_memory else 0
    wall_ms = (time.perf_counter() - begin) * 1e3
    if process.returncode != 0:
        raise RunFailed(f"{' '.join(command)}: exit code {process.returncode}\n{errors[-2000:]}")
    return output, wall_ms, peak


def run_peer(python, workload, variant_options):
    command = [python, "-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={RANKS}",
               str(HERE / "torch_ddp.py"), "--workload", workload.peer_workload, "--batch", str(workload.batch),
               "--steps", str(workload.peer_steps), "--warmup", "2" if workload.is_long else "5",
               "--no_sync_steps", "0", "--started", str(time.time()), *variant_options]
    output, wall_ms, peak = run(command, watch_memory=True)
    line = next(line for line in reversed(output.splitlines()) if line.startswith("{"))
    figures = json.loads(line)
    return Result(figures["step_ms"], figures["samples_s"], figures["loss"], peak, figures["startup_ms"], wall_ms)


def run_trainer(bin_folder, trainer_options):
    """`launch trainer` with these options in a folder of its own that goes away again."""
    with tempfile.TemporaryDirectory(prefix="lockstep-compare-") as folder:
        command = [str(bin_folder / "launch"), f"--nproc_per_node={RANKS}", str(bin_folder / "trainer"), "train",
                   *trainer_options, "--threads", "1", "--eval-every", "0", "--run-dir", f"{folder}/run", "--quiet"]
        _, wall_ms, _ = run(command)
        summary = json.loads(pathlib.Path(folder, "run", "summary.json").read_text())
    return Result(summary["step_ms"]["median"], summary["samples_per_s"], summary["final_loss"],
                  summary["peak_memory_bytes"], summary["startup_ms"], wall_ms)


def run_ours(bin_folder, workload):
    return run_trainer(bin_folder, [
        "--model", workload.our_model, "--dataset", "synthetic", "--batch-size", str(workload.batch),
        "--max-steps", str(workload.our_steps), "--amp", workload.amp, *workload.trainer_options])


def run_startup(bin_folder, dataset):
    """mlp for a single step."""
    return run_trainer(bin_folder, ["--model", "mlp", "--dataset", dataset, "--max-steps", "1"])
