"""Goldens of layers, forward and gradients: a line a case. tests/ops has the other side.

"<op>/<case>": the function on named operands, in the order of tests/ops/<op>.cpp; dy is `<case>/dy` of the formula.
"""
import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils import rnn

import formula
from golden_record import record_all, tensor


def floats(*shape, scale=1.0):
    return {"shape": list(shape), "scale": scale}


def layer_norm(*shape, bias=True, eps=1e-5):
    def function(x, weight, bias=None):
        return F.layer_norm(x, x.shape[-1:], weight, bias, eps)
    row = floats(shape[-1])
    return function, {"x": floats(*shape), "weight": row, **({"bias": row} if bias else {})}


def batch_norm(*shape, eps=1e-5, then=lambda y: y):
    def function(x, weight, bias):
        return then(torch.nn.functional.batch_norm(x, None, None, weight, bias, training=True, eps=eps))
    row = floats(shape[1])
    return function, {"x": floats(*shape), "weight": row, "bias": row}


def batch_norm_residual(*shape):
    norm, operands = batch_norm(*shape)
    residual = {"x": floats(*shape), "residual": floats(*shape)}
    return lambda x, residual, weight, bias: norm(x, weight, bias) + residual, {**residual, **operands}


def heads_of(x, heads):
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)


def attention(heads, causal=False, split=lambda *parts: parts, **operands):
    """scaled_dot_product_attention of heads whose columns lie side by side; `split` makes q, k and v."""
    def function(*parts):
        q, k, v = (heads_of(x, heads) for x in split(*parts))
        return F.scaled_dot_product_attention(q, k, v, is_causal=causal).transpose(1, 2).flatten(2)
    return function, {name: floats(*shape) for name, shape in operands.items()}


def sines(positions, columns):
    """"Attention is all you need", 3.5, in the form of PyTorch's tutorials."""
    angles = torch.arange(positions).double()[:, None] * 10000 ** (-torch.arange(0, columns, 2).double() / columns)
    return torch.stack((angles.sin(), angles.cos()), -1).flatten(1)[:, :columns]


def tokens(*shape, below):
    return {"shape": list(shape), "classes": below}


def rms_norm(*shape, eps=None):
    def function(x, weight):
        return F.rms_norm(x, x.shape[-1:], weight, eps)
    return function, {"x": floats(*shape), "weight": floats(shape[-1])}


PARAMETERS = ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0", "weight_ih_l1", "weight_hh_l1", "bias_ih_l1",
              "bias_hh_l1")


def recurrent(kind, batch, steps, features, hidden, layers=1, **options):
    """All h of nn.RNN or nn.LSTM."""
    def function(x, *weights):
        module = kind(features, hidden, layers, **options).to(x.dtype)
        return torch.func.functional_call(module, dict(zip(PARAMETERS, weights)), (x,))[0]
    operands = {"x": floats(steps, batch, features)}
    columns = hidden * (4 if kind is nn.LSTM else 1)
    scale = 1 / hidden ** 0.5
    for layer in range(layers):
        suffix = f"_l{layer}" if layer else ""
        operands |= {f"weight_ih{suffix}": floats(columns, hidden if layer else features, scale=scale),
                     f"weight_hh{suffix}": floats(columns, hidden, scale=scale),
                     f"bias_ih{suffix}": floats(columns, scale=scale),
                     f"bias_hh{suffix}": floats(columns, scale=scale)}
    return function, operands


