"""Starts Lockstep's programs and torchrun for the tests."""
import json
import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
BIN = pathlib.Path(os.environ["LOCKSTEP_BIN"])
LAUNCH, TRAINER = str(BIN / "launch"), str(BIN / "trainer")
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
TIME_LIMIT_S = 120

sys.path.append(str(HERE.parent / "bench"))  # torch_models


def run(command, time_limit_s=TIME_LIMIT_S):
    """The finished process. This test's Python is the first python3 in its PATH."""
    path = f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}"
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=time_limit_s,
                          env=os.environ | {"PATH": path}, check=False)


def run_well(command, time_limit_s=TIME_LIMIT_S):
    done = run(command, time_limit_s)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(map(str, command))}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done


def summary_of(run_folder):
    return json.loads((run_folder / "summary.json").read_text())
