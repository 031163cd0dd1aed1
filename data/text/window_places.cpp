#include "data/text/window_places.h"

#include <algorithm>
#include <utility>

#include "kernels/base/philox.h"

namespace lockstep::data {
namespace {

constexpr std::uint64_t philox_stream = std::uint64_t{0x7478} << 48;  ///< of text, beside the epoch

}  // namespace

WindowPlaces::WindowPlaces(std::vector<TokenPiece> pieces, WindowRule::Kind kind, std::int64_t length,
                           std::uint64_t seed)
    : pieces_(std::move(pieces)),
      kind_(kind),
      is_random_(kind == WindowRule::Kind::random),
      length_(length),
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

std::int64_t WindowPlaces::size() const {
  return is_random_ && places_ > 0 ? std::max<std::int64_t>(tokens_ / length_, 1) : places_;
}

void WindowPlaces::add(Stretch stretch) {
  const std::int64_t targets = stretch.end - stretch.begin - 1;
  const std::int64_t places = is_random_ ? targets - length_ + 1 : (targets + length_ - 1) / length_;
  if (places <= 0) return;
  stretch.first = places_;
  stretches_.push_back(stretch);
  places_ += places;
}

std::int64_t WindowPlaces::random_place(std::int64_t index, std::int64_t epoch) const {
  const Philox philox(seed_, philox_stream | static_cast<std::uint64_t>(epoch));
  const PhiloxCounter words = philox.block(static_cast<std::uint64_t>(index));
  const std::uint64_t random = std::uint64_t{words[0]} << 32 | words[1];
  return static_cast<std::int64_t>(
      static_cast<unsigned __int128>(random) * static_cast<std::uint64_t>(places_) >> 64);
}

WindowPlaces::Place WindowPlaces::find(std::int64_t index, std::int64_t epoch) const {
  const std::int64_t place = is_random_ ? random_place(index, epoch) : index;
  const Stretch& stretch = *std::prev(std::ranges::upper_bound(stretches_, place, {}, &Stretch::first));
  const std::int64_t begin = stretch.begin + (place - stretch.first) * (is_random_ ? 1 : length_);
  return {stretch.piece, begin, std::min(begin + length_ + 1, stretch.end)};
}

}  // namespace lockstep::data
