#include "data/text/packed_windows.h"

#include <algorithm>
#include <bit>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "kernels/base/philox.h"

namespace lockstep::data {
namespace {

constexpr std::uint64_t philox_stream = std::uint64_t{0x706b} << 48;  ///< of packing, beside the epoch

/// Inputs that follow each other, of one document; their targets reach one token further.
struct Part {
  std::int64_t begin = 0;
  std::int32_t piece = 0;
  std::int32_t length = 0;
};

/// Of the numbers below `count` that to which `number` is moved: a Feistel network of four rounds on the even
/// number of bits that holds them, again while it leaves them (J. Black and P. Rogaway, "Ciphers with
/// arbitrary finite domains", CT-RSA 2002). `domain`: other ones are moved otherwise.
std::int64_t shuffled(std::int64_t number, std::int64_t count, std::uint64_t domain, const Philox& random) {
  const auto bits = (static_cast<int>(std::bit_width(static_cast<std::uint64_t>(count - 1))) + 1) / 2;
  const std::uint64_t mask = (std::uint64_t{1} << bits) - 1;
  auto at = static_cast<std::uint64_t>(number);
  do {
    std::uint64_t left = at >> bits;
    std::uint64_t right = at & mask;
    for (std::uint64_t round = 0; round < 4; ++round) {
      const PhiloxCounter words = random.block(domain << 24 | right << 2 | round);
      left = std::exchange(right, left ^ (words[0] & mask));
    }
    at = left << bits | right;
  } while (at >= static_cast<std::uint64_t>(count));
  return static_cast<std::int64_t>(at);
}

class PackedWindows final : public Dataset {
 public:
  PackedWindows(std::vector<TokenPiece> pieces, const WindowRule& rule, const SampleSpec& spec,
                std::uint64_t seed)
      : pieces_(std::move(pieces)),
        spec_(spec),
        length_(spec.target_shape[0]),
        is_shuffled_(rule.kind == WindowRule::Kind::packed),
        seed_(seed) {
    for (std::size_t piece = 0; piece < pieces_.size(); ++piece) {
      for (const auto& [begin, end] : pieces_[piece].documents)
        add(static_cast<std::int32_t>(piece), begin, end - 1);
      documents_ += std::ssize(pieces_[piece].documents);
      pieces_[piece].documents = {};
    }
    if (is_shuffled_) pack();
  }

  std::int64_t size() const override { return std::ssize(ends_); }
  const SampleSpec& spec() const override { return spec_; }

  void get(std::int64_t index, std::int64_t epoch, std::span<std::byte> input,
           std::span<std::byte> target) const override {
    const auto length = static_cast<std::size_t>(length_);
    const std::span inputs(reinterpret_cast<std::int64_t*>(input.data()), 2 * length);
    const std::span positions = inputs.subspan(length);
    const std::span targets(reinterpret_cast<std::int64_t*>(target.data()), length);
    std::ranges::fill(inputs, padding_token);
    std::ranges::fill(targets, no_class);
    std::size_t filled = 0;
    for (std::int64_t place = begin_of(index); place < end_of(index); ++place) {
      const Part& part = part_at(place, epoch);
      const auto count = static_cast<std::size_t>(part.length);
      const TokenSpan tokens =
          pieces_[static_cast<std::size_t>(part.piece)].tokens.part(part.begin, part.begin + part.length + 1);
      tokens.copy_to(inputs.subspan(filled, count));
      tokens.part(1, part.length + 1).copy_to(targets.subspan(filled, count));
      for (std::size_t at = 0; at < count; ++at) positions[filled + at] = static_cast<std::int64_t>(at);
      filled += count;
    }
  }

  std::int64_t valid_targets(std::int64_t index, std::int64_t) const override {
    std::int64_t targets = 0;
    for (std::int64_t place = begin_of(index); place < end_of(index); ++place) targets += at(place).length;
    return targets;
  }

  std::string note() const override {
    const auto positions = static_cast<double>(size() * length_);
    return fmt::format("packed: {} documents in {} windows of {} tokens, of which {:.2f} % are padding",
                       documents_, size(), length_, 100 * (1 - static_cast<double>(tokens_) / positions));
  }

