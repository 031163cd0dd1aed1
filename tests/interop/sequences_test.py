"""Hugging Face's GPT-2 and torch.nn.Transformer in Lockstep: weights both ways, and the same logits."""
import json
import pathlib
import tempfile
import unittest
from unittest import mock

import torch
from safetensors.torch import load_file, save_file
from torch import nn
from transformers import GPT2Config, GPT2LMHeadModel

from programs import LAUNCH, TRAINER, run, run_well
from torch_models import TransformerLM

LENGTH, VOCAB = 24, 50
# Sums in another order; seen: 2e-6.
CLOSE = {"rtol": 1e-4, "atol": 1e-5}
SIZES = {"n_layer": 3, "n_head": 4, "n_embd": 32, "vocab_size": VOCAB}
TRANSFORMER = "d_model=32,nhead=4,layers=1,block_size=24,vocab_size=50,positions=learned"


def small_gpt2(**options):
    return GPT2LMHeadModel(GPT2Config(**SIZES, n_positions=LENGTH, bos_token_id=0, eos_token_id=0, **options)).eval()


class Sequences(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="lockstep-sequences-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        torch.manual_seed(1)
        self.inputs = torch.randint(0, VOCAB, (12, LENGTH))
        self.targets = self.inputs.roll(-1, 1)
        save_file({"inputs": self.inputs, "targets": self.targets}, self.folder / "samples.safetensors")
        self.data = ["--dataset", "tensors", "--data-dir", self.folder / "samples.safetensors"]

    def train(self, *options):
        """The folder of a run on two ranks."""
        folder = self.folder / "run"
        run_well([LAUNCH, "--nproc_per_node=2", TRAINER, *self.data, "--threads", 1, "--quiet", "--batch-size", 3,
                  "--epochs", 2, "--run-dir", folder, *options])
        return folder

    def check_logits(self, module, *weights_and_options):
        logits = self.folder / "logits.safetensors"
        run_well([LAUNCH, "--nproc_per_node=2", TRAINER, "predict", *weights_and_options, *self.data, "--output", logits])
        scores = json.loads(run_well([TRAINER, "eval", *weights_and_options, *self.data]).stdout)
        with torch.no_grad():
            theirs = module(self.inputs)
            theirs = getattr(theirs, "logits", theirs)
        torch.testing.assert_close(load_file(logits)["logits"].reshape(theirs.shape), theirs, **CLOSE)
        loss = nn.functional.cross_entropy(theirs.flatten(0, 1), self.targets.flatten()).item()
        torch.testing.assert_close(scores["loss"], loss, **CLOSE)

    def test_hugging_faces_gpt2_is_read_with_its_sizes(self):
        module = small_gpt2()
        for name, options in {"one_file": {}, "shards": {"max_shard_size": "60KB"}}.items():
            with self.subTest(name):
                module.save_pretrained(self.folder / name, **options)
                self.check_logits(module, self.folder / name)

    def test_files_as_openai_wrote_them(self):
        """No prefix, the masks as buffers, and the head beside the table."""
        module = small_gpt2()
        folder = self.folder / "old"
        module.save_pretrained(folder)
        weights = {name.removeprefix("transformer."): tensor.contiguous().clone()
                   for name, tensor in module.state_dict().items()}
        weights |= {f"h.{i}.attn.bias": torch.ones(1, 1, LENGTH, LENGTH).tril() for i in range(SIZES["n_layer"])}
        save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
        self.check_logits(module, folder)

    def test_gpt2_trained_from_hugging_faces_loads_there_again(self):
        small_gpt2(resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0).save_pretrained(self.folder / "theirs")
        run_folder = self.train("--init-from", self.folder / "theirs", "--lr", 0.01)
        module, report = GPT2LMHeadModel.from_pretrained(run_folder, output_loading_info=True)
        self.assertFalse(any(report.values()), report)
        self.assertEqual((module.config.bos_token_id, module.config.eos_token_id), (0, 0))
        self.check_logits(module.eval(), run_folder)

    def test_what_ours_does_not_compute_is_refused(self):
        module = small_gpt2(activation_function="relu")
        module.save_pretrained(self.folder / "relu")
        done = run([TRAINER, "eval", self.folder / "relu", *self.data])
        self.assertEqual(done.returncode, 3)
        self.assertIn("activation_function", done.stderr)

    def test_nn_transformer_loads_ours_and_ours_theirs(self):
        run_folder = self.train("--model", "transformer", "--model-args", TRANSFORMER, "--lr", 0.01)
        module = TransformerLM(VOCAB, 32, 4, 1, LENGTH).eval()
        module.load_state_dict(load_file(run_folder / "model.safetensors") | {"mask": module.mask}, strict=True)
        self.check_logits(module, run_folder)
        theirs = TransformerLM(VOCAB, 32, 4, 1, LENGTH).eval()
        save_file({name: value for name, value in theirs.state_dict().items() if name != "mask"},
                  self.folder / "theirs.safetensors")
        self.check_logits(theirs, self.folder / "theirs.safetensors", "--model", "transformer", "--model-args", TRANSFORMER)

    def test_the_benchmarks_transformer_compares_no_masks(self):
        module = TransformerLM(VOCAB, 32, 4, 1, LENGTH)
        with mock.patch("torch.nn.modules.transformer._generate_square_subsequent_mask") as made:
            module(self.inputs)
        made.assert_not_called()


if __name__ == "__main__":
    unittest.main()
