#pragma once

#include <string>
#include <string_view>

namespace lockstep::launcher {

/// Text that may go to the console now.
struct ConsoleText {
  std::string text;
  bool continues_bar = false;  ///< begins inside a line that a progress bar redraws
  bool leaves_bar = false;     ///< ends inside one
};

/// Cuts one worker's stream into whole, prefixed lines. Text after a carriage return is a progress bar: where
/// bars are allowed (one rank, on a terminal) it passes at once and unprefixed, else only its last state is
/// kept.
class Lines {
 public:
  Lines(std::string prefix, bool bars) : prefix_(std::move(prefix)), bars_(bars) {}

  ConsoleText feed(std::string_view bytes);
  /// The stream has ended: what was left without a newline gets one.
  ConsoleText finish();

 private:
  void add_line(std::string_view line, std::string& out) const;

  std::string prefix_;
  bool bars_;
  bool in_bar_ = false;
  std::string partial_;
};

}  // namespace lockstep::launcher
