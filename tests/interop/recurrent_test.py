"""Recurrent models in Lockstep: their weights load into nn.RNN and nn.LSTM strictly, theirs initialise ours, same logits, and
the same states behind the last step for the same states before the first."""
import json
import pathlib
import tempfile
import unittest

import torch
from safetensors.torch import load_file, save_file
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence

from programs import LAUNCH, TRAINER, run_well
from torch_models import LSTMGenerator, RNNClassifier

VOCABULARY, CLASSES, ROWS, STEPS = 50, 10, 13, 11
SIZES = {"embedding": 12, "hidden": 24}
MODELS = {  # name: (the module, its last layer's arguments, classes)
    "rnn": (lambda: RNNClassifier(VOCABULARY, classes=CLASSES, **SIZES), {"num_classes": CLASSES}, CLASSES),
    "lstm": (lambda: LSTMGenerator(VOCABULARY, layers=2, **SIZES), {"layers": 2}, VOCABULARY),
}
CLOSE = {"rtol": 1e-4, "atol": 1e-5}


def outputs_of(module, tokens, initial=()):
    """The module's parts on rows of true lengths, as its forward has them on whole rows: logits, and h_n (and c_n), where
    `initial` are h0 (and c0), all (layers, N, hidden)."""
    recurrent = module.rnn if hasattr(module, "rnn") else module.lstm
    steps = module.embedding(tokens.clamp(min=0)).transpose(0, 1)
    recurrent.batch_first = False
    packed = pack_padded_sequence(steps, (tokens != -1).sum(1), enforce_sorted=False)
    _, ends = recurrent(packed, *([tuple(initial) if len(initial) > 1 else initial[0]] if initial else []))
    ends = ends if isinstance(ends, tuple) else (ends,)
    return module.fc(ends[0][-1]), ends


class Recurrent(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="lockstep-recurrent-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        torch.manual_seed(1)
        self.inputs = torch.randint(VOCABULARY, (ROWS, STEPS))
        for row in range(1, ROWS):
            self.inputs[row, 1 + row % STEPS:] = -1

    def model_and_data(self, model, states=None):
        _, arguments, classes = MODELS[model]
        self.targets = torch.arange(ROWS) % classes
        save_file({"inputs": self.inputs, "targets": self.targets, **(states or {})}, self.folder / "samples.safetensors")
        words = {"vocab_size": VOCABULARY, **SIZES, **arguments}
        return ["--model", model, "--model-args", ",".join(f"{name}={value}" for name, value in words.items()),
                "--dataset", "tensors", "--data-dir", self.folder / "samples.safetensors"]

    def check_outputs(self, module, *weights_and_options, initial=()):
        outputs = self.folder / "outputs.safetensors"
        run_well([LAUNCH, "--nproc_per_node=2", TRAINER, "predict", *weights_and_options, "--output", outputs])
        scores = json.loads(run_well([TRAINER, "eval", *weights_and_options]).stdout)
        with torch.no_grad():
            theirs, ends = outputs_of(module, self.inputs, initial)
        ours = load_file(outputs)
        torch.testing.assert_close(ours.pop("logits"), theirs, **CLOSE)
        for name, end in zip(("h_n", "c_n"), ends):
            torch.testing.assert_close(ours.pop(name).transpose(0, 1), end, **CLOSE)
        self.assertEqual(ours, {})
        torch.testing.assert_close(scores["loss"], nn.functional.cross_entropy(theirs, self.targets).item(), **CLOSE)

    def test_ours_load_into_pytorch_with_the_same_logits(self):
        for model, (build, _, _) in MODELS.items():
            with self.subTest(model):
                folder = self.folder / f"run-{model}"
                run_well([LAUNCH, "--nproc_per_node=2", TRAINER, *self.model_and_data(model), "--threads", 1, "--quiet",
                          "--batch-size", 4, "--epochs", 3, "--run-dir", folder])
                module = build()
                module.load_state_dict(load_file(folder / "model.safetensors"), strict=True)
                self.check_outputs(module, folder)

    def test_pytorchs_initialise_ours_with_the_same_logits(self):
        for model, (build, _, _) in MODELS.items():
            with self.subTest(model):
                module = build()
                file = self.folder / f"{model}.safetensors"
                save_file(module.state_dict(), file, metadata={"format": "pt"})
                self.check_outputs(module, file, *self.model_and_data(model))

    def test_the_same_states_before_the_first_step_give_the_same_outputs_and_last_states(self):
        for model, (build, arguments, _) in MODELS.items():
            with self.subTest(model):
                module = build()
                file = self.folder / f"{model}.safetensors"
                save_file(module.state_dict(), file, metadata={"format": "pt"})
                names = ("h0", "c0")[:2 if model == "lstm" else 1]
                initial = [torch.randn(arguments.get("layers", 1), ROWS, SIZES["hidden"]) for _ in names]
                by_sample = {name: state.transpose(0, 1).contiguous() for name, state in zip(names, initial)}
                self.check_outputs(module, file, *self.model_and_data(model, by_sample), initial=initial)


if __name__ == "__main__":
    unittest.main()
