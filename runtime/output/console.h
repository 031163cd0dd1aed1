#pragma once

#include <string>

#include "kernels/base/deadline.h"
#include "runtime/output/report.h"

namespace lockstep::runtime {

/// How a run is shown: a bar that redraws itself on a terminal, else a line every few seconds. Rank 0's
/// alone.
class Console {
 public:
  enum class Style { bar, plain, none };

  /// `columns`: width of the terminal for a bar.
  Console(Style style, int columns) : style_(style), columns_(columns) {}

  /// Cheap when nothing is due.
  bool due() const { return style_ != Style::none && Clock::now() >= next_; }
  void show(const Progress& progress);
  /// A line that stays.
  void say(const std::string& line);

 private:
  Style style_;
  int columns_;
  Clock::time_point next_{};
  bool bar_drawn_ = false;
};

/// A line of `--progress plain`.
std::string progress_line(const Progress& progress);
/// What a bar shows in `width` columns: whole fields, the least important left out where there is no room.
std::string progress_bar(const Progress& progress, std::size_t width);

/// `--progress` and `--quiet` against where standard output goes; `launch_columns` is what launch said of its
/// terminal, 0 when it said nothing.
Console make_console(const std::string& progress, bool quiet, int launch_columns);

}  // namespace lockstep::runtime
