"""Goldens of single ops: odd shapes, forward and gradients."""
import torch
from torch.nn import functional as F

from golden_record import record_all, tensor


def floats(*shape, scale=1.0, **more):
    return {"shape": list(shape), "scale": scale, **more}


def linear(x_shape, outputs, bias=True, relu=False):
    weight_shape = (outputs, *x_shape[1:])
    inputs = {"x": floats(*x_shape), "w": floats(*weight_shape)}
    if bias:
        inputs["b"] = floats(outputs)
    if not relu:
        inputs["dy"] = floats(x_shape[0], outputs)
    return "linear", {"bias": bias, "relu": relu}, inputs


def conv2d(x_shape, w_shape, stride=(1, 1), padding=(0, 0), dilation=(1, 1), groups=1, bias=True, relu=False):
    extent = [(size + 2 * p - d * (k - 1) - 1) // s + 1
              for size, k, s, p, d in zip(x_shape[2:], w_shape[2:], stride, padding, dilation)]
    inputs = {"x": floats(*x_shape), "w": floats(*w_shape)}
    if bias:
        inputs["b"] = floats(w_shape[0])
    if not relu:
        inputs["dy"] = floats(x_shape[0], w_shape[0], *extent)
    parameters = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups,
                  "bias": bias, "relu": relu}
    return "conv2d", parameters, inputs


