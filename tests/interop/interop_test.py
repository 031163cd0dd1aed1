"""Lockstep beside PyTorch: weights both ways, torchrun starts `trainer`, `launch` starts DDP scripts."""
import json
import pathlib
import tempfile
import unittest

import torch
from safetensors.torch import load_file, save_file
from torch import nn

from programs import HERE, LAUNCH, TORCHRUN, TRAINER, run, run_well, summary_of
from torch_models import ConvNet, SimpleCNN, mlp

MODELS = {  # name: (the module, shape of a sample)
    "linear": (lambda: nn.Linear(10, 1), (10,)),
    "mlp": (mlp, (1, 28, 28)),
    "convnet": (lambda: ConvNet(3), (3, 28, 28)),
    "simplecnn": (lambda: SimpleCNN(3, 14), (3, 14, 14)),
}
# float32 sums of up to 3136 products, summed in another order: sqrt(3136) ulps are 7e-6 of the terms' size.
CLOSE = {"rtol": 1e-4, "atol": 1e-5}


class InteropTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="lockstep-interop-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        torch.manual_seed(1)

    def write_samples(self, model, count):
        """A data set of tensors; its file, inputs and targets."""
        _, shape = MODELS[model]
        inputs = torch.randn(count, *shape)
        targets = torch.randn(count, 1) if model == "linear" else torch.arange(count) % 10
        path = self.folder / "samples.safetensors"
        save_file({"inputs": inputs, "targets": targets}, path)
        return path, inputs, targets

    def run_on(self, samples, model, *options):
        """Two ranks on a data set of tensors; the run's folder."""
        folder = self.folder / f"run-{model}"
        run_well([LAUNCH, "--nproc_per_node=2", TRAINER, "--model", model, "--dataset", "tensors", "--data-dir",
                  samples, "--threads", 1, "--quiet", "--run-dir", folder, *options])
        return folder


def loss_of(model):
    return nn.MSELoss() if model == "linear" else nn.CrossEntropyLoss()


class Weights(InteropTest):
    def test_ours_load_into_pytorch_and_score_alike(self):
        for model, (build, _) in MODELS.items():
            with self.subTest(model):
                samples, inputs, targets = self.write_samples(model, 50)
                run_folder = self.run_on(samples, model, "--batch-size", 8, "--epochs", 2)
                module = build()
                module.load_state_dict(load_file(run_folder / "model.safetensors"), strict=True)
                with torch.no_grad():
                    outputs = module(inputs)
                scores = summary_of(run_folder)["eval"]
                self.assertEqual(scores["samples"], 50)
                torch.testing.assert_close(torch.tensor(scores["loss"]), loss_of(model)(outputs, targets), **CLOSE)
                if model != "linear":
                    accuracy = (outputs.argmax(1) == targets).float().mean().item()
                    self.assertAlmostEqual(scores["accuracy"], accuracy, places=6)

    def test_a_checkpoint_loads_into_pytorch_with_its_optimizers_state(self):
        for model, (build, _) in MODELS.items():
            with self.subTest(model):
                samples, _, _ = self.write_samples(model, 50)
                run_folder = self.run_on(samples, model, "--batch-size", 8, "--max-steps", 6, "--checkpoint-every", 3)
                checkpoint = run_folder / "checkpoints" / "latest"
                module = build()
                module.load_state_dict(load_file(checkpoint / "model.safetensors"), strict=True)
                shapes = {f"{name}.{state}": parameter.shape for name, parameter in module.named_parameters()
                          for state in ("exp_avg", "exp_avg_sq")}
                state = load_file(checkpoint / "optimizer.safetensors")
                self.assertEqual({name: tensor.shape for name, tensor in state.items()}, shapes)

    def test_pytorchs_initialise_ours_and_gradients_agree(self):
        for model, (build, _) in MODELS.items():
            with self.subTest(model):
                module = build()
                weights, gradients = self.folder / "torch.safetensors", self.folder / "gradients.safetensors"
                save_file(module.state_dict(), weights, metadata={"format": "pt"})
                samples, inputs, targets = self.write_samples(model, 12)
                # Two ranks of half the samples: the mean over both is the mean over all.
                self.run_on(samples, model, "--init-from", weights, "--batch-size", 6, "--max-steps", 1,
                            "--eval-every", 0, "--dump-gradients", gradients)
                loss = loss_of(model)(module(inputs), targets)
                loss.backward()
                ours = load_file(gradients)
                torch.testing.assert_close(ours.pop("loss").reshape(()), loss.detach(), **CLOSE)
                self.assertEqual(set(ours), set(module.state_dict()))
                for name, parameter in module.named_parameters():
                    torch.testing.assert_close(ours[name], parameter.grad, **CLOSE, msg=lambda m, n=name: f"{n}: {m}")

    def test_a_missing_tensor_is_named(self):
        weights = self.folder / "torch.safetensors"
        state = mlp().state_dict()
        del state["3.bias"]
        save_file(state, weights)
        samples, _, _ = self.write_samples("mlp", 12)
        done = run([TRAINER, "--model", "mlp", "--init-from", weights, "--dataset", "tensors", "--data-dir", samples,
                    "--run-dir", self.folder / "run"])
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertIn("3.bias", done.stderr)


    def test_a_checkpoint_of_torch_save_gives_pytorchs_outputs(self):
        for model, (build, _) in MODELS.items():
            with self.subTest(model):
                module = build().eval()
                state = {f"module.{name}": tensor for name, tensor in module.state_dict().items()}  # DDP's names
                checkpoint, logits = self.folder / "checkpoint.ckpt", self.folder / "logits.safetensors"
                torch.save({"epoch": 3, "model_state_dict": state}, checkpoint)
                samples, inputs, targets = self.write_samples(model, 50)
                on = [checkpoint, "--model", model, "--dataset", "tensors", "--data-dir", samples, "--batch-size", 7]
                run_well([LAUNCH, "--nproc_per_node=2", TRAINER, "predict", *on, "--output", logits])
                with torch.no_grad():
                    outputs = module(inputs)
                torch.testing.assert_close(load_file(logits)["logits"], outputs, **CLOSE)
                scores = json.loads(run_well([TRAINER, "eval", *on]).stdout)
                torch.testing.assert_close(torch.tensor(scores["loss"]), loss_of(model)(outputs, targets), **CLOSE)

    def test_half_precision_weights_are_converted(self):
        module = mlp().to(torch.bfloat16)
        checkpoint = self.folder / "mlp.pth"
        torch.save(module.state_dict(), checkpoint)
        samples, _, _ = self.write_samples("mlp", 12)
        folder = self.run_on(samples, "mlp", "--init-from", checkpoint, "--optimizer", "sgd", "--lr", 0, "--max-steps", 1,
                             "--batch-size", 6)
        ours = load_file(folder / "model.safetensors")
        for name, tensor in module.state_dict().items():
            self.assertTrue(torch.equal(ours[name], tensor.float()), name)

    def test_shards_go_both_ways(self):
        samples, _, _ = self.write_samples("convnet", 12)
        folder = self.run_on(samples, "convnet", "--batch-size", 6, "--max-steps", 1, "--max-shard-size", "300KB")
        index = json.loads((folder / "model.safetensors.index.json").read_text())
        state = {name: load_file(folder / file)[name] for name, file in index["weight_map"].items()}
        module = ConvNet(3)
        module.load_state_dict(state, strict=True)
        self.assertEqual(index["metadata"]["total_size"], sum(4 * tensor.numel() for tensor in state.values()))
        self.assertGreater(len(set(index["weight_map"].values())), 1)
        again = run_well([TRAINER, "eval", folder])
        self.assertEqual(json.loads(again.stdout)["accuracy"], summary_of(folder)["eval"]["accuracy"])


