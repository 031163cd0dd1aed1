#include "launcher/console.h"

#include <fcntl.h>
#include <limits.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include <fmt/format.h>

#include "kernels/base/error.h"

namespace lockstep::launcher {
namespace {

/// A line longer than this is passed on as it comes: nothing of ours grows without bound.
constexpr std::size_t longest_line = 1 << 20;

constexpr std::size_t most_queued = 1 << 20;
constexpr const char* erase_line = "\r\x1b[K";

/// Without a way to open it (another user's) it is written to as it is.
UniqueFd reopened_terminal(int stream) {
  if (isatty(stream) == 0) return {};
  return UniqueFd(
      open(fmt::format("/proc/self/fd/{}", stream).c_str(), O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
}

bool is_writable(int fd) {
  pollfd entry = {.fd = fd, .events = POLLOUT, .revents = 0};
  return poll(&entry, 1, 0) > 0;
}

}  // namespace

std::string loss_line(std::string_view name, int error) {
  return fmt::format("launch: {} loses text: {}; the run goes on\n", name, errno_message(error));
}

/// With a carriage return at the end, which may be half of a "\r\n".
std::string_view Lines::last_state(std::string_view line) const {
  if (prefix_.empty() || line.empty()) return line;
  return line.substr(line.substr(0, line.size() - 1).rfind('\r') + 1);
}

void Lines::add(std::string_view text, bool ends_line, std::string& out) {
  if (!in_line_) {
    out.append(prefix_);
    text = last_state(text);
    if (ends_line && !prefix_.empty() && text.ends_with('\r')) text.remove_suffix(1);
  }
  out.append(text);
  if (ends_line) out.push_back('\n');
  in_line_ = !ends_line;
}

ConsoleText Lines::feed(std::string_view bytes) {
  partial_.append(bytes);
  ConsoleText result = {.text = {}, .continues_bar = in_bar_, .leaves_bar = false};
  std::string_view rest = partial_;
  while (!rest.empty()) {
    const auto end = rest.find('\n');
    const std::string_view line = rest.substr(0, end);
    const auto redraw =
        line.ends_with('\r') && end != std::string_view::npos ? std::string_view::npos : line.find('\r');
    if (bars_ && (in_bar_ || redraw != std::string_view::npos)) {
      in_bar_ = end == std::string_view::npos;
      in_line_ = false;
      const std::string_view piece = rest.substr(0, in_bar_ ? end : end + 1);
      result.text.append(piece);
      rest.remove_prefix(piece.size());
    } else if (end != std::string_view::npos) {
      add(line, true, result.text);
      rest.remove_prefix(end + 1);
    } else if (in_line_ || last_state(rest).size() >= longest_line) {
      add(rest, false, result.text);
      rest = {};
    } else {
      rest = last_state(rest);
      break;
    }
  }
  partial_ = std::string(rest);
  result.leaves_bar = in_bar_;
  return result;
}

ConsoleText Lines::end_open_line() {
  in_line_ = false;
  return {.text = "\n"};
}

ConsoleText Lines::finish() {
  ConsoleText result = {.text = {}, .continues_bar = in_bar_, .leaves_bar = false};
  if (in_bar_) result.text.push_back('\n');
  if (in_line_ || !partial_.empty()) add(partial_, true, result.text);
  partial_.clear();
  in_bar_ = false;
  return result;
}

Console::Console()
    : terminals_{isatty(STDOUT_FILENO) != 0, isatty(STDERR_FILENO) != 0},
      own_{reopened_terminal(STDOUT_FILENO), reopened_terminal(STDERR_FILENO)} {}

void Console::show(int stream, const ConsoleText& text) {
  std::string& queue = queues_[index(stream)];
  if (text.text.empty() || closed_[index(stream)]) return;
  if (drops_excess_ && queue.size() > most_queued) return;
  // A bar redraws itself with its next update; a line that comes in between takes its place.
  if (is_terminal(stream)) {
    if (bar_open_ && !text.continues_bar) queue += erase_line;
    bar_open_ = text.leaves_bar;
  }
  queue += text.text;
}

void Console::flush() {
  for (int stream : {1, 2}) {
    std::string& queue = queues_[index(stream)];
    std::size_t written = 0;
    // A pipe that polls as writable takes PIPE_BUF bytes without waiting, and no more is promised; a terminal
    // takes what it has room for, and then makes a blocking writer wait.
    while (written < queue.size() && is_writable(fd(stream))) {
      const ssize_t count = ::write(fd(stream), queue.data() + written,
                                    std::min<std::size_t>(queue.size() - written, PIPE_BUF));
      if (count < 0 && errno == EINTR) continue;
      if (count < 0 && errno == EAGAIN) break;
      if (count < 0) {
        // A full disk loses text, never the run.
        closed_[index(stream)] = errno == EPIPE;
        if (errno != EPIPE) name_loss(stream, errno);
        written = queue.size();
        break;
      }
      written += static_cast<std::size_t>(count);
    }
    queue.erase(0, written);
  }
}

void Console::name_loss(int stream, int error) {
  if (std::exchange(loses_text_[index(stream)], true)) return;
  const int other = stream == STDOUT_FILENO ? STDERR_FILENO : STDOUT_FILENO;
  show(other, {.text = loss_line(stream == STDOUT_FILENO ? "standard output" : "standard error", error)});
}

bool Console::is_full() const {
  if (drops_excess_) return false;
  return queues_[0].size() > most_queued || queues_[1].size() > most_queued;
}

void Console::add_polls(std::vector<pollfd>& polls) const {
  for (int stream : {1, 2}) {
    if (!queues_[index(stream)].empty()) polls.push_back({.fd = fd(stream), .events = POLLOUT, .revents = 0});
  }
}

}  // namespace lockstep::launcher
