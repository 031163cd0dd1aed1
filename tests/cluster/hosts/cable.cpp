// cable PID_A PID_B EFFECT...: a second cable between two hosts of `with_hosts` (by the processes that keep
// them), made of TUN devices called cable0, over which packets pass through this program. EFFECT is
// loss=PERCENT, duplicate=PERCENT, reorder=PERCENT (held back while others pass), delay=MS, rate=BITS_PER_S,
// cut=a (what A sends is lost) and cut=FIRST-LAST (TCP ports); `later` before others: they begin with
// SIGUSR1. Says "ready".
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <queue>
#include <random>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

std::sig_atomic_t volatile begun = 1;

struct Effects {
  int loss = 0;
  int duplicate = 0;
  int reorder = 0;
  milliseconds delay{0};
  double bits_per_s = 0;
  bool cut_from_a = false;
  int first_port = 0;
  int last_port = -1;
};

int number(std::string_view text) {
  int value = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size())
    throw std::invalid_argument(std::string(text));
  return value;
}

void add(Effects& effects, std::string_view word) {
  const std::string_view name = word.substr(0, word.find('='));
  const std::string_view value = word.substr(std::min(name.size() + 1, word.size()));
  if (word == "later") {
    begun = 0;
  } else if (name == "loss") {
    effects.loss = number(value);
  } else if (name == "duplicate") {
    effects.duplicate = number(value);
  } else if (name == "reorder") {
    effects.reorder = number(value);
  } else if (name == "delay") {
    effects.delay = milliseconds(number(value));
  } else if (name == "rate") {
    effects.bits_per_s = number(value);
  } else if (word == "cut=a") {
    effects.cut_from_a = true;
  } else if (name == "cut") {
    effects.first_port = number(value.substr(0, value.find('-')));
    effects.last_port = number(value.substr(value.find('-') + 1));
  } else {
    throw std::invalid_argument(std::string(word));
  }
}

void require(bool done, const char* what) {
  if (!done) throw std::runtime_error(std::string(what) + ": " + std::strerror(errno));
}

/// The device's other end, which carries IP packets. This process is in the host's network from here on.
int open_end(const std::string& pid) {
  const int network = ::open(("/proc/" + pid + "/ns/net").c_str(), O_RDONLY | O_CLOEXEC);
  require(network >= 0 && ::setns(network, CLONE_NEWNET) == 0, "the host's network");
  const int end = ::open("/dev/net/tun", O_RDWR | O_CLOEXEC | O_NONBLOCK);
  ifreq request{};
  request.ifr_flags = IFF_TUN | IFF_NO_PI;
  std::strcpy(request.ifr_name, "cable0");
  require(end >= 0 && ::ioctl(end, TUNSETIFF, &request) == 0, "/dev/net/tun");
  return end;
}

/// Of TCP over IPv4.
bool has_port(const std::string& packet, const Effects& effects) {
  const auto byte = [&](std::size_t at) { return static_cast<int>(static_cast<unsigned char>(packet[at])); };
  if (packet.size() < 40 || byte(0) >> 4 != 4 || byte(9) != 6) return false;
  const auto tcp = static_cast<std::size_t>(4 * (byte(0) & 15));
  if (packet.size() < tcp + 4) return false;
  const auto is_cut = [&](std::size_t at) {
    const int port = byte(at) << 8 | byte(at + 1);
    return port >= effects.first_port && port <= effects.last_port;
  };
  return is_cut(tcp) || is_cut(tcp + 2);
}

struct Packet {
  Clock::time_point due;
  int to;
  std::string bytes;
  bool operator<(const Packet& other) const { return due > other.due; }  // the next on top
};

class Cable {
 public:
  Cable(const Effects& effects, std::array<int, 2> ends) : effects_(effects), ends_(ends) {}

  [[noreturn]] void run() {
    while (true) {
      wait();
      for (int from : {0, 1}) take_from(from);
      for (; !queue_.empty() && queue_.top().due <= Clock::now(); queue_.pop()) {
        const Packet& packet = queue_.top();
        // A full device loses packets, as any cable does.
        [[maybe_unused]] const ssize_t sent =
            ::write(ends_[static_cast<std::size_t>(packet.to)], packet.bytes.data(), packet.bytes.size());
      }
    }
  }

 private:
  bool happens(int percent) { return static_cast<int>(random_() % 100) < percent; }

  void wait() {
    std::array<pollfd, 2> events{{{ends_[0], POLLIN, 0}, {ends_[1], POLLIN, 0}}};
    int left = -1;
    if (!queue_.empty()) {
      const auto until = std::chrono::ceil<milliseconds>(queue_.top().due - Clock::now());
      left = std::max(0, static_cast<int>(until.count()));
    }
    ::poll(events.data(), events.size(), left);
  }

  void take_from(int from) {
    std::array<char, 65536> buffer;
    while (true) {
      const ssize_t got = ::read(ends_[static_cast<std::size_t>(from)], buffer.data(), buffer.size());
      if (got <= 0) return;
      pass(from, std::string(buffer.data(), static_cast<std::size_t>(got)));
    }
  }

  void pass(int from, const std::string& bytes) {
    Clock::time_point due = Clock::now();
    int copies = 1;
    if (begun != 0) {
      if (happens(effects_.loss) || (effects_.cut_from_a && from == 0) || has_port(bytes, effects_)) return;
      if (effects_.bits_per_s > 0) {
        auto& free_at = free_at_[static_cast<std::size_t>(from)];
        free_at =
            std::max(free_at, due) + std::chrono::nanoseconds(static_cast<std::int64_t>(
                                         8e9 * static_cast<double>(bytes.size()) / effects_.bits_per_s));
        if (free_at - due > milliseconds(500)) return;  // its queue is full
        due = free_at;
      }
      due += effects_.delay;
      if (happens(effects_.reorder)) due += milliseconds(20);
      if (happens(effects_.duplicate)) copies = 2;
    }
    for (; copies > 0; --copies) queue_.push({due, 1 - from, bytes});
  }

  Effects effects_;
  std::array<int, 2> ends_;
  std::mt19937 random_{1};
  std::priority_queue<Packet> queue_;
  std::array<Clock::time_point, 2> free_at_{};
};

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc < 3) throw std::invalid_argument("PID_A PID_B EFFECT...");
    Effects effects;
    for (const std::string_view word : std::vector<std::string_view>(argv + 3, argv + argc))
      add(effects, word);
    std::signal(SIGUSR1, [](int) { begun = 1; });
    const std::array<int, 2> ends{open_end(argv[1]), open_end(argv[2])};
    std::puts("ready");
    std::fflush(stdout);
    Cable(effects, ends).run();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "cable: %s\n", error.what());
    return 2;
  }
}
