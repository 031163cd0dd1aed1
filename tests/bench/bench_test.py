"""What the benchmarks make of figures and failures; neither side is run."""
import contextlib
import dataclasses
import importlib.machinery
import importlib.util
import io
import json
import os
import pathlib
import subprocess
import tempfile
import unittest
from unittest import mock

import compare_run
import compare_workloads
import rank_cores

HERE = pathlib.Path(__file__).resolve().parent


def script(name):
    loader = importlib.machinery.SourceFileLoader(name, str(HERE / name))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(name, loader))
    loader.exec_module(module)
    return module


compare, wire, allreduce_table = map(script, ("compare", "wire", "allreduce_table"))
WORKLOADS = {workload.name: workload for workload in compare_workloads.WORKLOADS}
RESULT = compare_run.Result(step_ms=2, samples_per_s=1000, loss=1, parameters=8, peak_bytes=100, startup_ms=5, wall_ms=9)
FIGURES = {"step_ms": 2, "samples_s": 1000, "loss": 1, "params": 8, "peak_memory_bytes": 100, "startup_ms": 5}


class Compare(unittest.TestCase):
    def setUp(self):
        self.variants_run = []

    def run_peer(self, _, workload, options):
        name = next(name for name, known in workload.peer_variants().items() if known == options)
        self.variants_run.append(name)
        if name in self.failing:
            raise compare_run.RunFailed("no compiler")
        return dataclasses.replace(RESULT, step_ms=10 if name == "eager" else 100)

    def report(self, workload, *failing, ours=RESULT):
        """What `compare WORKLOAD` prints, with the exit code that it ends with."""
        self.failing = failing
        with (mock.patch.multiple(compare, run_peer=self.run_peer, run_ours=lambda *_: ours, limit_step_ms=lambda *_: 1,
                                  version_of=lambda *_: "1", progress=lambda _: None),
              mock.patch("sys.argv", ["compare", workload, "--torch-python", "sh", "--no-startup", "--json"]),
              contextlib.redirect_stdout(io.StringIO()) as output):
            try:
                compare.main()
                code = 0
            except compare_run.RunFailed:
                code = 1
        return json.loads(output.getvalue()), code

    def test_each_variant_is_tried_and_the_fastest_counts(self):
        report, code = self.report("rnn_bf16")
        self.assertEqual(code, 0)
        self.assertEqual(set(self.variants_run), set(WORKLOADS["rnn_bf16"].peer_variants()))
        self.assertIn("bf16 inside, compile+tuned", self.variants_run)
        for name in set(self.variants_run) - {"eager"}:
            self.assertEqual(self.variants_run.count(name), 1, name)
        self.assertEqual(report["workloads"][0]["variant"], "eager")

    def test_a_variant_that_fails_leaves_the_figures_of_the_others(self):
        report, code = self.report("mlp", "compile", "compile+tuned")
        self.assertEqual(code, 1)
        row, = report["workloads"]
        self.assertEqual(row["variants_step_ms"], {"eager": 10, "compile": None, "tuned": 100, "compile+tuned": None})
        self.assertEqual((row["ratio"]["median"], row["verdict"]), (5, "unknown"))
        self.assertIn("eager 10.000, compile failed", compare.text(report))
        self.assertEqual(self.report("mlp", *WORKLOADS["mlp"].peer_variants())[0]["workloads"], [])

    def test_models_of_other_sizes_are_not_compared(self):
        report, code = self.report("mlp", ours=dataclasses.replace(RESULT, parameters=7))
        self.assertEqual((report["workloads"], code), ([], 1))

    def test_the_transformer_learns_its_positions_as_the_peers_does(self):
        for name in ("transformer", "transformer_bf16"):
            self.assertIn("positions=learned", WORKLOADS[name].trainer_options)

    def test_the_peers_ranks_are_bound(self):
        with mock.patch.object(compare_run, "run", return_value=(json.dumps(FIGURES), 1)) as run:
            self.assertEqual(compare_run.run_peer("python", WORKLOADS["mlp"], ()).parameters, 8)
        self.assertIn("--bind", run.call_args.args[0])

    def test_slices_of_cores_are_those_of_launch(self):
        cores = [[0, 4], [1, 5], [2, 6]]
        self.assertEqual([rank_cores.slice_of(cores, rank, 2) for rank in (0, 1)], [{0, 4}, {1, 2, 5, 6}])
        self.assertEqual(rank_cores.slice_of(cores, 0, 1), set())
        self.assertEqual(rank_cores.slice_of(cores, 0, 4), set())

    def test_a_loss_that_is_not_finite_is_no_figure(self):
        with self.assertRaisesRegex(compare_run.RunFailed, "loss is nan"):
            compare_run.figures_in('{"loss": NaN, "step_ms": 1}')


class Wire(unittest.TestCase):
    def test_the_bound_of_our_step_is_what_it_sends(self):
        step = {"step_ms": 10, "exposed_ms": 1}
        report = "\n".join(wire.lines({
            "workload": "rnn", "batch": 32, "bandwidth_mbit_s": 900, "stolen": "0 to 0 %", "alone_ms": 10, "wire_ms": 20,
            "gradient_bytes": 4000, "sent_bytes": 1000, "overlap": step, "no_overlap": step, "dense": step,
            "not_encrypted": step, "peer": {"variant": "eager", "step_ms": 30, "alone_ms": 15}}))
        self.assertRegex(report, r"rows +5\.00 ms")
        self.assertRegex(report, r"    / max\(compute, sent\) +1\.00\n")
        self.assertRegex(report, r"not encrypted +10\.00 ms, / max\(compute, sent\) 1\.00\n")
        self.assertRegex(report, r"PyTorch .*/ max\(compute, wire\) 1\.50")


class AllReduceTable(unittest.TestCase):
    def test_a_rank_that_fails_is_named_and_ends_the_others(self):
        waiting = allreduce_table.start(["sleep", 20])
        failing = allreduce_table.start(["sh", "-c", "echo no torch >&2; exit 3"])
        with self.assertRaisesRegex(allreduce_table.RunFailed, "exit code 3\nno torch"):
            allreduce_table.finish([waiting, failing])
        self.assertLess(waiting.returncode, 0)

    def test_ranks_that_are_not_done_in_time_are_ended(self):
        waiting = [allreduce_table.start(["sleep", 20]) for _ in range(2)]
        with mock.patch.object(allreduce_table, "TIME_LIMIT_S", 0.1), self.assertRaises(subprocess.TimeoutExpired):
            allreduce_table.finish(waiting)
        self.assertTrue(all(process.returncode < 0 for process in waiting))

    def test_without_cma_holds_for_open_mpi_4_and_5(self):
        with tempfile.TemporaryDirectory() as folder:
            mpirun = pathlib.Path(folder, "mpirun")
            mpirun.write_text("#!/bin/sh\n[ $OMPI_MCA_btl_vader_single_copy_mechanism$OMPI_MCA_smsc = none^cma ] &&"
                              " echo '64 bytes  median 1.50 ms'\n")
            mpirun.chmod(0o755)
            environment = {"PATH": f"{folder}:{os.environ['PATH']}"}
            with mock.patch.dict(allreduce_table.ENVIRONMENT, environment):
                measured = allreduce_table.open_mpi_without_cma(mock.Mock(bin=HERE), "one memory", 2)
        self.assertEqual(measured, {64: 1.5})


if __name__ == "__main__":
    unittest.main()
