"""Goldens of torchvision's models: every gradient of a first step in float64, and the losses of twenty steps.

`own` says how far a gradient, or a loss, moves by rounding alone: the largest distance from the float64 one of PyTorch's
float32 ones and of float64 ones at weights changed by 1e-7 of themselves. Of six such trainings of resnet18 three cross a
kink of a relu, after which they are ten times as far away.
"""
import math

import numpy as np
import torch
from torchvision import models

import formula
from golden_record import digits, tensor

STEPS = 20
LEARNING_RATE = 0.01
CHANGE = 1e-7
CHANGES = range(1, 7)  # for trainings; seeds
SMALL = 1e-4  # of the largest gradient's norm: below it a gradient's own size is no measure
# The golden's name: (model, shape of a sample, batch, classes, keyword arguments of both). A name that ends in a number
# was chosen for its formula's numbers: no unit's input lies so near a kink of its activation that rounding moves it
# across, which would change a gradient by up to a hundredth.
CASES = {
    "resnet18": ("resnet18", [3, 64, 64], 4, 1000, {}),
    "resnet34": ("resnet34", [3, 64, 64], 4, 1000, {}),
    "resnet50.12": ("resnet50", [3, 48, 48], 2, 1000, {}),
    "mobilenet_v3_small.11": ("mobilenet_v3_small", [3, 64, 64], 8, 1000, {"dropout": 0.0}),
    "mobilenet_v3_small_cifar.3": ("mobilenet_v3_small", [3, 32, 32], 16, 10, {"dropout": 0.0}),
}


def build(case):
    model, _, _, classes, arguments = CASES[case]
    return getattr(models, model)(num_classes=classes, **arguments)


def ends_a_residual_block(name, module):
    """The last normalisation of a block of a ResNet: at a weight of 1 deep ResNets amplify rounding a thousandfold."""
    last = "bn3" if hasattr(module, "layer1") and hasattr(module.layer1[0], "conv3") else "bn2"
    return name.endswith(f".{last}.weight")


def parameter_spec(name, value, module):
    if value.dim() > 1:
        return {"scale": digits(math.sqrt(6 / math.prod(value.shape[1:])), 4)}  # keeps the variance behind a relu
    if name.endswith("bias"):
        return {"scale": 0.1}
    if ends_a_residual_block(name, module):
        return {"start": 0.2, "scale": 0.0}
    return {"start": 1.0, "scale": 0.25}


def parameter_specs(case):
    with torch.device("meta"):
        module = build(case)
    return {name: {"shape": list(value.shape), **parameter_spec(name, value, module)}
            for name, value in module.named_parameters()}


def with_formula_weights(case, dtype, change=None):
    """`change`: the seed of the signs with which each weight moves by CHANGE of itself."""
    module = build(case).to(dtype).train()
    signs = np.random.default_rng(change)
    with torch.no_grad():
        for (name, value), spec in zip(module.named_parameters(), parameter_specs(case).values()):
            value.copy_(tensor(f"{case}/{name}", spec))
            if change is not None:
                value.mul_(1 + CHANGE * torch.from_numpy(signs.choice([-1.0, 1.0], value.shape)))
    return module


def batch_of(case, dtype):
    _, sample, batch, classes, _ = CASES[case]
    inputs = {"shape": [batch, *sample], "scale": 1.0}
    targets = {"shape": [batch], "classes": classes}
    return inputs, targets, tensor(f"{case}/inputs", inputs).to(dtype), tensor(f"{case}/targets", targets)


def gradients(case, dtype, change=None):
    module = with_formula_weights(case, dtype, change)
    _, _, x, y = batch_of(case, dtype)
    torch.nn.functional.cross_entropy(module(x), y).backward()
    return {name: parameter.grad.double().numpy() for name, parameter in module.named_parameters()}


def distances(these, exact):
    floor = SMALL * max(np.linalg.norm(g) for g in exact.values())
    return {name: np.linalg.norm(these[name] - g) / (np.linalg.norm(g) + floor) for name, g in exact.items()}


def record_gradients(case):
    exact = gradients(case, torch.float64)
    others = [distances(these, exact) for these in (gradients(case, torch.float32),
                                                    gradients(case, torch.float64, change=1),
                                                    gradients(case, torch.float64, change=2))]
    records = []
    for name, spec in parameter_specs(case).items():
        digest = formula.digest(exact[name])
        records.append({"name": name, **spec, "own": digits(max(o[name] for o in others), 2),
                        "norm": digits(digest["norm"], 7), "sum": digits(digest["sum"], 7),
                        "projections": [digits(p, 7) for p in digest["projections"]]})
    return records


def training_losses(case, dtype, threads=1, memory_format=torch.contiguous_format, change=None):
    torch.set_num_threads(threads)
    module = with_formula_weights(case, dtype, change).to(memory_format=memory_format)
    _, _, x, y = batch_of(case, dtype)
    x = x.contiguous(memory_format=memory_format)
    stepper = torch.optim.SGD(module.parameters(), lr=LEARNING_RATE)
    losses = []
    for _ in range(STEPS):
        stepper.zero_grad()
        loss = torch.nn.functional.cross_entropy(module(x), y)
        loss.backward()
        stepper.step()
        losses.append(loss.item())
    torch.set_num_threads(1)
    return losses


def record_training(case):
    exact = training_losses(case, torch.float64)
    runs = [training_losses(case, torch.float32), training_losses(case, torch.float32, threads=2),
            training_losses(case, torch.float32, memory_format=torch.channels_last)]
    runs += [training_losses(case, torch.float64, change=change) for change in CHANGES]
    own = max(abs(loss - wanted) for run in runs for loss, wanted in zip(run, exact))
    return {"lr": LEARNING_RATE, "losses": [digits(loss, 9) for loss in exact], "own": digits(own, 2)}


def make_case(case):
    model, _, batch, classes, arguments = CASES[case]
    inputs, targets, _, _ = batch_of(case, torch.float32)
    return {"name": case, "model": model, "batch": batch, "arguments": {"num_classes": classes, **arguments},
            "inputs": inputs, "targets": targets, "training": record_training(case),
            "parameters": record_gradients(case)}


def make():
    return [make_case(case) for case in CASES]
