// How text, tokens and tensors get to a GPU.
#include "kernels/base/philox.h"
#include "kernels/base/safetensors.h"
#include "tests/cluster/gpus.h"

namespace lockstep::tests {
namespace {

constexpr std::uint32_t letters = 20;

/// A walk that a model learns a little of, with an empty line behind about every 30th letter.
std::string walk(std::int64_t characters, std::uint64_t seed = 3) {
  const Philox random(seed, 0);
  std::string text;
  for (std::uint64_t i = 0; std::ssize(text) < characters; ++i) {
    const std::uint32_t number = random.below(30 * letters, i);
    const char next = text.empty() ? 'a' : static_cast<char>('a' + (text.back() * 5 + 1) % letters);
    text += number % 4 == 0 ? static_cast<char>('a' + number / 4 % letters) : next;
    if (number / letters == 0) text += "\n\n";
  }
  return text;
}

template <class Word>
std::string tokens_of(const std::string& text) {
  std::vector<Word> tokens;
  for (const char letter : text)
    tokens.push_back(static_cast<Word>(letter == '\n' ? 0 : 300 + letter - 'a'));  // more than a byte
  return {reinterpret_cast<const char*>(tokens.data()), tokens.size() * sizeof(Word)};
}

struct Files : TemporaryFolder {
  Files() {
    write_file(*this / "text.txt", walk(3000));
    write_file(*this / "train.bin", tokens_of<std::uint16_t>(walk(3000)));
    write_file(*this / "val.bin", tokens_of<std::uint16_t>(walk(500, 4)));
    write_file(*this / "wide.bin", tokens_of<std::uint32_t>(walk(3000)));
  }
  Words text() const { return {"--dataset=text", "--data-dir=" + (*this / "text.txt").string()}; }
  Words tokens() const { return {"--dataset=tokens", "--data-dir=" + (*this / "train.bin").string()}; }
  Words wide_tokens() const {
    return {"--dataset=tokens", "--data-dir=" + (*this / "wide.bin").string(), "--token-dtype=uint32"};
  }
};

const Words on_gpu{"--device=cuda", "--threads=1", "--seed=7", "--log-every=1", "--lr=3e-3"};
const Words gpt2{"--model=gpt2", "--model-args=n_layer=1,n_head=2,n_embd=16,block_size=16,dropout=0.1",
                 "--batch-size=4"};

/// The run with its data on the host, and on the GPU: the summary of the second.
nlohmann::json check_same_bits(int ranks, const Words& options, const TemporaryFolder& folder) {
  const auto host = train(ranks, options + Words{"--data-device=host"}, folder / "host");
  const auto gpu = train(ranks, options + Words{"--data-device=gpu"}, folder / "gpu");
  CHECK(host["data_device"] == "host");
  CHECK(gpu["data_device"] == "gpu");
  CHECK(gpu["weights_sha256"] == host["weights_sha256"]);
  CHECK(gpu["eval"] == host["eval"]);
  CHECK(losses(folder / "gpu") == losses(folder / "host"));
  CHECK(gpu["pinned_bytes"].get<std::int64_t>() < host["pinned_bytes"].get<std::int64_t>());
  return gpu;
}

TEST_CASE("text and tokens that a GPU keeps, or that travel to it, train to the same bits") {
  const int ranks = GENERATE(1, 2);
  const std::string data = GENERATE("text", "uint16", "uint32");
  CAPTURE(ranks, data);
  give_gpus(ranks);
  const Files files;
  const TemporaryFolder folder;
  const Words source = data == "text"     ? files.text()
                       : data == "uint16" ? files.tokens()
                                          : files.wide_tokens();
  // The set that is evaluated ends in a short window, and its last batch in rows that do not count.
  check_same_bits(ranks, on_gpu + gpt2 + source + Words{"--max-steps=6", "--cuda-graph=on"}, folder);
}

TEST_CASE("windows of every kind, for one target or many, in micro-batches, are gathered on a GPU") {
  give_gpus(1);
  const Files files;
  const TemporaryFolder folder;
  const Words lstm{"--model=lstm", "--model-args=embedding=8,hidden=8,layers=1,output=all", "--seq-len=12",
                   "--batch-size=4"};
  const Words rnn{"--model=rnn", "--model-args=embedding=8,hidden=8,output=last", "--seq-len=12",
                  "--batch-size=4"};
  const Words transformer{"--model=transformer", "--model-args=d_model=16,nhead=2,layers=1,block_size=12",
                          "--batch-size=4"};
  const std::vector<Words> runs{
      lstm + files.text() + Words{"--windows=each", "--max-steps=4", "--epochs=1"},
      // Cut to lengths, each of which has plans of its own.
      lstm + files.text() + Words{"--windows=documents", "--max-steps=8"},
      rnn + files.tokens() + Words{"--max-steps=4"}, transformer + files.text() + Words{"--max-steps=3"},
      gpt2 + files.tokens() + Words{"--windows=documents=0", "--max-steps=4", "--accumulate-steps=3"}};
  const std::size_t run = GENERATE(range(std::size_t{0}, std::size_t{5}));
  CAPTURE(run);
  check_same_bits(1, on_gpu + runs[run], folder);
}

TEST_CASE("a run goes on with its tokens on the other side, and on other ranks") {
  give_gpus(2);
  const Files files;
  const TemporaryFolder folder;
  const Words options = on_gpu + gpt2 + files.tokens() + Words{"--eval-every=0"};
  const auto whole = train(2, options + Words{"--max-steps=8", "--data-device=host"}, folder / "whole");
  const auto part = [&](const char* side, int steps) {
    return train(2,
                 options + Words{"--checkpoint-every=2", "--resume=auto",
                                 "--max-steps=" + std::to_string(steps), side},
                 folder / "parts");
  };
  part("--data-device=host", 2);
  part("--data-device=gpu", 4);
  part("--data-device=host", 6);
  CHECK(part("--data-device=gpu", 8)["weights_sha256"] == whole["weights_sha256"]);
}

/// Pictures of three channels with their classes, or with a number for each.
void write_tensors(const std::filesystem::path& path, bool classes) {
  constexpr std::int64_t samples = 30;
  std::vector<float> inputs(samples * 3 * 14 * 14);
  Philox(5, 0).normals(0, inputs);
  std::vector<std::int64_t> labels(samples);
  for (std::size_t i = 0; i < labels.size(); ++i) labels[i] = static_cast<std::int64_t>(i * 7 % 5);
  std::vector<float> numbers(inputs.begin(), inputs.begin() + samples);
  const std::vector<SafetensorsFile::Tensor> tensors{
      {"inputs", DType::f32, {samples, 3, 14, 14}, std::as_bytes(std::span(inputs))},
      {"targets", classes ? DType::i64 : DType::f32, classes ? Shape{samples} : Shape{samples, 1},
       classes ? std::as_bytes(std::span(labels)) : std::as_bytes(std::span(numbers))}};
  write_safetensors(path, tensors);
}

TEST_CASE("tensors that a GPU keeps train to the same bits") {
  give_gpus(2);
  const bool classes = GENERATE(true, false);
  const int ranks = GENERATE(1, 2);
  CAPTURE(classes, ranks);
  const TemporaryFolder folder;
  write_tensors(folder / "samples.safetensors", classes);
  const Words model = classes ? Words{"--model=simplecnn", "--model-args=num_classes=5", "--amp=bf16"}
                              : Words{"--model=linear", "--model-args=in=588,out=1"};
  // The last batch of an epoch is smaller.
  check_same_bits(ranks,
                  on_gpu + model + sgd +
                      Words{"--dataset=tensors", "--data-dir=" + (folder / "samples.safetensors").string(),
                            "--batch-size=4", "--epochs=2"},
                  folder);
}

TEST_CASE("auto keeps tokens on a GPU where they take an eighth of what is free, at most") {
  const bool fits = GENERATE(true, false);
  give_gpus(1);
  const Variable memory("SIMGPU_MEMORY_MB", fits ? "96" : "64");
  const Files files;
  write_file(files / "train.bin", std::string(std::size_t{9} << 20, '\1'));  // in steps of two bytes
  const TemporaryFolder folder;
  const auto summary =
      train(1, on_gpu + gpt2 + files.tokens() + Words{"--max-steps=1", "--eval-every=0"}, folder / "run");
  CHECK(summary["data_device"] == (fits ? "gpu" : "host"));
  CHECK((summary["plan_bytes"].get<std::int64_t>() > std::int64_t{8} << 20) == fits);
}

TEST_CASE("--data-device gpu says why a GPU cannot keep sequences") {
  give_gpus(1);
  const Files files;
  write_file(files / "source.txt", "a b\nb a\n");
  const TemporaryFolder folder;
  const auto refused = [&](const Words& options, const std::string& reason) {
    Program run(trainer_words(
        1, on_gpu + options +
               Words{"--data-device=gpu", "--max-steps=1", "--run-dir", (folder / "run").string()}));
    CHECK(run.wait_for_end() == 2);
    INFO(run.output());
    CHECK(run.output().find("--data-device gpu: " + reason) != std::string::npos);
    CHECK_FALSE(std::filesystem::exists(folder / "run"));
  };
  refused(gpt2 + files.tokens() + Words{"--windows=packed=0"}, "these windows are packed");
  refused(Words{"--model=transformer", "--model-args=d_model=16,nhead=2,layers=1,block_size=12",
                "--dataset=parallel-text", "--data-dir=" + (files / "source.txt").string(),
                "--target-file=" + (files / "source.txt").string()},
          "these samples have lengths of their own");
  refused(gpt2 + Words{"--dataset=synthetic", "--seq-len=8"}, "not these samples");
  refused(gpt2 + files.tokens() + Words{"--device=cpu"}, "this run computes on the CPU");
}

}  // namespace
}  // namespace lockstep::tests
