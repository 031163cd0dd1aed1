// Models of text whose steps draw random numbers: windows that begin anywhere, dropout.
#include <fmt/format.h>

#include "tests/fault/ten_kills.h"

namespace lockstep::tests {
namespace {

/// More steps than ten kills take, each of which comes at most 12 behind the last and the time of a poll.
constexpr std::int64_t steps = 240;

TEST_CASE("gpt2 with dropout on random windows of a text: killed whole at ten moments") {
  const TemporaryFolder folder;
  std::string text;
  for (int i = 0; i < 4000; ++i) text += static_cast<char>('a' + (i * i + i / 7) % 23);
  write_file(folder / "text.txt", text);
  // Of the 3600 characters for training an epoch has 112 windows: 9 steps of 12 and one of 4.
  check_ten_kills(
      {.options = {"--model=gpt2", "--model-args=n_layer=1,n_head=2,n_embd=32,block_size=32,dropout=0.1",
                   "--dataset=text", "--data-dir=" + (folder / "text.txt").string(), "--windows=random",
                   "--batch-size=6", "--lr=3e-3"},
       .steps = steps},
      folder.path());
}

TEST_CASE("text with a vocabulary of other weights goes on when these are gone") {
  const TemporaryFolder folder;
  write_file(folder / "wide.txt", "abcdefghij\nabcdefghij\nabcdefghij\n");
  write_file(folder / "text.txt", "hahagagahagahahagagahagahahagagahagahahagagahaga");
  const auto options = [&](const char* text, int max_steps) {
    return Words{"--model=gpt2",         "--model-args=n_layer=1,n_head=1,n_embd=8,block_size=4",
                 "--dataset=text",       "--data-dir=" + (folder / text).string(),
                 "--batch-size=2",       "--eval-every=0",
                 "--checkpoint-every=2", fmt::format("--max-steps={}", max_steps)};
  };
  train(1, options("wide.txt", 2), folder / "wide");
  const Words from{"--init-from=" + (folder / "wide").string()};
  const auto whole = train(1, options("text.txt", 4) + from, folder / "whole");
  train(1, options("text.txt", 2) + from, folder / "parts");
  std::filesystem::remove_all(folder / "wide");
  const auto parts = train(1, options("text.txt", 4) + from + Words{"--resume"}, folder / "parts");
  CHECK(parts["weights_sha256"] == whole["weights_sha256"]);
}

TEST_CASE("lstm with dropout between its layers on texts of unequal lengths: killed whole at ten moments") {
  const TemporaryFolder folder;
  // So many characters that the gradient of the embedding is exchanged as rows.
  constexpr int vocabulary = 600;
  std::string lines;
  for (int i = 0, drawn = 0; i < 180; ++i) {
    lines += i % 3 == 0 ? "third\t" : "other\t";
    for (int at = 0; at < 1 + i * 7 % 16; ++at, drawn += 37) {
      const int character = 0x4E00 + drawn % vocabulary;  // in UTF-8 three bytes
      lines += static_cast<char>(0xE0 | character >> 12);
      lines += static_cast<char>(0x80 | (character >> 6 & 0x3F));
      lines += static_cast<char>(0x80 | (character & 0x3F));
    }
    lines += '\n';
  }
  write_file(folder / "texts.tsv", lines);
  check_ten_kills({.options = {"--model=lstm", "--model-args=embedding=24,hidden=32,layers=2,dropout=0.3",
                               "--dataset=labelled-text", "--data-dir=" + (folder / "texts.tsv").string(),
                               "--seq-len=16", "--batch-size=5"},
                   .steps = steps},
                  folder.path());
}

}  // namespace
}  // namespace lockstep::tests
