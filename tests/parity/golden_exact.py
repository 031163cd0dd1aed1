"""Goldens of models against float64: every gradient of a first step, and the losses of twenty steps.

As torchvision's (golden_vision.py): `own` says how far rounding alone takes PyTorch's own numbers. A case is an object
with name, model, batch, arguments (--model-args), rate (of SGD), inputs and targets (specs), and functions: build() gives
the module, parameter_specs(module) the formula's weights, run(module, dtype) the loss of its batch.
"""
import numpy as np
import torch

import formula
from golden_record import digits, tensor
from golden_vision import CHANGE, distances

STEPS = 20
# One run in float32 is one sample of what rounding does: where twenty steps let it grow, others go further.
RUNS = ((torch.float32, None), (torch.float32, 1), (torch.float32, 2), (torch.float64, 1), (torch.float64, 2))


def with_formula_weights(case, dtype, change=None):
    """`change`: the seed of the signs with which each weight moves by CHANGE of itself."""
    module = case.build().to(dtype)
    signs = np.random.default_rng(change)
    with torch.no_grad():
        for (name, value), spec in zip(module.named_parameters(), case.parameter_specs(module).values()):
            value.copy_(tensor(f"{case.name}/{name}", spec))
            if change is not None:
                value.mul_(1 + CHANGE * torch.from_numpy(signs.choice([-1.0, 1.0], value.shape)))
    return module


def gradients(case, dtype, change=None):
    module = with_formula_weights(case, dtype, change)
    case.run(module, dtype).backward()
    return {name: parameter.grad.double().numpy() for name, parameter in module.named_parameters()}


def training_losses(case, dtype, change=None):
    module = with_formula_weights(case, dtype, change)
    stepper = torch.optim.SGD(module.parameters(), lr=case.rate)
    losses = []
    for _ in range(STEPS):
        stepper.zero_grad()
        loss = case.run(module, dtype)
        loss.backward()
        stepper.step()
        losses.append(loss.item())
    return losses


def make_case(case):
    exact = gradients(case, torch.float64)
    others = [distances(gradients(case, *run), exact) for run in RUNS]
    parameters = []
    for name, spec in case.parameter_specs(case.build()).items():
        digest = formula.digest(exact[name])
        parameters.append({"name": name, **spec, "own": digits(max(o[name] for o in others), 2),
                           "norm": digits(digest["norm"], 7), "sum": digits(digest["sum"], 7),
                           "projections": [digits(p, 7) for p in digest["projections"]]})
    losses = training_losses(case, torch.float64)
    own = max(abs(a - b) for run in RUNS for a, b in zip(training_losses(case, *run), losses))
    return {"name": case.name, "model": case.model, "batch": case.batch, "arguments": case.arguments, **case.specs(),
            "training": {"lr": case.rate, "losses": [digits(loss, 9) for loss in losses], "own": digits(own, 2)},
            "parameters": parameters}
