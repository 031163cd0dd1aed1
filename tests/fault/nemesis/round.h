#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/fault/nemesis/hook.h"

namespace lockstep::nemesis {

/// Of every run here.
inline constexpr int steps = 12;

/// Whom or what nemesis strikes, and when; the fields are the hook's (hook.h).
struct Strike {
  std::string process;
  std::string call;
  std::string path;
  int pass = 0;
  int count = 1;
  std::string act;

  bool is_error() const { return act.starts_with('E'); }
  bool is_stop() const { return act.starts_with(stop_prefix); }
  std::string describe() const;
};

/// All of it follows from the seed.
struct Round {
  std::uint64_t seed = 0;
  std::string model;  ///< mlp, gpt2, residual
  int ranks = 1;
  int hosts = 1;
  bool own_disks = false;       ///< each host has its own
  std::vector<Strike> strikes;  ///< of the first start, and perhaps of the second
  int lost_disk = -1;           ///< of this host: it is empty when the second start begins

  int ranks_of_host() const { return ranks / hosts; }
  int host_of(int rank) const { return rank / ranks_of_host(); }
  std::string describe() const;
};

Round draw_round(std::uint64_t seed);

}  // namespace lockstep::nemesis
