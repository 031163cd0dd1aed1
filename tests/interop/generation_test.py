"""`trainer predict --prompt` beside Hugging Face's generate(): the same weights write the same text."""
import json
import pathlib
import string
import tempfile
import unittest

import torch
from transformers import GPT2Config, GPT2LMHeadModel

from programs import LAUNCH, TRAINER, run_well

CHARACTERS = sorted(string.ascii_letters[:48] + " .")
PROMPTS = ["a", "The cat sat.", "AbCdEfGhIjKlMnOp", " ."]


class Generation(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="lockstep-generation-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        torch.manual_seed(1)
        # Weights large enough that no two tokens are nearly as likely.
        self.module = GPT2LMHeadModel(GPT2Config(n_layer=3, n_head=4, n_embd=32, vocab_size=len(CHARACTERS), n_positions=48,
                                                 bos_token_id=0, eos_token_id=0, initializer_range=0.3)).eval()
        self.module.save_pretrained(self.folder / "gpt2")
        (self.folder / "characters.json").write_text(json.dumps(CHARACTERS))

    def written(self, launched, *options, folder="gpt2"):
        prompts = [word for prompt in PROMPTS for word in ("--prompt", prompt)]
        done = run_well([*launched, TRAINER, "predict", self.folder / folder, "--tokenizer",
                         self.folder / "characters.json", "--max-new-tokens", 30, *prompts, *options])
        return [json.loads(line)["text"] for line in done.stdout.splitlines() if line.startswith("{")]

    def theirs(self, prompt):
        ids = torch.tensor([[CHARACTERS.index(character) for character in prompt]])
        out = self.module.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=30, do_sample=False,
                                   eos_token_id=None, pad_token_id=0)
        return "".join(CHARACTERS[token] for token in out[0, ids.shape[1]:])

    def test_greedy_text_is_hugging_faces(self):
        wanted = [self.theirs(prompt) for prompt in PROMPTS]
        self.assertEqual(self.written([], "--temperature", 0), wanted)
        self.assertEqual(self.written([LAUNCH, "--nproc_per_node=2"], "--temperature", 0), wanted)
        self.assertEqual(self.written([], "--top-k", 1), wanted)
        self.assertEqual(self.written([], "--top-p", 0), wanted)

    def test_names_without_the_prefix_of_the_language_model_are_known(self):
        self.module.transformer.save_pretrained(self.folder / "bare")  # as the published gpt2 has them
        self.assertEqual(self.written([], "--temperature", 0, folder="bare"), [self.theirs(prompt) for prompt in PROMPTS])


if __name__ == "__main__":
    unittest.main()
