"""How far bf16 autocast takes PyTorch's own gradients of a model's first step from its float32 ones."""
import torch

from golden_models import BATCHES, MODELS, batch_of, loss_of, with_formula_weights
from golden_record import digits

CASES = ("mlp", "convnet", "convnet_fashion", "simplecnn")


def gradients(case, batch, amp):
    model, sample_shape, build = MODELS[case]
    module = with_formula_weights(build(), case, torch.float32)
    _, _, x, y = batch_of(case, model, sample_shape, batch, torch.float32)
    with torch.autocast("cpu", torch.bfloat16, enabled=amp):
        loss = loss_of(model)(module(x), y)
    loss.backward()
    return torch.cat([p.grad.double().flatten() for p in module.parameters()])


def make_case(case, batch):
    exact = gradients(case, batch, False)
    distance = (gradients(case, batch, True) - exact).norm() / exact.norm()
    return {"name": case, "batch": batch, "distance": digits(distance.item(), 3)}


def make():
    return [make_case(case, batch) for case in CASES for batch in BATCHES]
