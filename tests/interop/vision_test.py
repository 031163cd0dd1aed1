"""torchvision's models in Lockstep: weights both ways, with the buffers of their normalisations, and the same logits."""
import json
import pathlib
import tempfile
import unittest

import torch
from safetensors.torch import load_file, save_file
from torchvision import models

from programs import LAUNCH, TRAINER, run_well, summary_of

CLASSES = 10
MODELS = {"resnet18": {}, "resnet50": {}, "mobilenet_v3_small": {"dropout": 0.0}}
# Up to 53 normalisations, each of sums in another order; seen: 1e-5.
CLOSE = {"rtol": 1e-3, "atol": 1e-4}


def build(model):
    return getattr(models, model)(num_classes=CLASSES, **MODELS[model])


class Vision(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="lockstep-vision-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        torch.manual_seed(1)
        self.inputs = torch.randn(12, 3, 64, 64)
        self.targets = torch.arange(12) % CLASSES
        save_file({"inputs": self.inputs, "targets": self.targets}, self.folder / "samples.safetensors")

    def train(self, model, ranks, *options):
        """The folder of a run that ends with an evaluation of all samples."""
        folder = self.folder / f"{model}-{ranks}"
        run_well([LAUNCH, f"--nproc_per_node={ranks}", TRAINER, *self.model_and_data(model), "--optimizer", "sgd",
                  "--threads", 1, "--quiet", "--run-dir", folder, *options])
        return folder

    def model_and_data(self, model):
        arguments = ",".join(f"{name}={value}" for name, value in {"num_classes": CLASSES, **MODELS[model]}.items())
        return ["--model", model, "--model-args", arguments, "--dataset", "tensors", "--data-dir",
                self.folder / "samples.safetensors"]

    def check_logits(self, module, *weights_and_options):
        """Of all samples, and the scores made of them: `trainer`'s by these words, and PyTorch's."""
        logits = self.folder / "logits.safetensors"
        run_well([LAUNCH, "--nproc_per_node=2", TRAINER, "predict", *weights_and_options, "--output", logits])
        scores = json.loads(run_well([TRAINER, "eval", *weights_and_options]).stdout)
        module.eval()
        with torch.no_grad():
            theirs = module(self.inputs)
        torch.testing.assert_close(load_file(logits)["logits"], theirs, **CLOSE)
        loss = torch.nn.functional.cross_entropy(theirs, self.targets).item()
        torch.testing.assert_close(scores["loss"], loss, **CLOSE)
        self.assertAlmostEqual(scores["accuracy"], (theirs.argmax(1) == self.targets).float().mean().item(), places=6)

    def test_ours_load_into_torchvision_with_the_same_logits(self):
        for model in MODELS:
            with self.subTest(model):
                folder = self.train(model, 2, "--lr", 0.01, "--batch-size", 3, "--epochs", 2)
                module = build(model)
                weights = load_file(folder / "model.safetensors")
                module.load_state_dict(weights, strict=True)
                batches = [value.item() for name, value in weights.items() if name.endswith("num_batches_tracked")]
                self.assertEqual(set(batches), {4})
                self.check_logits(module, folder)

    def test_torchvisions_initialise_ours_and_a_step_agrees(self):
        for model in MODELS:
            with self.subTest(model):
                module = build(model)
                weights = self.folder / f"{model}.safetensors"
                save_file(module.state_dict(), weights, metadata={"format": "pt"})
                # A learning rate of 0 leaves the weights; the step moves the running statistics.
                folder = self.train(model, 1, "--init-from", weights, "--lr", 0, "--batch-size", 12, "--max-steps", 1)
                module.train()
                with torch.no_grad():
                    module(self.inputs)
                ours = load_file(folder / "model.safetensors")
                self.assertEqual(set(ours), set(module.state_dict()))
                for name, value in module.state_dict().items():
                    torch.testing.assert_close(ours[name], value, **CLOSE, msg=lambda m, n=name: f"{n}: {m}")
                self.check_logits(module, folder)

    def test_checkpoints_of_torch_save_give_torchvisions_logits(self):
        for model in MODELS:
            with self.subTest(model):
                module = build(model)
                module.train()
                with torch.no_grad():
                    module(self.inputs)  # running statistics of their own
                state = {f"module.{name}": value for name, value in module.state_dict().items()}  # DDP's names
                for file, content in ((f"{model}.pt", {"model": state, "epoch": 3}), (f"{model}.pth", state)):
                    torch.save(content, self.folder / file)
                    self.check_logits(module, self.folder / file, *self.model_and_data(model))

    def test_shards_go_both_ways(self):
        for model in MODELS:
            with self.subTest(model):
                folder = self.train(model, 2, "--batch-size", 6, "--max-steps", 1, "--max-shard-size", "3MB")
                index = json.loads((folder / "model.safetensors.index.json").read_text())
                self.assertGreater(len(set(index["weight_map"].values())), 1)
                module = build(model)
                module.load_state_dict({name: load_file(folder / file)[name]
                                        for name, file in index["weight_map"].items()}, strict=True)
                self.check_logits(module, folder)
                self.write_shards(module.state_dict(), folder)
                self.check_logits(module, folder / "theirs", *self.model_and_data(model))

    def write_shards(self, state, folder):
        """As huggingface_hub writes them, in `folder`/theirs."""
        theirs = folder / "theirs"
        theirs.mkdir()
        names, weight_map = sorted(state), {}
        for shard in range(3):
            file = f"model-{shard + 1:05}-of-00003.safetensors"
            save_file({name: state[name] for name in names[shard::3]}, theirs / file, metadata={"format": "pt"})
            weight_map |= dict.fromkeys(names[shard::3], file)
        total = sum(value.numel() * value.element_size() for value in state.values())
        (theirs / "model.safetensors.index.json").write_text(
            json.dumps({"metadata": {"total_size": total}, "weight_map": weight_map}))


if __name__ == "__main__":
    unittest.main()
