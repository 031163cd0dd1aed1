#!/usr/bin/env python3
"""tests/parity/make_tokenizer_goldens.py TEXT: tokenizer.json and tokenizer_goldens.json in tests/unit/data.

A small byte-level BPE that Hugging Face's tokenizers train on TEXT (Tiny Shakespeare), and what it makes, under each
of the two patterns, of 10,000 strings that both sides compute: of each block of 100 the 64-bit FNV-1a hash of all ids,
"1,2,3;" a string. C++: tests/unit/data/tokenizer.cpp.
"""
import json
import pathlib
import sys

import formula
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
          r"|\s+(?!\S)|\s+")
PRE_TOKENIZERS = {
    "gpt2": pre_tokenizers.ByteLevel(add_prefix_space=False),
    "llama3": pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(LLAMA3), "isolated"),
                                       pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]),
}
PIECES = ["'s", "'S", "'t", "'T", "'re", "'Re", "'RE", "'ve", "'VE", "'m", "'M", "'ll", "'LL", "'lL", "'d", "'D", "'\u017f",
          "'l", "'r", "'v", "'", "\n", "\r", "\r\n", "\n\n", " \n", "\n ", " ", "  ", "   ", "\t", "\v", "\f", "\x1c", "\x85",
          "\xa0", "\u1680", "\u2003", "\u2028", "\u202f", "\u3000", "\u200b", "\u180e", "\ufeff", "1", "22", "4567", "1234567", "!",
          "?!", "...", "--", ":\n", "<|endoftext|>", "<|endof", "the", " the", " and", "KING", " HENRY", "ROMEO:", " thou", " shall",
          " not", "ing", " o'er", " well-beloved", "Citizen", " caf\u00e9", "\u0436\u0443\u043a", " \u65e5\u672c", "e\u0301",
          "\U0001f600", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "\0", "\x7f"]
# Characters that every Unicode from 14 on gives the same category.
RANGES = [(0x80, 0xFF), (0x100, 0x17F), (0x300, 0x36F), (0x388, 0x38A), (0x391, 0x3A1), (0x400, 0x45F), (0x5D0, 0x5EA), (0x660, 0x669),
          (0x905, 0x96F), (0xE01, 0xE3A), (0x2000, 0x2064), (0x2070, 0x2071), (0x2150, 0x2188), (0x2460, 0x24FF), (0x3000, 0x301F),
          (0x3041, 0x3096), (0x30A1, 0x30FF), (0x3220, 0x3247), (0x4E00, 0x4F00), (0xAC00, 0xAD00), (0xE000, 0xE010), (0xFE00, 0xFE0F),
          (0xFF10, 0xFF3A), (0x1D400, 0x1D433), (0x1D7CE, 0x1D7FF), (0x12400, 0x1246E), (0x1F600, 0x1F64F), (0x20000, 0x20010),
          (0x10FFFE, 0x10FFFF)]


def string(number):
    words = [int(word) for word in formula.words(f"tokenizer/{number}", 33)]
    text = ""
    for piece in range((words[0] >> 33) % 16 + 1):
        kind, word = (words[1 + 2 * piece] >> 33) % 4, words[2 + 2 * piece]
        if kind < 2:
            text += PIECES[(word >> 33) % len(PIECES)]
        elif kind == 2:
            first, last = RANGES[(word >> 33) % len(RANGES)]
            text += chr(first + (word & 0xFFFF) % (last - first + 1))
        else:
            text += chr(0x20 + (word >> 33) % 95) * (1 + (word & 3))
    return text


def train(text):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer, tokenizer.decoder = PRE_TOKENIZERS["llama3"], decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=1500, special_tokens=["<|endoftext|>"], show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train([text], trainer)
    return tokenizer


def blocks(tokenizer):
    for block in range(100):
        encoded = [tokenizer.encode(string(100 * block + i)).ids for i in range(100)]
        yield f"{formula.fnv1a(''.join(','.join(map(str, ids)) + ';' for ids in encoded)):016x}"


def main():
    folder = pathlib.Path(__file__).parent.parent / "unit/data"
    tokenizer = train(sys.argv[1])
    tokenizer.save(str(folder / "tokenizer.json"), pretty=False)
    goldens = {"pieces": PIECES, "ranges": RANGES}
    for pattern, pre_tokenizer in PRE_TOKENIZERS.items():
        tokenizer.pre_tokenizer = pre_tokenizer
        goldens[pattern] = list(blocks(tokenizer))
    lines = ",\n".join(json.dumps(key) + ": " + json.dumps(value) for key, value in goldens.items())
    (folder / "tokenizer_goldens.json").write_text("{" + lines + "}\n")


main()
