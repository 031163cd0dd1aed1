#include "tests/fault/nemesis/round.h"

#include <algorithm>
#include <random>

#include <fmt/format.h>

namespace lockstep::nemesis {
namespace {

/// The same numbers with every standard library.
class Draw {
 public:
  explicit Draw(std::uint64_t seed) : engine_(seed) {}
  int below(int end) { return static_cast<int>(engine_() % static_cast<std::uint64_t>(end)); }
  int from(int least, int most) { return least + below(most - least + 1); }
  bool percent(int share) { return below(100) < share; }
  template <class T, std::size_t count>
  const T& one_of(const T (&choices)[count]) {
    return choices[below(static_cast<int>(count))];
  }

 private:
  std::mt19937_64 engine_;
};

/// A kind of call, and how often a run makes it at least.
struct Moment {
  const char* call;
  const char* path;
  int most;
};

/// Of the rank that keeps a disk.
constexpr Moment of_keepers[] = {
    {"mkdir", "/run", 6},          {"create", "/run", 20},        {"write", "model.safetensors", 24},
    {"write", "optimizer", 12},    {"write", "state.json", 4},    {"write", "manifest", 4},
    {"write", "log.jsonl", steps}, {"write", "config.ini", 1},    {"write", "summary", 1},
    {"fsync", "checkpoints", 28},  {"rename", "checkpoints", 14}, {"rename", "latest", 4},
    {"rename", "/run/", 7},        {"symlink", "latest", 4},      {"unlink", "", 8},
    {"read", "checkpoints", 8},    {"open", "checkpoints", 8},
};

/// Of any rank before its first step.
constexpr Moment of_starts[] = {
    {"open", "", 8}, {"read", "", 16}, {"send", "", 6}, {"recv", "", 6}, {"futex", "", 12}};

/// Of any rank behind a forward pass: beside others on its host, and with another host.
constexpr Moment of_passes[] = {{"futex", "", 3}};
constexpr Moment of_passes_between_hosts[] = {{"send", "", 4}, {"recv", "", 4}};

constexpr Moment of_launches[] = {
    {"open", "", 12}, {"mkdir", "", 3}, {"read", "", 12}, {"write", "", 5}, {"unlink", "", 2}};

/// Not counting that the last step of an epoch may have one micro-batch.
int passes_of(const Round& round) {
  return round.model == "residual" ? 2 * steps - 4 : steps;
}

void take(Strike& strike, const Moment& moment, Draw& draw) {
  strike.call = moment.call;
  strike.path = moment.path;
  strike.count = draw.from(1, moment.most);
}

/// A rank, and a moment of it.
Strike in_rank(const Round& round, Draw& draw) {
  int rank = draw.below(round.ranks);
  Strike strike;
  const int kind = draw.below(10);
  if (kind < 4) {
    rank = round.own_disks ? round.ranks_of_host() * round.host_of(rank) : 0;
    take(strike, draw.one_of(of_keepers), draw);
  } else if (kind < 6) {
    take(strike, draw.one_of(of_starts), draw);
  } else if (kind < 8 && round.ranks > 1) {
    const bool is_alone = round.ranks_of_host() == 1;
    if (is_alone || (round.hosts > 1 && draw.percent(50))) {
      take(strike, draw.one_of(of_passes_between_hosts), draw);
    } else {
      take(strike, draw.one_of(of_passes), draw);
    }
    strike.pass = draw.from(1, passes_of(round));
  } else {
    strike.call = draw.percent(50) ? "forward" : "backward";
    strike.count = draw.from(1, passes_of(round));
  }
  strike.process = fmt::format("rank {}", rank);
  return strike;
}

std::string error_for(const Strike& strike, Draw& draw) {
  if (strike.call == "send" || strike.call == "recv" || strike.call == "connect") return "ECONNRESET";
  const bool writes = strike.call != "open" && strike.call != "read";
  return writes && draw.percent(50) ? "ENOSPC" : "EIO";
}

/// Whom a rank's strike hits.
std::string victims(const Round& round, const Strike& strike, Draw& draw) {
  const int rank = std::stoi(strike.process.substr(5));
  const int other = (rank + 1 + draw.below(std::max(1, round.ranks - 1))) % round.ranks;
  const int host = round.host_of(draw.percent(50) ? rank : other);
  const int kind = draw.below(20);
  if (kind < 9) return "self";
  if (kind < 11) return fmt::format("rank {}", other);
  if (kind < 14) return other == rank ? "self" : fmt::format("self;rank {}", other);
  if (kind < 15) return fmt::format("launch {}", host);
  if (kind < 16) return fmt::format("launch {};reaper {}", host, host);
  if (kind < 17) return fmt::format("reaper {}", host);
  return fmt::format("host {}", host);
}

Strike draw_strike(const Round& round, Draw& draw) {
  if (draw.percent(8)) {
    Strike strike{.process = fmt::format("launch {}", draw.below(round.hosts))};
    take(strike, draw.one_of(of_launches), draw);
    strike.act = draw.percent(20) ? error_for(strike, draw) : "self";
    return strike;
  }
  Strike strike = in_rank(round, draw);
  const bool may_fail = strike.call != "forward" && strike.call != "backward" && strike.call != "futex";
  if (may_fail && draw.percent(25)) {
    strike.act = error_for(strike, draw);
  } else if (draw.percent(15)) {
    strike.act = draw.percent(50) ? fmt::format("{}launch {}", stop_prefix, draw.below(round.hosts))
                                  : fmt::format("{}rank {}", stop_prefix, draw.below(round.ranks));
  } else {
    strike.act = victims(round, strike, draw);
  }
  return strike;
}

}  // namespace

std::string Strike::describe() const {
  return fmt::format("{} at {}{}{} {}{}", act == "self" ? process : act + " by " + process, call,
                     path.empty() ? "" : " of ", path, count,
                     pass == 0 ? "" : fmt::format(" after forward {}", pass));
}

std::string Round::describe() const {
  std::string text = fmt::format("{} {} rank{} on {} host{}{}", model, ranks, ranks == 1 ? "" : "s", hosts,
                                 hosts == 1 ? "" : "s", own_disks ? " with own disks" : "");
  for (const Strike& strike : strikes) text += ": " + strike.describe();
  if (lost_disk >= 0) text += fmt::format(": host {} loses its disk after the first start", lost_disk);
  return text;
}

Round draw_round(std::uint64_t seed) {
  static constexpr const char* models[] = {"mlp", "gpt2", "residual"};
  Draw draw(seed);
  Round round{.seed = seed, .model = draw.one_of(models), .ranks = draw.from(1, 4)};
  round.hosts = round.ranks % 2 == 0 && draw.percent(60) ? 2 : 1;
  round.own_disks = round.hosts == 2 && draw.percent(50);
  round.strikes.push_back(draw_strike(round, draw));
  if (draw.percent(25)) round.strikes.push_back(draw_strike(round, draw));
  if (round.own_disks && draw.percent(30)) round.lost_disk = draw.below(round.hosts);
  return round;
}

}  // namespace lockstep::nemesis
