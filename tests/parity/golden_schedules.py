"""Goldens of learning-rate schedules: the rate of every step, as PyTorch's schedulers give it in double."""
import torch
from torch.optim.lr_scheduler import CosineAnnealingLR, LinearLR, SequentialLR, StepLR

STEPS = 24
EPOCH = 4  # steps
CASES = {
    "constant": dict(kind="constant"),
    "constant/warmup": dict(kind="constant", warmup_steps=5),
    "step": dict(kind="step", step_epochs=2, gamma=0.3),
    "step/warmup": dict(kind="step", step_epochs=1, gamma=0.5, warmup_steps=6),
    "cosine": dict(kind="cosine"),
    "cosine/least": dict(kind="cosine", least=0.01),
    "cosine/warmup": dict(kind="cosine", least=0.02, warmup_steps=7),
    "linear": dict(kind="linear"),
    "linear/warmup": dict(kind="linear", least=0.005, warmup_steps=3),
}
LR = 0.3


def warmup_of(optimizer, steps):
    return LinearLR(optimizer, 1 / (steps + 1), 1, total_iters=steps)


def end_of(optimizer, case):
    steps = STEPS - case.get("warmup_steps", 0)
    least = case.get("least", 0)
    if case["kind"] == "cosine":
        return CosineAnnealingLR(optimizer, steps, least)
    return LinearLR(optimizer, 1, least / LR, total_iters=steps)


def rates(case):
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=LR)
    warmup = case.get("warmup_steps", 0)
    by_epoch = None
    if case["kind"] in ("constant", "step"):
        by_step = warmup_of(optimizer, warmup) if warmup else None
        if case["kind"] == "step":
            by_epoch = StepLR(optimizer, case["step_epochs"], case["gamma"])
    elif warmup:
        schedulers = [warmup_of(optimizer, warmup), end_of(optimizer, case)]
        by_step = SequentialLR(optimizer, schedulers, milestones=[warmup])
    else:
        by_step = end_of(optimizer, case)
    rates = []
    for step in range(1, STEPS + 1):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        if by_step:
            by_step.step()
        if by_epoch and step % EPOCH == 0:
            by_epoch.step()
    return rates


def make():
    return [{"name": name, "lr": LR, "steps_per_epoch": EPOCH, "steps": STEPS, **case, "rates": rates(case)}
            for name, case in CASES.items()]
