#include "launcher/console.h"

#include <limits.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace lockstep::launcher {
namespace {

constexpr std::size_t most_queued = 1 << 20;
constexpr const char* erase_line = "\r\x1b[K";

bool is_writable(int fd) {
  pollfd entry = {.fd = fd, .events = POLLOUT, .revents = 0};
  return poll(&entry, 1, 0) > 0;
}

}  // namespace

void Console::show(int stream, const ConsoleText& text) {
  std::string& queue = queues_[index(stream)];
  if (text.text.empty() || closed_[index(stream)]) return;
  // A bar redraws itself with its next update; a line that comes in between takes its place.
  if (terminal_ && bar_open_ && !text.continues_bar) queue += erase_line;
  queue += text.text;
  bar_open_ = text.leaves_bar;
}

void Console::flush() {
  for (int stream : {1, 2}) {
    std::string& queue = queues_[index(stream)];
    std::size_t written = 0;
    // A pipe that polls as writable takes PIPE_BUF bytes without waiting, and no more is promised.
    while (written < queue.size() && is_writable(stream)) {
      const ssize_t count =
          ::write(stream, queue.data() + written, std::min<std::size_t>(queue.size() - written, PIPE_BUF));
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) {
        closed_[index(stream)] = true;
        written = queue.size();
        break;
      }
      written += static_cast<std::size_t>(count);
    }
    queue.erase(0, written);
  }
}

bool Console::is_full() const {
  return queues_[0].size() > most_queued || queues_[1].size() > most_queued;
}

void Console::add_polls(std::vector<pollfd>& polls) const {
  for (int stream : {1, 2}) {
    if (!queues_[index(stream)].empty()) polls.push_back({.fd = stream, .events = POLLOUT, .revents = 0});
  }
}

}  // namespace lockstep::launcher
