#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "data/text/windows.h"

namespace lockstep::data {

/// Which tokens each window has, for every kind that does not pack.
class WindowPlaces {
 public:
  /// The inputs of a window and the token that follows them, in a piece.
  struct Place {
    std::size_t piece = 0;
    std::int64_t begin = 0;
    std::int64_t end = 0;
    std::int64_t targets() const { return end - begin - 1; }
  };

  /// Of `length` tokens.
  WindowPlaces(std::vector<TokenPiece> pieces, WindowRule::Kind kind, std::int64_t length,
               std::uint64_t seed);

  const std::vector<TokenPiece>& pieces() const { return pieces_; }
  WindowRule::Kind kind() const { return kind_; }
  /// Windows of an epoch.
  std::int64_t size() const;
  Place find(std::int64_t index, std::int64_t epoch) const;

 private:
  /// Where windows may lie.
  struct Stretch {
    std::size_t piece = 0;
    std::int64_t begin = 0;
    std::int64_t end = 0;
    std::int64_t first =
        0;  ///< of all windows, or of all places where one may begin, the number of its first
  };
  void add(Stretch stretch);
  std::int64_t random_place(std::int64_t index, std::int64_t epoch) const;

  std::vector<TokenPiece> pieces_;
  WindowRule::Kind kind_;
  bool is_random_;
  std::int64_t length_;
  std::uint64_t seed_;
  std::vector<Stretch> stretches_;
  std::int64_t tokens_ = 0;
  std::int64_t places_ = 0;
};

}  // namespace lockstep::data
