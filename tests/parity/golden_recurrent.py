"""Goldens of the recurrent models: every gradient of a first step in float64, and the losses of twenty steps.

As torchvision's (golden_vision.py): `own` says how far rounding alone takes PyTorch's own numbers.
"""
import math

import numpy as np
import torch
from torch import nn
from torch.nn.utils import rnn

import formula
from golden_record import digits, tensor
from golden_vision import CHANGE, distances

STEPS = 20
LEARNING_RATE = 0.2
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


def with_formula_weights(case, dtype, change=None):
    """`change`: the seed of the signs with which each weight moves by CHANGE of itself."""
    module = build(case).to(dtype)
    signs = np.random.default_rng(change)
    with torch.no_grad():
        for (name, value), spec in zip(module.named_parameters(), parameter_specs(module).values()):
            value.copy_(tensor(f"{case}/{name}", spec))
            if change is not None:
                value.mul_(1 + CHANGE * torch.from_numpy(signs.choice([-1.0, 1.0], value.shape)))
    return module


RUNS = ((torch.float32, None), (torch.float64, 1), (torch.float64, 2))


def gradients(case, dtype, change=None):
    module = with_formula_weights(case, dtype, change)
    x, y = batch_of(case, dtype)
    loss_of(module(x), y).backward()
    return {name: parameter.grad.double().numpy() for name, parameter in module.named_parameters()}


def training_losses(case, dtype, change=None):
    module = with_formula_weights(case, dtype, change)
    x, y = batch_of(case, dtype)
    stepper = torch.optim.SGD(module.parameters(), lr=LEARNING_RATE)
    losses = []
    for _ in range(STEPS):
        stepper.zero_grad()
        loss = loss_of(module(x), y)
        loss.backward()
        stepper.step()
        losses.append(loss.item())
    return losses


def make_case(case):
    model, _, batch, arguments, _ = CASES[case]
    exact = gradients(case, torch.float64)
    others = [distances(gradients(case, *run), exact) for run in RUNS]
    parameters = []
    for name, spec in parameter_specs(build(case)).items():
        digest = formula.digest(exact[name])
        parameters.append({"name": name, **spec, "own": digits(max(o[name] for o in others), 2),
                           "norm": digits(digest["norm"], 7), "sum": digits(digest["sum"], 7),
                           "projections": [digits(p, 7) for p in digest["projections"]]})
    losses = training_losses(case, torch.float64)
    own = max(abs(a - b) for run in RUNS for a, b in zip(training_losses(case, *run), losses))
    inputs, targets = input_specs(case)
    return {"name": case, "model": model, "batch": batch, "arguments": arguments, "inputs": inputs, "targets": targets,
            "training": {"lr": LEARNING_RATE, "losses": [digits(loss, 9) for loss in losses], "own": digits(own, 2)},
            "parameters": parameters}


def make():
    return [make_case(case) for case in CASES]