def packed_recurrent(kind, batch, steps, hidden):
    """All h, behind them h_n and of an LSTM c_n; the input's part is given, by an identity as weight_ih."""
    columns, states = hidden * (4 if kind is nn.LSTM else 1), ("h0", "c0") if kind is nn.LSTM else ("h0",)

    def function(lengths, pre, weight_hh, *given):
        zeros = torch.zeros(columns, dtype=pre.dtype)
        weights = (torch.eye(columns, dtype=pre.dtype), weight_hh, zeros, zeros)
        packed = rnn.pack_padded_sequence(pre, lengths, enforce_sorted=False)
        given = tuple(state.unsqueeze(0) for state in given)
        y, ends = torch.func.functional_call(kind(columns, hidden).to(pre.dtype),
                                             dict(zip(PARAMETERS, weights)),
                                             (packed, given if len(given) == 2 else given[0]))
        y, _ = rnn.pad_packed_sequence(y, total_length=steps)
        return torch.cat([y, *(ends if isinstance(ends, tuple) else (ends,))])

    scale = 1 / hidden ** 0.5
    return function, {"lengths": tokens(batch, below=steps + 1), "pre": floats(steps, batch, columns),
                      "weight_hh": floats(columns, hidden, scale=scale),
                      **{state: floats(batch, hidden) for state in states}}


def layer_norm_residual(*shape, then=lambda y, total: y):
    norm, operands = layer_norm(*shape)
    residual = {"x": floats(*shape), "residual": floats(*shape)}
    def function(x, residual, weight, bias):
        return then(norm(x + residual, weight, bias), x + residual)
    return function, {**residual, **operands}


