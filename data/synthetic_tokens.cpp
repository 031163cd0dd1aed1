#include <cmath>
#include <cstring>
#include <vector>

#include "data/built_in.h"
#include "kernels/base/division.h"
#include "kernels/base/philox.h"

namespace lockstep::data {
namespace {

constexpr std::size_t numbers_of_block = 4;

/// Philox streams of one seed; synthetic.cpp has others.
enum Stream : std::uint64_t { train_stream = 16, test_stream, weight_stream };

/// Random sequences from which a little can be learned: three tokens in four follow from the token before
/// them or, where a sample has one class, every second one is of the class's own part of the vocabulary.
class SyntheticTokens final : public Dataset {
 public:
  SyntheticTokens(const DatasetOptions& options, Split split)
      : spec_(synthetic_spec(options)),
        size_(options.samples),
        length_(static_cast<std::size_t>(options.seq_len)),
        vocab_(static_cast<std::uint32_t>(options.vocab_size)),
        classes_(static_cast<std::uint32_t>(options.num_classes)),
        random_(options.seed, split == Split::train ? train_stream : test_stream) {
    if (classes_ > 0) return;
    weights_.resize(static_cast<std::size_t>(spec_.target_shape.elements()) * length_);
    Philox(options.seed, weight_stream).normals(0, weights_);
  }

  std::int64_t size() const override { return size_; }
  const SampleSpec& spec() const override { return spec_; }
  std::int64_t valid_targets(std::int64_t, std::int64_t) const override {
    return classes_ > 0 ? spec_.target_shape.elements() : 1;
  }

  void get(std::int64_t index, std::int64_t, std::span<std::byte> input,
           std::span<std::byte> target) const override {
    const std::span tokens(reinterpret_cast<std::int64_t*>(input.data()), length_);
    // A sample has a block for its class and one for each four of its tokens.
    const std::uint64_t blocks = 1 + parts_of(length_, numbers_of_block);
    const std::uint64_t first = static_cast<std::uint64_t>(index) * blocks;
    if (classes_ > 0 && spec_.target_shape.rank() == 0) {
      const std::uint32_t label = below(classes_, random_.block(first)[0]);
      fill(tokens, first + 1, 2, [&](std::int64_t, std::uint32_t random) { return of_class(label, random); });
      const std::int64_t wide = label;
      return void(std::memcpy(target.data(), &wide, sizeof wide));
    }
    fill(tokens, first + 1, 3, [&](std::int64_t before, std::uint32_t) {
      return (before + 1) % static_cast<std::int64_t>(vocab_);
    });
    if (classes_ > 0) {
      next_tokens(tokens, {reinterpret_cast<std::int64_t*>(target.data()), length_});
    } else {
      values(tokens, {reinterpret_cast<float*>(target.data()), target.size() / sizeof(float)});
    }
  }

 private:
  static std::uint32_t below(std::uint32_t bound, std::uint32_t random) {
    return static_cast<std::uint32_t>(std::uint64_t{random} * bound >> 32);
  }

  /// Of each token's number the highest bits choose a token, and the lowest two whether it is `learnable`'s,
  /// so many times in four.
  template <class Learnable>
  void fill(std::span<std::int64_t> tokens, std::uint64_t block, std::uint32_t quarters,
            Learnable&& learnable) const {
    std::int64_t before = 0;
    for (std::size_t at = 0; at < tokens.size(); ++block) {
      for (const std::uint32_t random : random_.block(block)) {
        if (at == tokens.size()) return;
        const bool free = (random & 3U) >= quarters || at == 0;
        before = free ? below(vocab_, random) : learnable(before, random);
        tokens[at++] = before;
      }
    }
  }

  /// One of the class's tokens: with fewer tokens than classes several classes share one.
  std::int64_t of_class(std::uint32_t label, std::uint32_t random) const {
    if (vocab_ <= classes_) return label % vocab_;
    const std::uint64_t begin = std::uint64_t{label} * vocab_ / classes_;
    const std::uint64_t end = std::uint64_t{label + 1} * vocab_ / classes_;
    return static_cast<std::int64_t>(begin + below(static_cast<std::uint32_t>(end - begin), random));
  }

  /// As torch's x.roll(-1): the last token's next is the first.
  void next_tokens(std::span<const std::int64_t> tokens, std::span<std::int64_t> next) const {
    const auto classes = static_cast<std::int64_t>(classes_);
    for (std::size_t at = 0; at < tokens.size(); ++at)
      next[at] = tokens[at + 1 == tokens.size() ? 0 : at + 1] % classes;
  }

  /// Linear in the tokens, of standard deviation near 1.
  void values(std::span<const std::int64_t> tokens, std::span<float> target) const {
    const auto half = static_cast<float>(vocab_) / 2;
    const float scale = 1.75F / (half * std::sqrt(static_cast<float>(length_)));
    for (std::size_t t = 0; t < target.size(); ++t) {
      float sum = 0;
      for (std::size_t at = 0; at < length_; ++at)
        sum += weights_[t * length_ + at] * (static_cast<float>(tokens[at]) - half);
      target[t] = scale * sum;
    }
  }

  SampleSpec spec_;
  std::int64_t size_;
  std::size_t length_;
  std::uint32_t vocab_;
  std::uint32_t classes_;  ///< 0: values
  Philox random_;
  std::vector<float> weights_;
};

}  // namespace

DatasetPtr make_synthetic_tokens(const DatasetOptions& options, Split split) {
  return std::make_shared<SyntheticTokens>(options, split);
}

}  // namespace lockstep::data
