#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <fmt/format.h>

namespace lockstep::data {

/// Which lines of a split's files, one file behind another, its samples are: a line without a sample is left
/// out, and counts.
class SampleLines {
 public:
  void add(std::int64_t line) { lines_.push_back(line); }
  void leave_out(std::int64_t lines = 1) { left_out_ += lines; }

  /// From 0, of a sample; where samples are no lines, their own number.
  std::int64_t line_of(std::int64_t index) const {
    return lines_.empty() ? index : lines_[static_cast<std::size_t>(index)];
  }

  /// "2 of 5 lines hold nothing and are left out"; `what` they are, `why`. Empty where none is.
  std::string warning(const char* what, const char* why) const {
    if (left_out_ == 0) return {};
    return fmt::format("{} of {} {} {} and are left out", left_out_, left_out_ + std::ssize(lines_), what,
                       why);
  }

 private:
  std::vector<std::int64_t> lines_;
  std::int64_t left_out_ = 0;
};

/// Two warnings in a line; either may be empty.
inline std::string joined(const std::string& a, const std::string& b) {
  return a + (a.empty() || b.empty() ? "" : "; ") + b;
}

}  // namespace lockstep::data
