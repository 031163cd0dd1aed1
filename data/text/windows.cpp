#include "data/text/windows.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "data/text/packed_windows.h"
#include "kernels/base/error.h"
#include "kernels/base/number.h"
#include "kernels/base/philox.h"

namespace lockstep::data {
namespace {

constexpr std::uint64_t philox_stream = std::uint64_t{0x7478} << 48;  ///< of text, beside the epoch

/// Where windows may lie.
struct Stretch {
  std::size_t piece = 0;
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t first = 0;  ///< of all windows, or of all places where one may begin, the number of its first
};

class Windows final : public Dataset {
 public:
  Windows(std::vector<TokenPiece> pieces, WindowRule::Kind kind, const SampleSpec& spec, std::uint64_t seed)
      : pieces_(std::move(pieces)),
        spec_(spec),
        length_(spec.input_shape[0]),
        kind_(kind),
        is_random_(kind == WindowRule::Kind::random),
        seed_(seed) {
    for (std::size_t piece = 0; piece < pieces_.size(); ++piece) {
      tokens_ += pieces_[piece].tokens.size();
      if (kind != WindowRule::Kind::documents) {
        add({piece, 0, pieces_[piece].tokens.size(), 0});
        continue;
      }
      for (const auto& [begin, end] : pieces_[piece].documents) add({piece, begin, end, 0});
      pieces_[piece].documents = {};
    }
  }

  std::int64_t size() const override {
    return is_random_ && places_ > 0 ? std::max<std::int64_t>(tokens_ / length_, 1) : places_;
  }
  const SampleSpec& spec() const override { return spec_; }

  void get(std::int64_t index, std::int64_t epoch, std::span<std::byte> input,
           std::span<std::byte> target) const override {
    const TokenSpan window = find(index, epoch);
    const std::int64_t count = window.size() - 1;  // of targets
    const std::span inputs(reinterpret_cast<std::int64_t*>(input.data()), static_cast<std::size_t>(length_));
    const std::span targets(reinterpret_cast<std::int64_t*>(target.data()), target.size() / 8);
    const auto filled = static_cast<std::size_t>(count);
    window.copy_to(inputs.first(filled));
    std::ranges::fill(inputs.subspan(filled), padding_token);
    if (spec_.target_shape.rank() == 0) return window.part(count, count + 1).copy_to(targets);
    window.part(1, count + 1).copy_to(targets.first(filled));
    std::ranges::fill(targets.subspan(filled), no_class);
  }

  std::int64_t valid_targets(std::int64_t index, std::int64_t epoch) const override {
    return spec_.target_shape.rank() == 0 ? 1 : find(index, epoch).size() - 1;
  }

  std::int64_t length(std::int64_t index) const override {
    return kind_ == WindowRule::Kind::documents ? find(index, 0).size() - 1 : 0;
  }

 private:
  void add(Stretch stretch) {
    const std::int64_t targets = stretch.end - stretch.begin - 1;
    const std::int64_t places = is_random_ ? targets - length_ + 1 : (targets + length_ - 1) / length_;
    if (places <= 0) return;
    stretch.first = places_;
    stretches_.push_back(stretch);
    places_ += places;
  }

  std::int64_t random_place(std::int64_t index, std::int64_t epoch) const {
    const Philox philox(seed_, philox_stream | static_cast<std::uint64_t>(epoch));
    const PhiloxCounter words = philox.block(static_cast<std::uint64_t>(index));
    const std::uint64_t random = std::uint64_t{words[0]} << 32 | words[1];
    return static_cast<std::int64_t>(
        static_cast<unsigned __int128>(random) * static_cast<std::uint64_t>(places_) >> 64);
  }

  /// The inputs of a window and the token that follows them.
  TokenSpan find(std::int64_t index, std::int64_t epoch) const {
    const std::int64_t place = is_random_ ? random_place(index, epoch) : index;
    const Stretch& stretch = *std::prev(std::ranges::upper_bound(stretches_, place, {}, &Stretch::first));
    const std::int64_t begin = stretch.begin + (place - stretch.first) * (is_random_ ? 1 : length_);
    return pieces_[stretch.piece].tokens.part(begin, std::min(begin + length_ + 1, stretch.end));
  }

  std::vector<TokenPiece> pieces_;
  SampleSpec spec_;
  std::int64_t length_;
  WindowRule::Kind kind_;
  bool is_random_;
  std::uint64_t seed_;
  std::vector<Stretch> stretches_;
  std::int64_t tokens_ = 0;
  std::int64_t places_ = 0;
};

}  // namespace

WindowRule WindowRule::parse(const std::string& text) {
  using enum Kind;
  if (text.empty() || text == "random") return {};
  if (text == "each") return {.kind = each};
  for (const auto& [name, kind] : {std::pair("documents", documents), std::pair("packed", packed)}) {
    if (text == name) return {.kind = kind};
    const std::string with_id = std::string(name) + "=";
    if (!text.starts_with(with_id)) continue;
    const auto id = parse_number<std::int64_t>(std::string_view(text).substr(with_id.size()));
    if (id && *id >= 0) return {.kind = kind, .boundary = id};
  }
  throw UsageError(fmt::format(
      "'{}' is none of random, each, documents, packed, documents=ID and packed=ID, the token that "
      "parts them",
      text));
}

SampleSpec window_spec(std::int64_t length, bool per_token, std::int64_t vocab_size, const WindowRule& rule) {
  if (rule.packs() && !per_token) {
    throw UsageError(
        "--windows packed: the model gives one class for a window, which has several documents; take gpt2");
  }
  return {.input_dtype = DType::i64,
          .input_shape = {rule.packs() ? 2 * length : length},
          .target_dtype = DType::i64,
          .target_shape = per_token ? Shape{length} : Shape{},
          .num_classes = vocab_size,
          .vocab_size = vocab_size,
          .packed = rule.packs()};
}

DatasetPtr make_windows(std::vector<TokenPiece> pieces, const WindowRule& rule, const SampleSpec& spec,
                        std::uint64_t seed, const std::string& source) {
  std::int64_t tokens = 0;
  for (const TokenPiece& piece : pieces) tokens += piece.tokens.size();
  DatasetPtr windows;
  if (rule.packs()) {
    windows = make_packed_windows(std::move(pieces), rule, spec, seed);
  } else {
    windows = std::make_shared<Windows>(std::move(pieces), rule.kind, spec, seed);
  }
  if (windows->size() > 0) return windows;
  const std::int64_t needed = rule.kind == WindowRule::Kind::random ? spec.input_shape[0] + 1 : 2;
  throw DataError(
      fmt::format("{}: {} tokens are too few for a window, which takes {} that follow each other{}", source,
                  tokens, needed, needed > 2 ? "; --seq-len makes it shorter" : ""));
}

}  // namespace lockstep::data
