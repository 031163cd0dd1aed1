#pragma once

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "data/datasets.h"
#include "kernels/base/error.h"
#include "tests/support/files.h"
#include "tests/support/message_of.h"

namespace lockstep::data::testing {

using Ids = std::vector<std::int64_t>;

/// A sample of a set of i64 inputs and targets.
struct TokenSample {
  Ids input;
  Ids target;

  bool operator==(const TokenSample&) const = default;
};

inline TokenSample token_sample(const Dataset& set, std::int64_t index, std::int64_t epoch = 0) {
  TokenSample sample{Ids(set.spec().input_bytes() / 8), Ids(set.spec().target_bytes() / 8)};
  set.get(index, epoch, std::as_writable_bytes(std::span(sample.input)),
          std::as_writable_bytes(std::span(sample.target)));
  return sample;
}

inline std::vector<TokenSample> all_samples(const Dataset& set, std::int64_t epoch = 0) {
  std::vector<TokenSample> samples;
  for (std::int64_t i = 0; i < set.size(); ++i) samples.push_back(token_sample(set, i, epoch));
  return samples;
}

inline std::vector<TokenSample> samples(const DatasetOptions& options, Split split) {
  return all_samples(*open_dataset(options, split));
}

/// What is said against options of the training set.
inline std::string refusal(const DatasetOptions& options) {
  return tests::message_of<UsageError>([&] { open_dataset(options, Split::train); });
}

/// With the folders above it.
inline void put(const std::filesystem::path& path, const std::string& text) {
  std::filesystem::create_directories(path.parent_path());
  tests::write_file(path, text);
}

/// Numbers as the bytes of `Word`s.
template <class Word>
std::string words_of(const std::vector<std::int64_t>& numbers) {
  std::string bytes;
  for (const std::int64_t number : numbers) {
    const auto word = static_cast<Word>(number);
    bytes.append(reinterpret_cast<const char*>(&word), sizeof word);
  }
  return bytes;
}

/// What opening says against a file, without its path; the path must come first.
inline std::string complaint(const DatasetOptions& options, const std::filesystem::path& file,
                             Split split = Split::train) {
  const std::string said = tests::message_of<DataError>([&] { open_dataset(options, split); });
  const std::string path = file.string() + ": ";
  return said.starts_with(path) ? said.substr(path.size()) : "not about the file: " + said;
}

}  // namespace lockstep::data::testing
