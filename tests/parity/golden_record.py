"""How a tensor that PyTorch computed becomes a golden."""
import numpy as np
import torch

import formula


def tensor(name, spec):
    """An input as its spec in the golden says; see README.md, "Inputs"."""
    shape = spec["shape"]
    if "classes" in spec:
        values = formula.integers(name, shape, spec["classes"])
        values.reshape(-1)[spec.get("ignored", [])] = -100
    else:
        values = formula.uniform(name, shape, spec["scale"]) + np.float32(spec.get("start", 0))
        if spec.get("relu"):
            values = np.maximum(values, np.float32(0))
    return torch.from_numpy(values)


def digits(value, count):
    return float(f"{value:.{count}g}")


def record(single, double):
    """Digest of the float32 result. `rounding`: how far float32 took PyTorch itself from its float64 result."""
    single, double = (t.detach().double().numpy() for t in (single, double))
    norm = np.linalg.norm(double)
    digest = formula.digest(single)
    return {
        "shape": list(single.shape),
        "norm": digits(digest["norm"], 10),
        "sum": digits(digest["sum"], 10),
        "projections": [digits(p, 10) for p in digest["projections"]],
        "rounding": digits(np.linalg.norm(single - double) / norm if norm else 0.0, 2),
    }


def record_all(compute):
    """`compute(dtype)` gives named tensors; it runs in float32 and, for `rounding`, in float64."""
    single, double = compute(torch.float32), compute(torch.float64)
    return {name: record(single[name], double[name]) for name in single}
