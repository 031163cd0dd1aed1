#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "data/dataset.h"
#include "kernels/base/activity.h"
#include "kernels/base/division.h"
#include "kernels/base/hash.h"

namespace lockstep::data {
namespace {

constexpr std::int64_t most_samples = 64;

/// Of `taken`, the first, the last, and evenly between them.
std::int64_t spread_sample(std::int64_t i, std::int64_t taken, std::int64_t size) {
  if (taken == 1) return 0;
  return static_cast<std::int64_t>(static_cast<double>(size - 1) * static_cast<double>(i) /
                                   static_cast<double>(taken - 1));
}

/// All of a piece that has no more than so many blocks, else these: the first, and of several the last.
void add_blocks(std::span<const std::byte> piece, std::size_t blocks, Sha256& hash) {
  constexpr std::size_t block = 4096;
  if (piece.size() <= blocks * block) {
    hash.update(piece);
    return;
  }
  const std::size_t last = piece.size() - block;
  for (std::size_t i = 0; i < blocks; ++i)
    hash.update(piece.subspan(blocks == 1 ? 0 : last * i / (blocks - 1), block));
}

}  // namespace

std::string content_digest_of(const Dataset& dataset, Activity* activity) {
  Activity::Work work(activity, std::string("reading blocks of the data set for its fingerprint"));
  constexpr std::size_t most_blocks = 256;  // 1 MiB, since it is made at every start
  std::size_t pieces = 0;
  dataset.each_content([&](std::span<const std::byte>) { ++pieces; });
  if (pieces == 0) return {};
  const std::size_t apart = parts_of(pieces, most_blocks);
  const std::size_t blocks = std::max<std::size_t>(1, most_blocks / pieces);
  Sha256 hash;
  dataset.each_content([&, index = std::size_t{0}](std::span<const std::byte> piece) mutable {
    hash.update(fmt::format("{} bytes", piece.size()));
    if (index++ % apart == 0) add_blocks(piece, blocks, hash);
    work.advance();
  });
  return hash.hex().substr(0, 16);
}

std::string file_digest_of(const Dataset& dataset, Activity* activity) {
  Activity::Work work(activity, std::string("reading files of the data set for its fingerprint"));
  constexpr std::size_t blocks = 16;  // of a file; 4 MiB of all, since it is made at every start
  const std::int64_t taken = std::min(dataset.size(), most_samples);
  bool has_files = false;
  Sha256 hash;
  for (std::int64_t i = 0; i < taken; ++i) {
    dataset.read_file(spread_sample(i, taken, dataset.size()), [&](std::span<const std::byte> file) {
      has_files = true;
      hash.update(fmt::format("sample {} of {} bytes", i, file.size()));
      add_blocks(file, blocks, hash);
    });
    work.advance();
  }
  return has_files ? hash.hex().substr(0, 16) : std::string();
}

std::string fingerprint_of(const Dataset& dataset, Activity* activity) {
  Activity::Work work(activity, std::string("reading samples of the data set for its fingerprint"));
  constexpr std::size_t most_contents = std::size_t{4} << 20;  // it is made at every start
  const SampleSpec& spec = dataset.spec();
  const std::int64_t size = dataset.size();
  Sha256 hash;
  hash.update(fmt::format("{} samples {} {} to {} {} of {}", size, name_of(spec.input_dtype),
                          spec.input_shape.str(), name_of(spec.target_dtype), spec.target_shape.str(),
                          spec.num_classes));
  if (spec.vocab_size > 0) hash.update(fmt::format(" tokens {} {}", spec.vocab_size, spec.source_length));
  if (spec.states_bytes() > 0) hash.update(fmt::format(" from states {}", spec.states_shape.str()));
  const std::size_t sample_bytes = spec.input_bytes() + spec.target_bytes() + spec.states_bytes();
  const std::size_t fitting = most_contents / std::max<std::size_t>(sample_bytes, 1);
  const std::int64_t taken = std::min({size, most_samples, static_cast<std::int64_t>(fitting)});
  if (taken == 0) return hash.hex().substr(0, 16);
  std::vector<std::byte> input(spec.input_bytes());
  std::vector<std::byte> target(spec.target_bytes());
  std::vector<std::byte> states(spec.states_bytes());
  for (std::int64_t i = 0; i < taken; ++i) {
    const std::int64_t sample = spread_sample(i, taken, size);
    dataset.get(sample, 0, input, target);
    if (!states.empty()) dataset.get_states(sample, states);
    hash.update(input).update(target).update(states);
    work.advance();
  }
  return hash.hex().substr(0, 16);
}

}  // namespace lockstep::data
