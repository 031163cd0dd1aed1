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

BATCH = 12
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

    def write_batch(self, model):
        """A data set of one batch; its file, inputs and targets."""
        _, shape = MODELS[model]
        inputs = torch.randn(BATCH, *shape)
        targets = torch.randn(BATCH, 1) if model == "linear" else torch.randint(0, 10, (BATCH,))
        path = self.folder / "batch.safetensors"
        save_file({"inputs": inputs, "targets": targets}, path)
        return path, inputs, targets

    def predict(self, model, weights, batch):
        output = self.folder / "logits.safetensors"
        run_well([TRAINER, "predict", "--model", model, "--init-from", weights, "--dataset", "tensors",
                  "--data-dir", batch, "--batch-size", BATCH, "--output", output])
        return load_file(output)["logits"]

    def train(self, starter, name, model="mlp", steps=5):
        """Two ranks for a few steps on synthetic data; the run's folder."""
        _, shape = MODELS[model]
        image = ["--image-shape", "x".join(map(str, shape)), "--num-classes", 10] if len(shape) > 1 else []
        folder = self.folder / name
        run_well([*starter, TRAINER, "--model", model, "--dataset", "synthetic", *image, "--batch-size", 16,
                  "--max-steps", steps, "--threads", 1, "--eval-every", 0, "--quiet", "--run-dir", folder])
        return folder


class Weights(InteropTest):
    def test_ours_load_into_pytorch(self):
        for model, (build, _) in MODELS.items():
            with self.subTest(model):
                trained = self.train([LAUNCH, "--nproc_per_node=2"], f"run-{model}", model) / "model.safetensors"
                module = build()
                module.load_state_dict(load_file(trained), strict=True)
                batch, inputs, _ = self.write_batch(model)
                with torch.no_grad():
                    torch.testing.assert_close(self.predict(model, trained, batch), module(inputs), **CLOSE)

    def test_pytorchs_initialise_ours(self):
        for model, (build, _) in MODELS.items():
            with self.subTest(model):
                module = build()
                weights = self.folder / "torch.safetensors"
                save_file(module.state_dict(), weights, metadata={"format": "pt"})
                batch, inputs, _ = self.write_batch(model)
                with torch.no_grad():
                    torch.testing.assert_close(self.predict(model, weights, batch), module(inputs), **CLOSE)

    def test_first_gradients_are_pytorchs(self):
        for model, (build, _) in MODELS.items():
            with self.subTest(model):
                module = build()
                weights, gradients = self.folder / "torch.safetensors", self.folder / "gradients.safetensors"
                save_file(module.state_dict(), weights)
                batch, inputs, targets = self.write_batch(model)
                # Two ranks of half the batch: the mean over both is the mean over the batch.
                run_well([LAUNCH, "--nproc_per_node=2", TRAINER, "--model", model, "--init-from", weights,
                          "--dataset", "tensors", "--data-dir", batch, "--batch-size", BATCH // 2, "--max-steps", 1,
                          "--threads", 1, "--eval-every", 0, "--quiet", "--run-dir", self.folder / f"run-{model}",
                          "--dump-gradients", gradients])
                loss = (nn.MSELoss() if model == "linear" else nn.CrossEntropyLoss())(module(inputs), targets)
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
        batch, _, _ = self.write_batch("mlp")
        done = run([TRAINER, "predict", "--model", "mlp", "--init-from", weights, "--dataset", "tensors",
                    "--data-dir", batch, "--output", self.folder / "logits.safetensors"])
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertIn("3.bias", done.stderr)


class Torchrun(InteropTest):
    def test_starts_trainer_and_gives_launchs_bits(self):
        by_torchrun = self.train([*TORCHRUN, "--nproc_per_node=2", "--no-python"], "torchrun")
        by_launch = self.train([LAUNCH, "--nproc_per_node=2"], "launch")
        summary = summary_of(by_torchrun)
        self.assertEqual(summary["world_size"], 2)
        self.assertEqual(summary["steps"], 5)
        self.assertEqual(summary["weights_sha256"], summary_of(by_launch)["weights_sha256"])

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
