"""Goldens of whole models: logits, loss, every gradient, and the losses of ten steps on one batch."""
import math
import pathlib
import sys

import torch
from torch import nn

from golden_record import digits, record_all, tensor

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "bench"))
from torch_models import ConvNet, SimpleCNN, mlp  # noqa: E402

STEPS = 10
BATCHES = (8, 5)
OPTIMIZERS = {
    "sgd": {"lr": 0.02, "momentum": 0.9},
    "adam": {"lr": 1e-3},
}
MODELS = {  # the golden's name: (model, shape of a sample, the module)
    "linear": ("linear", [10], lambda: nn.Linear(10, 1)),
    "mlp": ("mlp", [1, 28, 28], mlp),
    "convnet": ("convnet", [3, 28, 28], lambda: ConvNet(3)),
    "convnet_fashion": ("convnet", [1, 28, 28], lambda: ConvNet(1)),
    "simplecnn": ("simplecnn", [3, 14, 14], lambda: SimpleCNN(3, 14)),
    "simplecnn_fashion": ("simplecnn", [1, 28, 28], lambda: SimpleCNN(1, 28)),
}


def parameter_specs(module):
    """Weights and biases uniform within 1 / sqrt(fan in), PyTorch's own default range."""
    specs, fan_in = {}, 1
    for name, value in module.state_dict().items():
        if name.endswith("weight"):
            fan_in = math.prod(value.shape[1:])
        specs[name] = {"shape": list(value.shape), "scale": 1 / math.sqrt(fan_in)}
    return specs


def with_formula_weights(module, case, dtype):
    weights = {name: tensor(f"{case}/{name}", spec) for name, spec in parameter_specs(module).items()}
    module.load_state_dict(weights, strict=True)
    return module.to(dtype)


def batch_of(case, model, sample_shape, batch, dtype):
    inputs = {"shape": [batch, *sample_shape], "scale": 1.0}
    targets = {"shape": [batch, 1], "scale": 1.0} if model == "linear" else {"shape": [batch], "classes": 10}
    y = tensor(f"{case}/targets", targets)
    return inputs, targets, tensor(f"{case}/inputs", inputs).to(dtype), y.to(dtype) if model == "linear" else y


def loss_of(model):
    return nn.MSELoss() if model == "linear" else nn.CrossEntropyLoss()


def first_step(case, batch, dtype):
    model, sample_shape, build = MODELS[case]
    module = with_formula_weights(build(), case, dtype)
    _, _, x, y = batch_of(case, model, sample_shape, batch, dtype)
    logits = module(x)
    loss = loss_of(model)(logits, y)
    loss.backward()
    gradients = {f"gradient/{name}": p.grad for name, p in module.named_parameters()}
    return {"logits": logits, "loss": loss.reshape(1), **gradients}


def training_losses(case, batch, optimizer, dtype):
    model, sample_shape, build = MODELS[case]
    module = with_formula_weights(build(), case, dtype)
    _, _, x, y = batch_of(case, model, sample_shape, batch, dtype)
    kind = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam}[optimizer]
    stepper = kind(module.parameters(), **OPTIMIZERS[optimizer])
    losses = []
    for _ in range(STEPS):
        stepper.zero_grad()
        loss = loss_of(model)(module(x), y)
        loss.backward()
        stepper.step()
        losses.append(loss.item())
    return losses


def record_training(case, batch, optimizer):
    single, double = (training_losses(case, batch, optimizer, dtype) for dtype in (torch.float32, torch.float64))
    rounding = max(abs(s - d) / abs(d) for s, d in zip(single, double))
    return {"options": OPTIMIZERS[optimizer], "losses": [digits(loss, 9) for loss in single],
            "rounding": digits(rounding, 2)}


def make_case(case, batch):
    model, sample_shape, build = MODELS[case]
    inputs, targets, _, _ = batch_of(case, model, sample_shape, batch, torch.float32)
    # A list: JSON objects have no order, state_dict has.
    parameters = [{"name": name, **spec} for name, spec in parameter_specs(build()).items()]
    return {
        "name": case, "model": model, "batch": batch, "parameters": parameters,
        "inputs": inputs, "targets": targets,
        "outputs": record_all(lambda dtype: first_step(case, batch, dtype)),
        "training": {optimizer: record_training(case, batch, optimizer) for optimizer in OPTIMIZERS},
    }


def make():
    return [make_case(case, batch) for case in MODELS for batch in BATCHES]
