#include "runtime/output/console.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "kernels/base/error.h"
#include "kernels/base/log.h"
#include "runtime/output/standard_output.h"

namespace lockstep::runtime {
namespace {

const char* plural(std::int64_t count) {
  return count == 1 ? "" : "s";
}

constexpr std::chrono::milliseconds bar_interval{100};
constexpr std::chrono::seconds line_interval{2};
constexpr std::chrono::seconds evaluation_interval{10};
constexpr int bar_cells = 16;

std::string duration(double seconds) {
  const auto s = static_cast<std::int64_t>(seconds + 0.5);
  if (s >= 3600) return fmt::format("{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60);
  return fmt::format("{}:{:02}", s / 60, s % 60);
}

/// A part of a line and its separator on the left. A narrow line omits the least important fields.
struct Field {
  std::string gap;
  std::string text;
  int importance;
};

std::vector<Field> fields_of(const Progress& p) {
  const auto of = [](std::int64_t count) { return count > 0 ? fmt::format("/{}", count) : std::string(); };
  const double compute_ms = std::max(0.0, p.step_ms - p.exposed_comm_ms - p.data_wait_ms);
  std::vector<Field> fields{{" ", fmt::format("epoch {}{}", p.epoch + 1, of(p.epochs)), 6},
                            {"  ", fmt::format("step {}{}", p.step, of(p.total_steps)), 7},
                            {"  ", fmt::format("loss {:.4f}", p.loss), 5},
                            {"  ", fmt::format("{:.0f} samples/s", p.samples_per_s), 3},
                            {"  ", fmt::format("{:.2f} ms", p.step_ms), 2},
                            {" ",
                             fmt::format("(compute {:.2f} exchange {:.2f} data {:.2f})", compute_ms,
                                         p.exposed_comm_ms, p.data_wait_ms),
                             0}};
  if (p.learning_rate)
    fields.insert(fields.begin() + 3, {"  ", fmt::format("lr {:.4g}", *p.learning_rate), 1});
  if (p.total_steps > 0) fields.push_back({"  ", duration(p.seconds_left) + " left", 4});
  return fields;
}

Field bar(const Progress& p) {
  const auto filled = static_cast<std::size_t>(bar_cells * std::min(p.step, p.total_steps) / p.total_steps);
  return {"", "[" + std::string(filled, '=') + std::string(bar_cells - filled, ' ') + "]", 1};
}

std::string joined(const std::vector<Field>& fields) {
  std::string line;
  for (const Field& field : fields) line += (line.empty() ? "" : field.gap) + field.text;
  return line;
}

}  // namespace

std::string opening_line(const Opening& opening) {
  const std::string times =
      opening.micro_batches > 1 ? fmt::format("{} x ", opening.micro_batches) : std::string();
  return fmt::format(
      "{}: {} parameters, {} rank{} x {} thread{}, batch {}{} per rank, {:.1f} MiB planned per rank",
      opening.model, opening.parameters, opening.world_size, plural(opening.world_size), opening.threads,
      plural(opening.threads), times, opening.batch_size,
      static_cast<double>(opening.planned_bytes) / (1 << 20));
}

std::string resumption_line(std::int64_t step, std::int64_t epoch, const std::filesystem::path& checkpoint) {
  return fmt::format("goes on after step {} (epoch {}) from {}", step, epoch + 1, checkpoint.string());
}

std::string other_ranks_line(int before, int now, std::int64_t left) {
  const std::string dealt =
      left > 0 ? fmt::format(" the {} samples that this epoch has left are dealt anew, each once;", left)
               : std::string();
  return fmt::format("on {} rank{}, before on {}:{} the same bits come only on {} again", now, plural(now),
                     before, dealt, before);
}

std::string changed_rate_line(const RateInSchedule& before, const RateInSchedule& now) {
  return fmt::format(
      "the learning rate goes on at {:.4g}, and not at {:.4g}: its schedule has {} steps on these ranks, and "
      "had {}; with --global-batch it has the same on any",
      now.rate, before.rate, now.steps, before.steps);
}

std::string fresh_start_line(const std::filesystem::path& run) {
  return fmt::format("no checkpoint in {}: begins at the beginning", run.string());
}

std::string evaluation_line(std::int64_t epoch, const Evaluation& evaluation) {
  std::string accuracy =
      evaluation.classes ? fmt::format(", accuracy {:.4f}", evaluation.accuracy) : std::string();
  if (evaluation.top5) accuracy += fmt::format(", top5 {:.4f}", *evaluation.top5);
  return fmt::format("epoch {}: test loss {:.4f}{} ({} samples)", epoch + 1, evaluation.loss, accuracy,
                     evaluation.samples);
}

std::string nothing_left_line(const Summary& summary, const std::filesystem::path& run) {
  return fmt::format("nothing is left to do after {} steps, {}", summary.steps, run.string());
}

std::string ending_line(const Summary& summary, const std::filesystem::path& run) {
  return fmt::format("{} after {} step{}, {:.0f} samples/s, {}", summary.stopped ? "stopped" : "done",
                     summary.steps, plural(summary.steps), summary.samples_per_s, run.string());
}

std::string saved_line(const std::filesystem::path& checkpoint, const std::filesystem::path& run) {
  return fmt::format("saved {}; go on with --resume auto --run-dir {}", checkpoint.string(), run.string());
}

std::string progress_line(const Progress& progress) {
  return joined(fields_of(progress));
}

std::string progress_bar(const Progress& progress, std::size_t width) {
  std::vector<Field> fields = fields_of(progress);
  if (progress.total_steps > 0) fields.insert(fields.begin(), bar(progress));
  while (joined(fields).size() > width && fields.size() > 1) {
    fields.erase(std::ranges::min_element(fields, {}, &Field::importance));
  }
  return joined(fields).substr(0, width);
}

EvaluationProgress::EvaluationProgress(std::int64_t samples, Tell tell, Clock::time_point begin)
    : samples_(samples), tell_(std::move(tell)), begin_(begin), next_(begin + evaluation_interval) {}

void EvaluationProgress::advance(std::int64_t done, Clock::time_point now) {
  if (!tell_ || now < next_ || done >= samples_) return;
  const double per_second = static_cast<double>(done) / Seconds(now - begin_).count();
  const double seconds_left = static_cast<double>(samples_ - done) / per_second;
  tell_(fmt::format("evaluating  sample {}/{}  {:.{}f} samples/s  {} left", done, samples_, per_second,
                    per_second < 10 ? 1 : 0, duration(seconds_left)));
  next_ = now + evaluation_interval;
}

void Console::show(const Progress& progress) {
  if (style_ == Style::none) return;
  if (style_ == Style::plain) {
    write(progress_line(progress) + "\n");
    next_ = Clock::now() + line_interval;
  } else {
    const auto width = static_cast<std::size_t>(std::max(columns_ - 1, 20));
    write(fmt::format("\r{:<{}}", progress_bar(progress, width), width));
    bar_drawn_ = true;
    next_ = Clock::now() + bar_interval;
  }
}

void Console::print(const std::string& line) {
  if (style_ == Style::none) return;
  write((bar_drawn_ ? "\n" : "") + line + "\n");
  bar_drawn_ = false;
}

void Console::write(const std::string& text) {
  const int error = try_print(text);
  if (error == EPIPE) style_ = Style::none;
  if (error != 0 && error != EPIPE && !std::exchange(loses_text_, true))
    log::warn("standard output loses text: {}; the run goes on", errno_message(error));
}

Console make_console(const std::string& progress, bool quiet, int launch_columns) {
  if (quiet || progress == "none") return {Console::Style::none, 0};
  int columns = launch_columns;
  winsize window{};
  if (columns == 0 && ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &window) == 0) columns = window.ws_col;
  const bool bar = progress == "bar" || (progress == "auto" && columns > 0);
  return {bar ? Console::Style::bar : Console::Style::plain, columns > 0 ? columns : 100};
}

}  // namespace lockstep::runtime
