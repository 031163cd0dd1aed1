"""Goldens of the recurrent models (golden_exact.py)."""
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


def classes_of(case):
    _, _, _, arguments, _ = CASES[case]
    return arguments.get("num_classes", arguments.get("vocab_size"))


def build(case):
    model, sample, _, arguments, targets = CASES[case]
    return Recurrent(model, sample[1] if len(sample) == 2 else None,
                     targets[-1] if isinstance(targets, list) else classes_of(case), arguments)


def input_specs(case):
    _, sample, batch, arguments, targets = CASES[case]
    padded = "padded" in case
    if isinstance(targets, list):
        return {"shape": [batch, *sample], "scale": 1.0}, {"shape": [batch, *targets], "scale": 1.0}
    inputs = {"shape": [batch, *sample], "classes": arguments["vocab_size"]}
    inputs |= {"lengths": LENGTHS} if padded else {}
    if targets == "row":
        return inputs, {"shape": [batch], "classes": classes_of(case)}
    steps = sample[0]
    ignored = [row * steps + step for row in range(batch) for step in range(LENGTHS[row], steps)]
    return inputs, {"shape": [batch, steps], "classes": classes_of(case), "ignored": ignored}


def batch_of(case, dtype):
    inputs, targets = input_specs(case)
    x, y = tensor(f"{case}/inputs", inputs), tensor(f"{case}/targets", targets)
    for row, length in enumerate(inputs.get("lengths", [])):
        x[row, length:] = -1
    return (t.to(dtype) if t.is_floating_point() else t for t in (x, y))


def loss_of(output, targets):
    if targets.is_floating_point():
        return nn.functional.mse_loss(output, targets)
    return nn.functional.cross_entropy(output.flatten(0, -2), targets.flatten())


def parameter_specs(module):
    """Uniform as PyTorch starts them, but for the embedding, which is normal."""
    return {name: {"shape": list(value.shape),
                   "scale": 1.0 if name.startswith("embedding") else digits(1 / math.sqrt(module.fc.in_features), 4)}
            for name, value in module.named_parameters()}


class Case:
    rate = 0.2

    def __init__(self, name):
        self.name = name
        self.model, _, self.batch, self.arguments, _ = CASES[name]

    def specs(self):
        return dict(zip(("inputs", "targets"), input_specs(self.name)))

    def build(self):
        return build(self.name)

    def parameter_specs(self, module):
        return parameter_specs(module)

    def run(self, module, dtype):
        x, y = batch_of(self.name, dtype)
        return loss_of(module(x), y)


def make():
    return [golden_exact.make_case(Case(name)) for name in CASES]
