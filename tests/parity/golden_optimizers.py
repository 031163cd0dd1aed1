"""Goldens of optimizers: 20 steps on a flat parameter, a new gradient from the formula in each."""
import torch

from golden_record import record_all, tensor

STEPS = 20
CLIP_AT = {"sgd/clipped": 4.0, "adam/clipped": 4.0, "adam/clipped_twice": 4.0}  # of a norm about 9
CLIP_VALUE = {"sgd/clipped_value": 0.25, "adam/clipped_twice": 0.4}  # of values up to 0.5
RECORDED = (1, 2, 20)
ELEMENTS = 1003
PARAMETER = {"shape": [ELEMENTS], "scale": 1.0}
GRADIENT = {"shape": [ELEMENTS], "scale": 0.5}

CASES = {
    "sgd/plain": dict(lr=0.1),
    "sgd/momentum": dict(lr=0.05, momentum=0.9),
    "sgd/dampening": dict(lr=0.05, momentum=0.9, dampening=0.3),
    "sgd/nesterov": dict(lr=0.05, momentum=0.8, nesterov=True),
    "sgd/weight_decay": dict(lr=0.1, weight_decay=0.01),
    "sgd/momentum_dampening_decay": dict(lr=0.02, momentum=0.7, dampening=0.1, weight_decay=0.05),
    "sgd/nesterov_decay": dict(lr=0.02, momentum=0.9, nesterov=True, weight_decay=0.05),
    "sgd/clipped": dict(lr=0.05, momentum=0.9, weight_decay=0.01),
    "sgd/clipped_value": dict(lr=0.05, momentum=0.9),
    "adam/default": dict(lr=1e-3),
    "adam/betas": dict(lr=0.01, betas=(0.8, 0.95)),
    "adam/half": dict(lr=0.01, betas=(0.5, 0.999)),
    "adam/no_first_moment": dict(lr=0.01, betas=(0.0, 0.9)),
    "adam/epsilon": dict(lr=0.01, eps=0.1),
    "adam/weight_decay": dict(lr=0.01, weight_decay=0.05),
    "adam/everything": dict(lr=0.02, betas=(0.7, 0.9), eps=1e-4, weight_decay=0.1),
    "adam/clipped": dict(lr=0.01, weight_decay=0.05, eps=1e-2),
    "adam/amsgrad": dict(lr=0.01, weight_decay=0.05, betas=(0.9, 0.7), amsgrad=True),
    "adam/clipped_twice": dict(lr=0.01, eps=1e-2),
    "adamw/default": dict(lr=1e-3),
    "adamw/weight_decay": dict(lr=0.05, weight_decay=0.3),
    "adamw/no_decay": dict(lr=0.01, weight_decay=0.0),
    "adamw/amsgrad": dict(lr=0.02, betas=(0.8, 0.6), amsgrad=True),
    "adamw/everything": dict(lr=0.02, betas=(0.7, 0.9), eps=1e-4, weight_decay=0.1),
}
OPTIMIZERS = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam, "adamw": torch.optim.AdamW}
OPTION_NAMES = {"sgd": ("lr", "momentum", "dampening", "nesterov", "weight_decay"),
                "adam": ("lr", "betas", "eps", "weight_decay", "amsgrad"),
                "adamw": ("lr", "betas", "eps", "weight_decay", "amsgrad")}
STATES = ("momentum_buffer", "exp_avg", "exp_avg_sq", "max_exp_avg_sq")


def compute(case, dtype):
    parameter = torch.nn.Parameter(tensor(f"{case}/parameter", PARAMETER).to(dtype))
    optimizer = OPTIMIZERS[case.split("/")[0]]([parameter], **CASES[case])
    results = {}
    for step in range(1, STEPS + 1):
        parameter.grad = tensor(f"{case}/gradient/{step}", GRADIENT).to(dtype)
        if case in CLIP_VALUE:
            torch.nn.utils.clip_grad_value_([parameter], CLIP_VALUE[case])
        if case in CLIP_AT:
            torch.nn.utils.clip_grad_norm_([parameter], CLIP_AT[case], norm_type=2)
        optimizer.step()
        if step in RECORDED:
            results[f"parameter/{step}"] = parameter.detach().clone()
    state = optimizer.state[parameter]
    results |= {f"{name}/{STEPS}": state[name] for name in STATES if state.get(name) is not None}
    return results


def options_in_force(case):
    """Every option, PyTorch's defaults included."""
    kind = case.split("/")[0]
    defaults = OPTIMIZERS[kind]([torch.nn.Parameter(torch.zeros(1))], **CASES[case]).defaults
    return {name: defaults[name] for name in OPTION_NAMES[kind]}


FIFTY = {"adam/fifty_steps": dict(lr=1e-3), "adamw/fifty_steps": dict(lr=1e-3, weight_decay=0.01)}
FEW = {"shape": [256], "scale": 1.0}


def after_fifty_steps(case):
    """Every number of the parameter in float32, as its bits: for a distance, which a digest does not give."""
    parameter = torch.nn.Parameter(tensor(f"{case}/parameter", FEW))
    optimizer = OPTIMIZERS[case.split("/")[0]]([parameter], **FIFTY[case])
    for step in range(1, 51):
        parameter.grad = tensor(f"{case}/gradient/{step}", FEW)
        optimizer.step()
    return parameter.detach().numpy().view("int32").tolist()


def make_fifty_steps():
    return [{"name": case, "options": FIFTY[case], "bits": after_fifty_steps(case)} for case in FIFTY]


AVERAGED = {"average/slow": 0.99, "average/fast": 0.6, "average/faster": 0.3}


def averages(case):
    """torch's moving average of a parameter that is another one in each step."""
    module = torch.nn.Linear(1, ELEMENTS, bias=False)
    update = torch.optim.swa_utils.get_ema_multi_avg_fn(AVERAGED[case])

    def compute(dtype):
        module.to(dtype)
        average = torch.optim.swa_utils.AveragedModel(module, multi_avg_fn=update)
        results = {}
        for step in range(1, STEPS + 1):
            values = tensor(f"{case}/parameter/{step}", PARAMETER).to(dtype)
            module.weight.data = values.reshape(ELEMENTS, 1)
            average.update_parameters(module)
            if step in RECORDED:
                results[str(step)] = average.module.weight.detach().flatten().clone()
        return results

    return compute


def make_averages():
    return [{"name": case, "decay": AVERAGED[case], "steps": STEPS, "parameter": PARAMETER,
             "outputs": record_all(averages(case))} for case in AVERAGED]


def make():
    return [{"name": case, "optimizer": case.split("/")[0], "options": options_in_force(case), "steps": STEPS,
             "parameter": PARAMETER, "gradient": GRADIENT,
             **({"clip_grad_norm": CLIP_AT[case]} if case in CLIP_AT else {}),
             **({"clip_grad_value": CLIP_VALUE[case]} if case in CLIP_VALUE else {}),
             "outputs": record_all(lambda dtype: compute(case, dtype))}
            for case in CASES]
