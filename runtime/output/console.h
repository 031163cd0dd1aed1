#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "kernels/base/deadline.h"
#include "runtime/output/report.h"

namespace lockstep::runtime {

/// Prints a run's progress on rank 0: a bar that redraws itself on a terminal, else a line every few seconds.
class Console {
 public:
  enum class Style { bar, plain, none };

  /// `columns`: width of the terminal for a bar.
  Console(Style style, int columns) : style_(style), columns_(columns) {}

  /// Cheap when nothing is due.
  bool due() const { return style_ != Style::none && Clock::now() >= next_; }
  void show(const Progress& progress);
  /// Prints a line that stays.
  void print(const std::string& line);

 private:
  /// A full disk loses text, which is said once, never the run.
  void write(const std::string& text);

  Style style_;
  int columns_;
  Clock::time_point next_{};
  bool bar_drawn_ = false;
  bool loses_text_ = false;
};

/// Tells how far an evaluation is, in a line about every ten seconds: of a short one nothing.
class EvaluationProgress {
 public:
  using Tell = std::function<void(const std::string& line)>;

  /// `samples` of all ranks; `tell` may be empty.
  EvaluationProgress(std::int64_t samples, Tell tell, Clock::time_point begin = Clock::now());
  /// So many of them are done.
  void advance(std::int64_t done, Clock::time_point now = Clock::now());

 private:
  const std::int64_t samples_;
  const Tell tell_;
  const Clock::time_point begin_;
  Clock::time_point next_;
};

/// A line of `--progress plain`.
std::string progress_line(const Progress& progress);
/// The bar in `width` columns: whole fields, without the least important ones where there is no room.
std::string progress_bar(const Progress& progress, std::size_t width);

/// From `--progress`, `--quiet` and the kind of standard output; `launch_columns`: width of launch's
/// terminal, 0 if unknown.
Console make_console(const std::string& progress, bool quiet, int launch_columns);

// The lines that a run prints beside its progress.

struct Opening {
  std::string model;
  std::int64_t parameters = 0;
  int world_size = 1;
  int threads = 1;
  std::int64_t batch_size = 0;  ///< per rank and micro-batch
  std::int64_t micro_batches = 1;
  std::size_t planned_bytes = 0;  ///< per rank
};

std::string opening_line(const Opening& opening);
/// `epoch`: counted from 0, here and below.
std::string resumption_line(std::int64_t step, std::int64_t epoch, const std::filesystem::path& checkpoint);
/// `left`: samples of the epoch that are dealt anew.
std::string other_ranks_line(int before, int now, std::int64_t left);

/// The learning rate at which a run goes on, in a schedule of so many steps.
struct RateInSchedule {
  std::int64_t steps = 0;
  double rate = 0;
};
std::string changed_rate_line(const RateInSchedule& before, const RateInSchedule& now);

/// A run with --resume auto that found no checkpoint.
std::string fresh_start_line(const std::filesystem::path& run);
std::string evaluation_line(std::int64_t epoch, const Evaluation& evaluation);
std::string nothing_left_line(const Summary& summary, const std::filesystem::path& run);
std::string ending_line(const Summary& summary, const std::filesystem::path& run);
/// Of a stopped run: the command that resumes it.
std::string saved_line(const std::filesystem::path& checkpoint, const std::filesystem::path& run);

}  // namespace lockstep::runtime
