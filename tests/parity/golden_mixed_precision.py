"""How far bf16 autocast takes PyTorch's own gradients of a model's first step from its float32 ones."""
import torch

import golden_exact
import golden_recurrent
import golden_sequences
from golden_models import BATCHES, MODELS, batch_of, loss_of, with_formula_weights
from golden_record import digits

CASES = ("mlp", "convnet", "convnet_fashion", "simplecnn")
RECURRENT = ("rnn", "rnn_padded", "lstm", "lstm_padded_all", "lstm_values_all")


def gradients(case, batch, amp):
    model, sample_shape, build = MODELS[case]
    module = with_formula_weights(build(), case, torch.float32)
    _, _, x, y = batch_of(case, model, sample_shape, batch, torch.float32)
    with torch.autocast("cpu", torch.bfloat16, enabled=amp):
        loss = loss_of(model)(module(x), y)
    return flat_gradients(module, loss)


def exact_case_gradients(case, amp):
    module = golden_exact.with_formula_weights(case, torch.float32)
    with torch.autocast("cpu", torch.bfloat16, enabled=amp):
        loss = case.run(module, torch.float32)
    return flat_gradients(module, loss)


def flat_gradients(module, loss):
    loss.backward()
    return torch.cat([p.grad.double().flatten() for p in module.parameters()])


def record(name, batch, exact, narrow):
    return {"name": name, "batch": batch, "distance": digits(((narrow - exact).norm() / exact.norm()).item(), 3)}


def make():
    records = [record(case, batch, *(gradients(case, batch, amp) for amp in (False, True)))
               for case in CASES for batch in BATCHES]
    exact_cases = [golden_recurrent.Case(name, *golden_recurrent.CASES[name]) for name in RECURRENT]
    return records + [record(case.name, case.batch, *(exact_case_gradients(case, amp) for amp in (False, True)))
                      for case in exact_cases + golden_sequences.CASES]
