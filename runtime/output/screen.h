#pragma once

#include <string>

#include "kernels/base/deadline.h"
#include "runtime/output/report.h"

namespace lockstep::runtime {

/// How a run is shown: a bar that redraws itself on a terminal, else a line every few seconds. Rank 0's
/// alone.
class Screen {
 public:
  enum class Style { bar, plain, none };

  /// `columns`: width of the terminal for a bar.
  Screen(Style style, int columns) : style_(style), columns_(columns) {}

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

/// `--progress` and `--quiet` against where standard output goes; `launch_columns` is what launch said of its
/// terminal, 0 when it said nothing.
Screen make_screen(const std::string& progress, bool quiet, int launch_columns);

}  // namespace lockstep::runtime
