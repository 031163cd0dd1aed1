"""Starts one rank on each of the two hosts of tests/cluster/hosts, each on a core of its own, and says what it took."""
import dataclasses
import json
import os
import pathlib
import subprocess
import sys
import tempfile

from compare_run import RunFailed, figures_in

HERE = pathlib.Path(__file__).resolve().parent
HOSTS = ("hostA", "hostB")
ADDRESS = "10.77.0.1"
TIME_LIMIT_S = 300
ENVIRONMENT = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1", "GLOO_SOCKET_IFNAME": "eth0",
                            "LOCKSTEP_TOKEN": "the-token-of-this-benchmark"}
TRAINING = ("--dataset", "synthetic", "--threads", "1", "--num-workers", "0", "--eval-every", "0", "--quiet")


@dataclasses.dataclass
class Ours:
    step_ms: float
    exposed_ms: float
    parameters: int
    sent_bytes: int  # by hostA, start and end of the run included


def run_on_hosts(commands, environments=({}, {})):
    """One command on each host at the same time, each bound to its core; their outputs."""
    running = [subprocess.Popen(["on_host", host, "taskset", "-c", str(core), *map(str, command)],
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=ENVIRONMENT | extra)
               for core, (host, command, extra) in enumerate(zip(HOSTS, commands, environments))]
    try:
        outputs = [process.communicate(timeout=TIME_LIMIT_S)[0] for process in running]
    finally:
        for process in running:
            process.kill()
    for command, process, output in zip(commands, running, outputs):
        if process.returncode != 0:
            raise RunFailed(f"{' '.join(map(str, command))}: exit code {process.returncode}\n{output[-2000:]}")
    return outputs


def sent_bytes():
    return int(subprocess.run(["link", "sent", "hostA"], capture_output=True, text=True, check=True).stdout)


def measure_bandwidth(seconds=3):
    """Bytes per second of one connection in each direction, both directions in use."""
    program = HERE / "wire_stream.py"
    outputs = run_on_hosts([[sys.executable, program, where, seconds] for where in ("listen", ADDRESS)])
    return min(map(float, outputs))


def summary_of(folder):
    return json.loads(pathlib.Path(folder, "summary.json").read_text())


def training(workload, batch, steps):
    return (*TRAINING, "--model", workload.our_model, *workload.trainer_options, "--batch-size", batch, "--max-steps", steps)


def run_alone(bin_folder, workload, batch, steps):
    """Milliseconds a step without exchange: on each host a run of one rank, both at once, as they share the machine."""
    with tempfile.TemporaryDirectory(prefix="lockstep-wire-") as folder:
        runs = [f"{folder}/{host}" for host in HOSTS]
        run_on_hosts([[bin_folder / "trainer", *training(workload, batch, steps), "--run-dir", run] for run in runs])
        return max(summary_of(run)["step_ms"]["median"] for run in runs)


def run_ours(bin_folder, workload, batch, steps, *options):
    with tempfile.TemporaryDirectory(prefix="lockstep-wire-") as folder:
        before = sent_bytes()
        run_on_hosts([[bin_folder / "launch", "--nnodes=2", "--nproc_per_node=1", f"--node_rank={node}",
                       f"--master_addr={ADDRESS}", "--master_port=29500", bin_folder / "trainer",
                       *training(workload, batch, steps), *options, "--run-dir", f"{folder}/run"] for node in (0, 1)])
        sent = sent_bytes() - before
        summary = summary_of(f"{folder}/run")
    return Ours(summary["step_ms"]["median"], summary["exposed_comm_ms"], summary["parameters"], sent)


def run_peer(python, workload, batch, steps, *options):
    """(step ms, the same without exchange) of PyTorch DDP with Gloo."""
    command = [python, HERE / "torch_ddp.py", "--workload", workload.peer_workload, "--batch", batch, "--steps", steps,
               *options]
    ranks = [{"RANK": str(rank), "LOCAL_RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": ADDRESS, "MASTER_PORT": "29501"}
             for rank in (0, 1)]
    output = run_on_hosts([command, command], ranks)[0]
    figures = figures_in(output)
    return figures["step_ms"], figures["no_sync_ms"]