def pool2d(op, x_shape, kernel, stride, padding=(0, 0), relu=False):
    extent = [(size + 2 * p - k) // s + 1 for size, k, s, p in zip(x_shape[2:], kernel, stride, padding)]
    inputs = {"x": floats(*x_shape, relu=True) if relu else floats(*x_shape), "dy": floats(*x_shape[:2], *extent)}
    return op, {"kernel": kernel, "stride": stride, "padding": padding}, inputs


def cross_entropy(rows, classes, smoothing=0.0, ignored=(), scale=4.0):
    targets = {"shape": [rows], "classes": classes, "ignored": list(ignored)}
    return "cross_entropy", {"label_smoothing": smoothing}, {
        "logits": floats(rows, classes, scale=scale), "targets": targets}


def mse(rows, features):
    return "mse", {}, {"y": floats(rows, features), "targets": floats(rows, features)}


CASES = {
    "linear/odd": linear((5, 7), 3),
    "linear/one": linear((1, 1), 1),
    "linear/vector_tails": linear((33, 17), 19),
    "linear/wide": linear((8, 784), 10),
    "linear/no_bias": linear((9, 13), 21, bias=False),
    "linear/images": linear((3, 5, 7, 3), 11),
    "linear/relu": linear((6, 31), 18, relu=True),
    "conv2d/same3x3": conv2d((2, 3, 9, 7), (5, 3, 3, 3), padding=(1, 1)),
    "conv2d/blocked_channels": conv2d((2, 32, 6, 5), (16, 32, 3, 3), padding=(1, 1)),
    "conv2d/stride": conv2d((2, 5, 11, 8), (7, 5, 3, 3), stride=(2, 3), padding=(1, 0)),
    "conv2d/stride_leaves_edge": conv2d((1, 2, 10, 9), (3, 2, 3, 2), stride=(3, 2)),
    "conv2d/dilation": conv2d((2, 3, 12, 11), (4, 3, 3, 2), padding=(2, 1), dilation=(2, 3)),
    "conv2d/groups": conv2d((3, 6, 7, 5), (9, 2, 3, 3), padding=(1, 1), groups=3),
    "conv2d/depthwise": conv2d((2, 19, 6, 7), (19, 1, 3, 3), stride=(2, 1), padding=(1, 1), groups=19),
    "conv2d/pointwise": conv2d((2, 17, 5, 3), (13, 17, 1, 1)),
    "conv2d/whole_image": conv2d((4, 3, 5, 4), (6, 3, 5, 4)),
    "conv2d/rectangle": conv2d((1, 4, 6, 13), (5, 4, 1, 5), padding=(0, 2)),
    "conv2d/everything": conv2d((2, 8, 13, 14), (12, 2, 3, 3), stride=(2, 2), padding=(2, 1), dilation=(2, 1),
                                groups=4),
    "conv2d/no_bias": conv2d((2, 3, 6, 6), (4, 3, 3, 3), padding=(1, 1), bias=False),
    "conv2d/relu": conv2d((2, 3, 8, 9), (16, 3, 3, 3), padding=(1, 1), relu=True),
    "max_pool2d/even": pool2d("max_pool2d", (2, 3, 8, 6), (2, 2), (2, 2)),
    "max_pool2d/cut_off": pool2d("max_pool2d", (2, 5, 7, 9), (2, 2), (2, 2)),
    "max_pool2d/overlap": pool2d("max_pool2d", (2, 17, 9, 7), (3, 3), (2, 2), (1, 1)),
    "max_pool2d/rectangle": pool2d("max_pool2d", (1, 4, 9, 10), (3, 2), (1, 3), (1, 0)),
    "max_pool2d/ties": pool2d("max_pool2d", (3, 16, 9, 8), (2, 2), (2, 2), relu=True),
    "max_pool2d/overlapping_ties": pool2d("max_pool2d", (2, 3, 8, 8), (3, 3), (2, 2), (1, 1), relu=True),
    "avg_pool2d/even": pool2d("avg_pool2d", (2, 3, 8, 6), (2, 2), (2, 2)),
    "avg_pool2d/padding_counts": pool2d("avg_pool2d", (2, 5, 7, 9), (3, 3), (2, 2), (1, 1)),
    "avg_pool2d/rectangle": pool2d("avg_pool2d", (1, 18, 9, 10), (3, 2), (1, 3), (0, 1)),
    "relu/odd": ("relu", {}, {"x": floats(3, 5, 7), "dy": floats(3, 5, 7)}),
    "relu/zeros": ("relu", {}, {"x": floats(131, relu=True), "dy": floats(131)}),
    "cross_entropy/plain": cross_entropy(7, 10),
    "cross_entropy/wide": cross_entropy(5, 1003),
    "cross_entropy/large_logits": cross_entropy(9, 11, scale=200.0),
    "cross_entropy/smoothing": cross_entropy(6, 13, smoothing=0.1),
    "cross_entropy/ignored": cross_entropy(8, 5, ignored=[0, 3, 7]),
    "cross_entropy/smoothing_and_ignored": cross_entropy(11, 17, smoothing=0.25, ignored=[2, 9]),
    "mse/column": mse(32, 1),
    "mse/odd": mse(5, 7),
}


def forward(op, parameters, t):
    if op == "linear":
        y = F.linear(t["x"].flatten(1), t["w"].flatten(1), t.get("b"))
        return torch.relu(y) if parameters["relu"] else y
    if op == "conv2d":
        geometry = {key: parameters[key] for key in ("stride", "padding", "dilation", "groups")}
        y = F.conv2d(t["x"], t["w"], t.get("b"), **geometry)
        return torch.relu(y) if parameters["relu"] else y
    if op in ("max_pool2d", "avg_pool2d"):
        return getattr(F, op)(t["x"], parameters["kernel"], parameters["stride"], parameters["padding"])
    return torch.relu(t["x"])


def gradients_of(op, parameters, t):
    """y and the gradients of its inputs for the given dy; with a fused relu y alone."""
    if "dy" not in t:
        return {"y": forward(op, parameters, t)}
    leaves = {name: t[name].requires_grad_() for name in ("x", "w", "b") if name in t}
    y = forward(op, parameters, t)
    y.backward(t["dy"])
    return {"y": y, **{f"d{name}": leaf.grad for name, leaf in leaves.items()}}


def gradients_of_loss(op, parameters, t):
    name = "logits" if op == "cross_entropy" else "y"
    leaf = t[name].requires_grad_()
    function = F.cross_entropy if op == "cross_entropy" else F.mse_loss
    loss = function(leaf, t["targets"], **parameters)
    loss.backward()
    return {"loss": loss.reshape(1), f"d{name}": leaf.grad}


def compute(case, dtype):
    op, parameters, inputs = CASES[case]
    t = {name: tensor(f"{case}/{name}", spec) for name, spec in inputs.items()}
    t = {name: value if value.dtype == torch.int64 else value.to(dtype) for name, value in t.items()}
    results = (gradients_of_loss if op in ("cross_entropy", "mse") else gradients_of)(op, parameters, t)
    if op == "max_pool2d" and inputs["x"].get("relu"):
        results["dx_before_relu"] = results["dx"] * (t["x"] > 0)
    return results


def make():
    return [{"name": case, "op": op, "parameters": parameters, "inputs": inputs,
             "outputs": record_all(lambda dtype: compute(case, dtype))}
            for case, (op, parameters, inputs) in CASES.items()]