class Torchrun(InteropTest):
    def train(self, starter, name):
        """Two ranks for five steps on synthetic data; the summary."""
        folder = self.folder / name
        run_well([*starter, TRAINER, "--model", "mlp", "--dataset", "synthetic", "--batch-size", 16, "--max-steps", 5,
                  "--threads", 1, "--eval-every", 0, "--quiet", "--run-dir", folder])
        return summary_of(folder)

    def test_starts_trainer_and_gives_launchs_bits(self):
        by_torchrun = self.train([*TORCHRUN, "--nproc_per_node=2", "--no-python"], "torchrun")
        by_launch = self.train([LAUNCH, "--nproc_per_node=2"], "launch")
        self.assertEqual(by_torchrun["world_size"], 2)
        self.assertEqual(by_torchrun["steps"], 5)
        self.assertEqual(by_torchrun["weights_sha256"], by_launch["weights_sha256"])

    def test_shows_our_error(self):
        done = run([*TORCHRUN, "--nproc_per_node=2", "--no-python", TRAINER, "--model", "convnt"])
        self.assertNotEqual(done.returncode, 0)
        report = done.stderr[done.stderr.find("Root Cause"):]  # torchrun's own, from TORCHELASTIC_ERROR_FILE
        self.assertIn("unknown model 'convnt', did you mean 'convnet'?", report)


class Launch(InteropTest):
    def check_reports(self):
        reports = [json.loads((self.folder / f"rank{rank}.json").read_text()) for rank in range(2)]
        self.assertEqual([r["rank"] for r in reports], [0, 1])
        self.assertEqual([r["local_rank"] for r in reports], [0, 1])
        self.assertEqual([r["world_size"] for r in reports], [2, 2])
        # Rank r sums two rows of r + 1: gradients 2 and 4, mean 3.
        self.assertEqual([r["gradient"] for r in reports], [[3.0] * 4] * 2)
        self.assertEqual(reports[0]["weight"], reports[1]["weight"])

    def test_starts_ddp_under_python3(self):
        run_well([LAUNCH, "--nproc_per_node=2", "python3", HERE / "ddp_script.py", self.folder])
        self.check_reports()

    def test_starts_a_script_by_its_name(self):
        run_well([LAUNCH, "--nproc_per_node=2", HERE / "ddp_script.py", self.folder])
        self.check_reports()


if __name__ == "__main__":
    unittest.main()
