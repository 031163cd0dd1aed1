#include "data/text/kept_windows.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace lockstep::data {
namespace {

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

}  // namespace

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

}  // namespace lockstep::data
