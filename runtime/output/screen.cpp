#include "runtime/output/screen.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include <fmt/format.h>

namespace lockstep::runtime {
namespace {

constexpr std::chrono::milliseconds bar_interval{100};
constexpr std::chrono::seconds line_interval{2};
constexpr int bar_cells = 16;

std::string duration(double seconds) {
  const auto s = static_cast<std::int64_t>(seconds + 0.5);
  if (s >= 3600) return fmt::format("{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60);
  return fmt::format("{}:{:02}", s / 60, s % 60);
}

std::string place(const Progress& p) {
  const std::string epoch =
      p.epochs > 0 ? fmt::format("epoch {}/{}", p.epoch + 1, p.epochs) : fmt::format("epoch {}", p.epoch + 1);
  return p.total_steps > 0 ? fmt::format("{}  step {}/{}", epoch, p.step, p.total_steps)
                           : fmt::format("{}  step {}", epoch, p.step);
}

std::string figures(const Progress& p) {
  const double compute_ms = std::max(0.0, p.step_ms - p.exposed_comm_ms - p.data_wait_ms);
  std::string text =
      fmt::format("loss {:.4f}  {:.0f} samples/s  {:.2f} ms (compute {:.2f} exchange {:.2f} data {:.2f})",
                  p.loss, p.samples_per_s, p.step_ms, compute_ms, p.exposed_comm_ms, p.data_wait_ms);
  if (p.total_steps > 0) text += fmt::format("  {} left", duration(p.seconds_left));
  return text;
}

std::string bar(const Progress& p) {
  if (p.total_steps <= 0) return {};
  const auto filled = static_cast<std::size_t>(bar_cells * std::min(p.step, p.total_steps) / p.total_steps);
  return "[" + std::string(filled, '=') + std::string(bar_cells - filled, ' ') + "] ";
}

}  // namespace

void Screen::show(const Progress& progress) {
  if (style_ == Style::none) return;
  if (style_ == Style::plain) {
    fmt::print("{}  {}\n", place(progress), figures(progress));
    next_ = Clock::now() + line_interval;
  } else {
    std::string line = bar(progress) + place(progress) + "  " + figures(progress);
    const auto width = static_cast<std::size_t>(std::max(columns_ - 1, 20));
    if (line.size() > width) line = place(progress) + "  " + figures(progress);
    line.resize(std::min(line.size(), width));
    fmt::print("\r{:<{}}", line, width);
    bar_drawn_ = true;
    next_ = Clock::now() + bar_interval;
  }
  std::fflush(stdout);
}

void Screen::say(const std::string& line) {
  if (style_ == Style::none) return;
  if (bar_drawn_) fmt::print("\n");
  bar_drawn_ = false;
  fmt::print("{}\n", line);
  std::fflush(stdout);
}

Screen make_screen(const std::string& progress, bool quiet, int launch_columns) {
  if (quiet || progress == "none") return {Screen::Style::none, 0};
  int columns = launch_columns;
  winsize window{};
  if (columns == 0 && ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &window) == 0) columns = window.ws_col;
  const bool bar = progress == "bar" || (progress == "auto" && columns > 0);
  return {bar ? Screen::Style::bar : Screen::Style::plain, columns > 0 ? columns : 100};
}

}  // namespace lockstep::runtime
