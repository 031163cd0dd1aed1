#include "data/built_in.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include <fmt/format.h>

#include "kernels/base/error.h"
#include "kernels/base/philox.h"

namespace lockstep::data {
namespace {

constexpr std::size_t pool_size = 1 << 18;  // floats: 1 MiB, which stays in a core's cache
constexpr std::size_t period = 16;          // floats: of a class's pattern, and between two windows
constexpr std::size_t linear_inputs = 16;
constexpr float pattern_share = 0.3f;  // of a value's standard deviation
constexpr float target_noise = 0.01f;

/// Philox streams of one seed.
enum Stream : std::uint64_t { noise_stream, pattern_stream, weight_stream, train_stream, test_stream };

class Synthetic final : public Dataset {
 public:
  Synthetic(const DatasetOptions& options, Split split)
      : spec_(synthetic_spec(options)),
        size_(options.samples),
        inputs_(static_cast<std::size_t>(spec_.input_shape.elements())),
        targets_(static_cast<std::size_t>(spec_.target_shape.elements())),
        random_(options.seed, split == Split::train ? train_stream : test_stream),
        pool_(pool_size),
        parts_(std::clamp<std::size_t>(static_cast<std::size_t>(spec_.num_classes), 1, pool_size / period)) {
    Philox(options.seed, noise_stream).normals(0, pool_);
    if (spec_.num_classes > 0) {
      add_patterns(options.seed);
    } else {
      weights_.resize(targets_ * std::min(inputs_, linear_inputs));
      Philox(options.seed, weight_stream).normals(0, weights_);
    }
  }

  std::int64_t size() const override { return size_; }
  const SampleSpec& spec() const override { return spec_; }

  void get(std::int64_t index, std::int64_t, std::span<std::byte> input,
           std::span<std::byte> target) const override {
    const PhiloxCounter random = random_.block(static_cast<std::uint64_t>(index));
    const auto in_classes = static_cast<std::uint32_t>(std::max<std::int64_t>(spec_.num_classes, 1));
    const auto label = static_cast<std::int64_t>(below(in_classes, random[0]));
    copy_window(window_of(label, random[1]), input);
    if (spec_.num_classes > 0) {
      std::memcpy(target.data(), &label, sizeof label);
    } else {
      linear_targets(random[2], {reinterpret_cast<const float*>(input.data()), inputs_},
                     {reinterpret_cast<float*>(target.data()), targets_});
    }
  }

 private:
  static std::size_t below(std::uint32_t bound, std::uint32_t random) {
    return static_cast<std::size_t>(std::uint64_t{random} * bound >> 32);
  }

  std::size_t part_begin(std::size_t part) const { return part * (pool_size / period) / parts_ * period; }

  void add_patterns(std::uint64_t seed) {
    const float noise_share = std::sqrt(1.0f - pattern_share * pattern_share);
    for (std::size_t part = 0; part < parts_; ++part) {
      float pattern[period];
      Philox(seed, pattern_stream).normals(part * period, pattern);
      for (std::size_t i = part_begin(part); i < part_begin(part + 1); ++i) {
        pool_[i] = noise_share * pool_[i] + pattern_share * pattern[i % period];
      }
    }
  }

  /// Where a sample's window begins: in the part of its label, and inside it as a whole where that is large
  /// enough.
  std::size_t window_of(std::int64_t label, std::uint32_t random) const {
    const std::size_t part = static_cast<std::size_t>(label) % parts_;
    const std::size_t begin = part_begin(part);
    const std::size_t length = part_begin(part + 1) - begin;
    const std::size_t starts = (length > inputs_ ? length - inputs_ : length) / period;
    return begin + below(static_cast<std::uint32_t>(std::max<std::size_t>(starts, 1)), random) * period;
  }

  /// Windows wrap around the pool's end.
  void copy_window(std::size_t begin, std::span<std::byte> input) const {
    const auto pool = std::as_bytes(std::span(pool_));
    std::size_t from = begin * sizeof(float);
    for (std::size_t done = 0; done < input.size(); from = 0) {
      const std::size_t count = std::min(input.size() - done, pool.size() - from);
      std::memcpy(input.data() + done, pool.data() + from, count);
      done += count;
    }
  }

  void linear_targets(std::uint32_t random, std::span<const float> input, std::span<float> target) const {
    const std::size_t terms = std::min(inputs_, linear_inputs);
    const float scale = 1.0f / std::sqrt(static_cast<float>(terms));
    for (std::size_t t = 0; t < target.size(); ++t) {
      float sum = 0;
      for (std::size_t i = 0; i < terms; ++i) sum += weights_[t * terms + i] * input[i];
      target[t] = scale * sum + target_noise * pool_[(random + t) % pool_size];
    }
  }

  SampleSpec spec_;
  std::int64_t size_;
  std::size_t inputs_;
  std::size_t targets_;
  Philox random_;
  std::vector<float> pool_;
  std::size_t parts_;
  std::vector<float> weights_;
};

}  // namespace

SampleSpec synthetic_spec(const DatasetOptions& options) {
  const bool classes = options.num_classes > 0;
  const bool tokens = options.seq_len > 0;
  const Shape of_classes = tokens && options.per_token ? Shape{options.seq_len} : Shape{};
  return {.input_dtype = tokens ? DType::i64 : DType::f32,
          .input_shape = tokens ? Shape{options.seq_len} : options.image_shape,
          .target_dtype = classes ? DType::i64 : DType::f32,
          .target_shape = classes ? of_classes : options.target_shape,
          .num_classes = options.num_classes,
          .vocab_size = tokens ? options.vocab_size : 0};
}

DatasetPtr make_synthetic(const DatasetOptions& options, Split split) {
  const auto refuse = [](const Shape& shape) {
    const bool valid =
        std::all_of(shape.begin(), shape.end(), [](std::int64_t extent) { return extent > 0; });
    if (!valid) throw UsageError(fmt::format("synthetic: shape {} has no elements", shape.str()));
  };
  refuse(options.image_shape);
  refuse(options.target_shape);
  if (options.samples < 1)
    throw UsageError(fmt::format("synthetic: {} samples: give --samples 1 or more", options.samples));
  if (options.num_classes < 0)
    throw UsageError(fmt::format("synthetic: {} classes: give --num-classes 0 or more", options.num_classes));
  if (options.seq_len > 0) return make_synthetic_tokens(options, split);
  return std::make_shared<Synthetic>(options, split);
}

}  // namespace lockstep::data
