#pragma once

#include <span>
#include <string>
#include <vector>

#include "kernels/base/philox.h"
#include "tests/cluster/sequences.h"

namespace lockstep::tests {

/// A recurrent model and what its states are.
struct RecurrentCase {
  const char* model;
  std::int64_t kinds;  ///< h, or h and c
  std::int64_t layers, hidden;
};
inline constexpr RecurrentCase rnn_states{"rnn", 1, 1, 12};
inline constexpr RecurrentCase lstm_states{"lstm", 2, 2, 10};

inline constexpr std::int64_t steps = 12;
inline constexpr std::int64_t sequences = 26;

using States = std::vector<std::vector<float>>;  ///< by kind, (samples, layers, hidden)

/// Sequences of `steps` tokens, their classes, and states before the first step.
struct RecurrentData {
  explicit RecurrentData(const RecurrentCase& of)
      : about(of), tokens(sequences * steps), classes(sequences), first(static_cast<std::size_t>(of.kinds)) {
    const Philox random(5, 6);
    for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = random.below(vocabulary, i);
    for (std::size_t i = 0; i < classes.size(); ++i) classes[i] = static_cast<std::int64_t>(i) % 6;
    for (std::size_t kind = 0; kind < first.size(); ++kind) {
      first[kind].resize(static_cast<std::size_t>(sequences * of.layers * of.hidden));
      random.normals(1000 * (kind + 1), first[kind]);
    }
  }

  /// Of all sequences the steps [from, to), with these states if there are any.
  std::string file(const TemporaryFolder& folder, const char* name, std::int64_t from, std::int64_t to,
                   const States* states = nullptr) const {
    std::vector<std::int64_t> part;
    for (std::int64_t row = 0; row < sequences; ++row) {
      part.insert(part.end(), tokens.begin() + row * steps + from, tokens.begin() + row * steps + to);
    }
    std::vector<SafetensorsFile::Tensor> tensors{tensor("inputs", {sequences, to - from}, part),
                                                 tensor("targets", {sequences}, classes)};
    for (std::size_t kind = 0; states != nullptr && kind < states->size(); ++kind) {
      tensors.push_back({kind == 0 ? "h0" : "c0",
                         DType::f32,
                         {sequences, about.layers, about.hidden},
                         std::as_bytes(std::span((*states)[kind]))});
    }
    return file_of(folder, name, tensors);
  }

  RecurrentCase about;
  std::vector<std::int64_t> tokens;
  std::vector<std::int64_t> classes;
  States first;
};

inline Words recurrent_options(const RecurrentCase& of) {
  return {std::string("--model=") + of.model,
          "--model-args=vocab_size=" + std::to_string(vocabulary) + ",embedding=6,num_classes=6,hidden=" +
              std::to_string(of.hidden) + ",layers=" + std::to_string(of.layers),
          "--threads=1",
          "--seed=7",
          "--log-every=1",
          "--epochs=2"};
}

/// What `trainer predict` writes into a file.
inline std::string predicted(const TemporaryFolder& folder, const std::string& name, int ranks,
                             const Words& words) {
  const std::string file = (folder / (name + ".safetensors")).string();
  output_of(ranks, Words{"predict"} + words + Words{"--output", file});
  return file;
}

inline std::vector<float> floats_in(const std::string& file, const char* name) {
  const SafetensorsFile tensors(file);
  const auto* tensor = tensors.find(name);
  REQUIRE(tensor != nullptr);
  REQUIRE(tensor->dtype == DType::f32);
  std::vector<float> values(tensor->bytes.size() / sizeof(float));
  std::memcpy(values.data(), tensor->bytes.data(), tensor->bytes.size());
  return values;
}

/// All final states of an LSTM, h and then c.
inline std::vector<float> states_in(const std::string& file) {
  std::vector<float> all = floats_in(file, "h_n");
  const std::vector<float> cells = floats_in(file, "c_n");
  all.insert(all.end(), cells.begin(), cells.end());
  return all;
}

}  // namespace lockstep::tests