  void each_content(const TakeBytes& take) const override {
    for (const TokenPiece& piece : pieces_) take(piece.tokens.bytes());
  }

 private:
  /// Inputs [begin, end) of a document. In order they go on where those before them end.
  void add(std::int32_t piece, std::int64_t begin, std::int64_t end) {
    while (begin < end) {
      const std::int64_t room = is_shuffled_ ? length_ : length_ - tokens_ % length_;
      const std::int64_t count = std::min(end - begin, room);
      parts_.push_back({begin, piece, static_cast<std::int32_t>(count)});
      begin += count;
      tokens_ += count;
      if (!is_shuffled_) place_last(room == length_);
    }
  }

  void place_last(bool in_new_window) {
    places_.push_back(std::ssize(places_));
    if (in_new_window) ends_.push_back(0);
    ends_.back() = std::ssize(places_);
  }

  /// Parts into windows: first the window of each, then the places of each window behind each other.
  void pack() {
    std::ranges::stable_sort(parts_, std::ranges::greater(), &Part::length);
    std::map<std::int64_t, std::vector<std::int64_t>> windows_by_room;
    std::vector<std::int64_t> window_of;
    for (const Part& part : parts_) {
      auto found = windows_by_room.lower_bound(part.length);
      std::int64_t window = std::ssize(ends_);
      std::int64_t room = length_;
      if (found == windows_by_room.end()) {
        ends_.push_back(0);
      } else {
        room = found->first;
        window = found->second.back();
        found->second.pop_back();
        if (found->second.empty()) windows_by_room.erase(found);
      }
      if (room > part.length) windows_by_room[room - part.length].push_back(window);
      window_of.push_back(window);
      ++ends_[static_cast<std::size_t>(window)];
    }
    std::int64_t begin = 0;
    for (std::int64_t& end : ends_) begin += std::exchange(end, begin);
    places_.resize(parts_.size());
    for (std::size_t number = 0; number < parts_.size(); ++number) {
      std::int64_t& next = ends_[static_cast<std::size_t>(window_of[number])];
      places_[static_cast<std::size_t>(next++)] = static_cast<std::int64_t>(number);
    }
  }

  std::int64_t begin_of(std::int64_t window) const { return window == 0 ? 0 : end_of(window - 1); }
  std::int64_t end_of(std::int64_t window) const { return ends_[static_cast<std::size_t>(window)]; }
  /// That which is there where none is moved; whichever is has the same length.
  const Part& at(std::int64_t place) const {
    return parts_[static_cast<std::size_t>(places_[static_cast<std::size_t>(place)])];
  }

  const Part& part_at(std::int64_t place, std::int64_t epoch) const {
    if (!is_shuffled_) return at(place);
    const auto alike =
        std::ranges::equal_range(parts_, at(place).length, std::ranges::greater(), &Part::length);
    const std::int64_t first = alike.begin() - parts_.begin();
    const Philox random(seed_, philox_stream | static_cast<std::uint64_t>(epoch));
    return alike[shuffled(places_[static_cast<std::size_t>(place)] - first, std::ssize(alike),
                          static_cast<std::uint64_t>(first), random)];
  }

  std::vector<TokenPiece> pieces_;
  SampleSpec spec_;
  std::int64_t length_;
  bool is_shuffled_;
  std::uint64_t seed_;
  std::vector<Part> parts_;           ///< where they are shuffled, by falling length
  std::vector<std::int64_t> places_;  ///< numbers of parts, window behind window
  std::vector<std::int64_t> ends_;    ///< of windows, in places
  std::int64_t documents_ = 0;
  std::int64_t tokens_ = 0;
};

}  // namespace

DatasetPtr make_packed_windows(std::vector<TokenPiece> pieces, const WindowRule& rule, const SampleSpec& spec,
                               std::uint64_t seed) {
  return std::make_shared<PackedWindows>(std::move(pieces), rule, spec, seed);
}

}  // namespace lockstep::data
