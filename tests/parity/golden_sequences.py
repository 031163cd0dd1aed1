"""Goldens of gpt2, with Hugging Face's own module, and of transformer, with nn.Transformer (golden_exact.py)."""
import math

import torch
from torch import nn

import golden_exact
from golden_layers import sines
from golden_record import digits, tensor

LENGTHS = [24, 5, 16, 1]


class Case:
    """`length` of the inputs; `lengths` of rows that are padded; `source`: so many tokens are the source."""

    rate = 0.03  # twice as much and the steps overshoot, which amplifies rounding
    batch = 4

    def __init__(self, name, model, arguments, length, lengths=None, source=None):
        self.name, self.model, self.arguments, self.length = name, model, arguments, length
        self.lengths, self.source = lengths, source

    def specs(self):
        classes = self.arguments["vocab_size"]
        padded = {"lengths": self.lengths} if self.lengths else {}
        rows = range(self.batch if padded else 0)
        ignored = [row * self.length + at for row in rows for at in range(self.lengths[row], self.length)]
        targets = {"shape": [self.batch, self.length], "classes": classes} | ({"ignored": ignored} if padded else {})
        inputs = {"shape": [self.batch, self.length], "classes": classes} | padded
        if self.source is None:
            return {"inputs": inputs, "targets": targets}
        return {"src": {"shape": [self.batch, self.source], "classes": classes}, "tgt": inputs, "targets": targets}

    def tokens(self, name):
        spec = self.specs()[name]
        x = tensor(f"{self.name}/{name}", spec)
        for row, length in enumerate(spec.get("lengths", [])):
            x[row, length:] = -1
        return x

    def run(self, module, dtype):
        names = ("inputs",) if self.source is None else ("src", "tgt")
        logits = module(*(self.tokens(name) for name in names))
        return nn.functional.cross_entropy(logits.flatten(0, 1), tensor(f"{self.name}/targets",
                                                                       self.specs()["targets"]).flatten())

    def build(self):
        return (GPT2 if self.model == "gpt2" else Transformer)(**self.arguments)

    def parameter_specs(self, module):
        """Matrices uniform by their fan in (Conv1D's is the first dimension), norms around 1."""
        specs = {}
        for name, value in module.named_parameters():
            if value.dim() == 1:
                norm = name.endswith("weight")
                specs[name] = {"start": 1.0, "scale": 0.25} if norm else {"scale": 0.1}
            elif "embedding" in name or ".w" in name or name == "pos":
                specs[name] = {"scale": 0.3}
            else:
                specs[name] = {"scale": digits(1 / math.sqrt(value.shape[0 if self.model == "gpt2" else 1]), 4)}
            specs[name] = {"shape": list(value.shape), **specs[name]}
        return specs


class GPT2(nn.Module):
    def __init__(self, n_layer, n_head, n_embd, block_size, vocab_size, dropout):
        super().__init__()
        from transformers import GPT2Config, GPT2LMHeadModel
        config = GPT2Config(n_layer=n_layer, n_head=n_head, n_embd=n_embd, n_positions=block_size,
                            vocab_size=vocab_size, resid_pdrop=dropout, embd_pdrop=dropout, attn_pdrop=dropout)
        self.whole = GPT2LMHeadModel(config)

    def named_parameters(self, *arguments, **options):
        return self.whole.named_parameters(*arguments, **options)

    def forward(self, tokens):
        return self.whole(tokens).logits


class Transformer(nn.Module):
    """tests/bench's, with the options of ours; tokens of -1 are padding."""

    def __init__(self, vocab_size, d_model, nhead, layers, block_size, positions="sinusoidal", norm_first=False):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, d_model)
        if positions == "learned":
            self.pos = nn.Parameter(torch.zeros(block_size, d_model))
        self.tr = nn.Transformer(d_model, nhead, layers, layers, 4 * d_model, 0.0, batch_first=True,
                                 norm_first=norm_first)
        self.fc = nn.Linear(d_model, vocab_size)

    def embedded(self, tokens):
        x = self.embedding(tokens.clamp(min=0)) * (tokens != -1)[..., None]
        length = tokens.shape[1]
        return x + (self.pos[:length] if hasattr(self, "pos") else sines(length, x.shape[-1]).to(x.dtype))

    def forward(self, source, target=None):
        target = source if target is None else target
        unseen = source == -1
        causal = torch.ones(target.shape[1], target.shape[1], dtype=torch.bool).triu(1)
        return self.fc(self.tr(self.embedded(source), self.embedded(target), tgt_mask=causal,
                               src_key_padding_mask=unseen, memory_key_padding_mask=unseen))


SMALL_GPT2 = {"n_layer": 2, "n_head": 3, "n_embd": 48, "block_size": 32, "vocab_size": 67, "dropout": 0.0}
SMALL = {"vocab_size": 60, "d_model": 32, "nhead": 4, "layers": 2, "block_size": 24}
CASES = [
    Case("gpt2", "gpt2", SMALL_GPT2, 32),
    Case("gpt2_short", "gpt2", SMALL_GPT2, 19),
    Case("transformer", "transformer", SMALL, 24),
    Case("transformer_norm_first", "transformer", {**SMALL, "positions": "learned", "norm_first": True}, 24),
    Case("transformer_padded", "transformer", {**SMALL, "layers": 1}, 24, lengths=LENGTHS),
    Case("transformer_pairs", "transformer", {**SMALL, "layers": 1, "positions": "learned"}, 17, source=9),
]


def make():
    return [golden_exact.make_case(case) for case in CASES]
