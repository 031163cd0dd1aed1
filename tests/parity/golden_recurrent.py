"""Goldens of the recurrent models: see golden_exact.py."""
import dataclasses
import math

import torch
from torch import nn
from torch.nn.utils import rnn

import golden_exact
from golden_record import digits, tensor

LENGTHS = [17, 1, 9, 16, 5]
SMALL = {"vocab_size": 60, "embedding": 12, "hidden": 40}
# The golden's name: (model, shape of a sample, batch, --model-args, what the targets are: a class a row, a class a token,
# or a shape of numbers). "padded" rows have LENGTHS.
CASES = {
    "rnn": ("rnn", [64], 8, {**SMALL, "num_classes": 10}, "row"),
    "rnn_padded": ("rnn", [17], 5, {**SMALL, "num_classes": 10, "layers": 2, "nonlinearity": "relu"}, "row"),
    "rnn_padded_all": ("rnn", [17], 5, {**SMALL, "num_classes": 7, "output": "all"}, "token"),
    "rnn_values": ("rnn", [19, 6], 5, {"hidden": 40}, [3]),
    "lstm": ("lstm", [64], 8, {**SMALL, "layers": 2}, "row"),
    "lstm_padded": ("lstm", [17], 5, {**SMALL, "layers": 1}, "row"),
    "lstm_padded_all": ("lstm", [17], 5, {**SMALL, "layers": 2, "output": "all"}, "token"),
    "lstm_values_all": ("lstm", [19, 6], 5, {"hidden": 40, "layers": 2, "output": "all"}, [19, 3]),
}


class Recurrent(nn.Module):
    """embedding, rnn or lstm, fc; on numbers without the embedding."""

    def __init__(self, model, features, outputs, arguments):
        super().__init__()
        self.kind, self.all = model, arguments.get("output") == "all"
        if features is None:
            features = arguments["embedding"]
            self.embedding = nn.Embedding(arguments["vocab_size"], features)
        layers = arguments.get("layers", 1)
        options = {"nonlinearity": arguments.get("nonlinearity", "tanh")} if model == "rnn" else {}
        kind = nn.RNN if model == "rnn" else nn.LSTM
        self.add_module(model, kind(features, arguments["hidden"], layers, batch_first=True, **options))
        self.fc = nn.Linear(arguments["hidden"], outputs)

    def forward(self, x):
        if x.is_floating_point():
            lengths, steps = torch.full([len(x)], x.shape[1]), x
        else:
            lengths, steps = (x != -1).sum(1), self.embedding(x.clamp(min=0))
        packed = rnn.pack_padded_sequence(steps, lengths, batch_first=True, enforce_sorted=False)
        y, ends = getattr(self, self.kind)(packed)
        if self.all:
            return self.fc(rnn.pad_packed_sequence(y, batch_first=True, total_length=x.shape[1])[0])
        return self.fc((ends if self.kind == "rnn" else ends[0])[-1])


def loss_of(output, targets):
    if targets.is_floating_point():
        return nn.functional.mse_loss(output, targets)
    return nn.functional.cross_entropy(output.flatten(0, -2), targets.flatten())


@dataclasses.dataclass(frozen=True)
class Case:
    name: str
    model: str
    sample: list
    batch: int
    arguments: dict
    targets: object
    rate: float = 0.2

    @property
    def classes(self):
        return self.arguments.get("num_classes", self.arguments.get("vocab_size"))

    def build(self):
        of_numbers = isinstance(self.targets, list)
        return Recurrent(self.model, self.sample[1] if of_numbers else None,
                         self.targets[-1] if of_numbers else self.classes, self.arguments)

    def specs(self):
        if isinstance(self.targets, list):
            return {"inputs": {"shape": [self.batch, *self.sample], "scale": 1.0},
                    "targets": {"shape": [self.batch, *self.targets], "scale": 1.0}}
        inputs = {"shape": [self.batch, *self.sample], "classes": self.arguments["vocab_size"]}
        inputs |= {"lengths": LENGTHS} if "padded" in self.name else {}
        if self.targets == "row":
            return {"inputs": inputs, "targets": {"shape": [self.batch], "classes": self.classes}}
        steps = self.sample[0]
        ignored = [row * steps + step for row in range(self.batch) for step in range(LENGTHS[row], steps)]
        return {"inputs": inputs,
                "targets": {"shape": [self.batch, steps], "classes": self.classes, "ignored": ignored}}

    def parameter_specs(self, module):
        """Uniform as PyTorch starts them, but for the embedding, which is normal."""
        scale = digits(1 / math.sqrt(module.fc.in_features), 4)
        return {name: {"shape": list(value.shape), "scale": 1.0 if name.startswith("embedding") else scale}
                for name, value in module.named_parameters()}

    def run(self, module, dtype):
        specs = self.specs()
        x, y = (tensor(f"{self.name}/{name}", specs[name]) for name in ("inputs", "targets"))
        for row, length in enumerate(specs["inputs"].get("lengths", [])):
            x[row, length:] = -1
        x, y = (t.to(dtype) if t.is_floating_point() else t for t in (x, y))
        return loss_of(module(x), y)


def make():
    return [golden_exact.make_case(Case(name, *case)) for name, case in CASES.items()]