CASES = {
    "attention/cross": attention(2, q=(2, 5, 16), k=(2, 7, 16), v=(2, 7, 16)),
    "attention_causal/odd": attention(3, True, q=(2, 70, 21), k=(2, 70, 21), v=(2, 70, 21)),
    "attention_key_value/odd": attention(2, split=lambda q, kv: (q, *kv.chunk(2, -1)), q=(2, 3, 10), kv=(2, 11, 20)),
    "attention_packed/gpt2": attention(2, True, split=lambda qkv: qkv.chunk(3, -1), qkv=(1, 150, 3 * 128)),
    "batch_norm/odd": batch_norm(3, 5, 7, 9),
    "batch_norm/resnet": batch_norm(2, 64, 28, 28),
    "batch_norm_eps/odd": batch_norm(4, 3, 5, 5, eps=0.5),
    "batch_norm_residual/odd": batch_norm_residual(3, 18, 5, 7),
    "batch_norm_rows/odd": batch_norm(33, 17),
    "batch_norm_tanh/odd": batch_norm(3, 18, 5, 7, then=torch.tanh),
    "embedding/odd": (F.embedding, {"tokens": tokens(3, 17, below=11), "weight": floats(11, 7)}),
    "embedding_long/odd": (F.embedding, {"tokens": tokens(300, below=50), "weight": floats(50, 64)}),
    "embedding_tied/odd": (lambda tokens, weight: F.linear(F.embedding(tokens, weight), weight),
                           {"tokens": tokens(5, 7, below=13), "weight": floats(13, 20)}),
    "gelu/odd": (F.gelu, {"x": floats(3, 5, 7, scale=8.0)}),
    "gelu_tanh/odd": (lambda x: F.gelu(x, approximate="tanh"), {"x": floats(3, 5, 7, scale=8.0)}),
    "last_step/odd": (lambda x: x[-1], {"x": floats(3, 5, 7)}),
    "layer_norm/one_column": layer_norm(5, 1),
    "layer_norm/one_row": layer_norm(1, 1025),
    "layer_norm/odd": layer_norm(3, 5, 17),
    "layer_norm/transformer": layer_norm(130, 768),
    "layer_norm_eps/odd": layer_norm(6, 9, eps=0.5),
    "layer_norm_post/odd": layer_norm_residual(3, 5, 17),
    "layer_norm_residual/odd": layer_norm_residual(3, 5, 17, then=torch.mul),
    "layer_norm_residual/transformer": layer_norm_residual(130, 768, then=torch.mul),
    "layer_norm_short/odd": layer_norm(7, 3),
    "layer_norm_without_bias/odd": layer_norm(33, 100, bias=False),
    "lstm/odd": recurrent(nn.LSTM, 3, 7, 6, 5),
    "lstm_lengths/odd": packed_recurrent(nn.LSTM, 9, 7, 5),
    "lstm_stacked/odd": recurrent(nn.LSTM, 3, 7, 6, 5, layers=2),
    "mul/odd": (torch.mul, {"a": floats(3, 5, 7), "b": floats(3, 5, 7)}),
    "mul_channels/odd": (torch.mul, {"a": floats(2, 3, 5, 7), "b": floats(3, 1, 1)}),
    "mul_pixels/odd": (torch.mul, {"a": floats(2, 3, 5, 7), "b": floats(2, 3, 1, 1)}),
    "position_encoding/odd": (lambda x: x + sines(*x.shape[-2:]).to(x.dtype), {"x": floats(2, 9, 7)}),
    "rms_norm/one_column": rms_norm(5, 1),
    "rms_norm/odd": rms_norm(3, 5, 17),
    "rms_norm/transformer": rms_norm(130, 768),
    "rms_norm_eps/odd": rms_norm(6, 9, eps=0.5),
    "rnn_lengths/odd": packed_recurrent(nn.RNN, 7, 7, 5),
    "rnn_relu/odd": recurrent(nn.RNN, 3, 7, 6, 5, nonlinearity="relu"),
    "rnn_tanh/odd": recurrent(nn.RNN, 3, 7, 6, 5),
    "tanh/odd": (torch.tanh, {"x": floats(3, 5, 7)}),
    "sigmoid/odd": (torch.sigmoid, {"x": floats(3, 5, 7, scale=8.0)}),
    "silu/odd": (F.silu, {"x": floats(3, 5, 7, scale=8.0)}),
    "hardsigmoid/odd": (F.hardsigmoid, {"x": floats(3, 5, 7, scale=8.0)}),
    "hardswish/odd": (F.hardswish, {"x": floats(3, 5, 7, scale=8.0)}),
    "adaptive_avg_pool2d/odd": (lambda x: F.adaptive_avg_pool2d(x, 1), {"x": floats(2, 19, 5, 7)}),
    "adaptive_avg_pool2d_3x4/overlap": (lambda x: F.adaptive_avg_pool2d(x, (3, 4)), {"x": floats(2, 3, 7, 9)}),
    "adaptive_avg_pool2d_3x4/repeat": (lambda x: F.adaptive_avg_pool2d(x, (3, 4)), {"x": floats(2, 19, 2, 3)}),
    "split_first/odd": (lambda x: x.split([2, 4, 1], 1)[0], {"x": floats(3, 7, 5)}),
    "split_middle/odd": (lambda x: x.split([2, 4, 1], -2)[1], {"x": floats(3, 7, 5)}),
    "split_last/odd": (lambda x: x.split([2, 4, 1], 0)[2], {"x": floats(7, 5, 3)}),
    "split_all/odd": (lambda x: torch.mul(*x.split([3, 3], -1)), {"x": floats(3, 7, 6)}),
    "concat/odd": (lambda *parts: torch.cat(parts, 1),
                   {"a": floats(3, 2, 5), "b": floats(3, 4, 5), "c": floats(3, 1, 5)}),
    "concat_rows/odd": (lambda a, b: torch.cat((a, b), -3), {"a": floats(2, 3, 5), "b": floats(4, 3, 5)}),
    "concat_twice/odd": (lambda x: torch.cat((x, x), -1), {"x": floats(3, 7, 5)}),
}


def compute(case, dtype):
    function, operands = CASES[case]
    leaves = {name: tensor(f"{case}/{name}", spec) for name, spec in operands.items()}
    leaves = {name: leaf.to(dtype).requires_grad_() if leaf.is_floating_point() else leaf
              for name, leaf in leaves.items()}
    y = function(*leaves.values())
    y.backward(torch.from_numpy(formula.uniform(f"{case}/dy", y.shape)).to(dtype))
    return {"y": y, **{f"d{name}": leaf.grad for name, leaf in leaves.items() if leaf.requires_grad}}


def make():
    return [{"name": case, "inputs": operands, "outputs": record_all(lambda dtype: compute(case, dtype))}
            for case, (_, operands) in CASES.items()]
