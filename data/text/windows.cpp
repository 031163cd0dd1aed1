#include "data/text/windows.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "data/text/packed_windows.h"
#include "data/text/window_places.h"
#include "kernels/base/error.h"
#include "kernels/base/number.h"

namespace lockstep::data {
namespace {

/// The same windows for a device that keeps all their tokens, behind `first` others: samples are rows of
/// kernels::KeptSample.
class KeptWindows final : public Dataset {
 public:
  KeptWindows(std::shared_ptr<const WindowPlaces> places, SampleSpec spec, std::int64_t first)
      : places_(std::move(places)), spec_(std::move(spec)), first_(first) {
    for (const TokenPiece& piece : places_->pieces()) {
      begins_.push_back(tokens_);
      tokens_ += piece.tokens.size();
    }
  }

  std::int64_t size() const override { return places_->size(); }
  const SampleSpec& spec() const override { return spec_; }

  void get(std::int64_t index, std::int64_t epoch, std::span<std::byte> input,
           std::span<std::byte> /*target*/) const override {
    const WindowPlaces::Place place = places_->find(index, epoch);
    const kernels::KeptSample window{.first = first_ + begins_[place.piece] + place.begin,
                                     .targets = place.targets()};
    std::memcpy(input.data(), &window, sizeof window);
  }

  std::int64_t valid_targets(std::int64_t index, std::int64_t epoch) const override {
    return spec_.windows->per_token ? places_->find(index, epoch).targets() : 1;
  }

  std::int64_t length(std::int64_t index) const override {
    return places_->kind() == WindowRule::Kind::documents ? places_->find(index, 0).targets() : 0;
  }

  std::int64_t kept() const override { return tokens_; }

  void read_kept(std::int64_t first, std::span<std::byte> items) const override {
    auto piece = static_cast<std::size_t>(std::ranges::upper_bound(begins_, first) - begins_.begin() - 1);
    for (std::int64_t at = first - begins_[piece]; !items.empty(); ++piece, at = 0) {
      const TokenSpan& tokens = places_->pieces()[piece].tokens;
      const auto wanted = static_cast<std::int64_t>(items.size() / tokens.width());
      const std::span<const std::byte> from = tokens.part(at, std::min(tokens.size(), at + wanted)).bytes();
      std::ranges::copy(from, items.begin());
      items = items.subspan(from.size());
    }
  }

 private:
  const std::shared_ptr<const WindowPlaces> places_;
  const SampleSpec spec_;
  const std::int64_t first_;          ///< of the device's tokens, the number of the set's first
  std::vector<std::int64_t> begins_;  ///< of each piece, among the set's tokens
  std::int64_t tokens_ = 0;
};

/// `spec` is that of the windows as a host makes them. Null where pieces have tokens of several widths.
DatasetPtr make_kept_windows(std::shared_ptr<const WindowPlaces> places, SampleSpec spec,
                             std::int64_t first) {
  const std::size_t width = places->pieces().front().tokens.width();
  for (const TokenPiece& piece : places->pieces()) {
    if (piece.tokens.width() != width) return nullptr;
  }
  spec.windows = kernels::GatherWindows{.length = spec.input_shape[0],
                                        .width = static_cast<std::int64_t>(width),
                                        .per_token = spec.target_shape.rank() > 0};
  spec.input_shape = {2};
  spec.target_shape = {0};
  return std::make_shared<KeptWindows>(std::move(places), std::move(spec), first);
}

class Windows final : public Dataset {
 public:
  Windows(std::vector<TokenPiece> pieces, WindowRule::Kind kind, const SampleSpec& spec, std::uint64_t seed)
      : places_(std::make_shared<WindowPlaces>(std::move(pieces), kind, spec.input_shape[0], seed)),
        spec_(spec),
        length_(spec.input_shape[0]) {}

  std::int64_t size() const override { return places_->size(); }
  const SampleSpec& spec() const override { return spec_; }

  void get(std::int64_t index, std::int64_t epoch, std::span<std::byte> input,
           std::span<std::byte> target) const override {
    const auto [piece, begin, end] = places_->find(index, epoch);
    const TokenSpan window = places_->pieces()[piece].tokens.part(begin, end);
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
    return spec_.target_shape.rank() == 0 ? 1 : places_->find(index, epoch).targets();
  }

  std::int64_t length(std::int64_t index) const override {
    return places_->kind() == WindowRule::Kind::documents ? places_->find(index, 0).targets() : 0;
  }

  DatasetPtr as_kept(std::int64_t first) const override { return make_kept_windows(places_, spec_, first); }

  void each_content(const TakeBytes& take) const override {
    for (const TokenPiece& piece : places_->pieces()) take(piece.tokens.bytes());
  }

 private:
  const std::shared_ptr<const WindowPlaces> places_;
  const SampleSpec spec_;
  const std::int64_t length_;
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
