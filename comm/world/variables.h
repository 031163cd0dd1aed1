#pragma once

#include <initializer_list>
#include <optional>
#include <string>

#include "comm/world/find_world.h"

namespace lockstep::comm {

/// Typed reading of environment variables; UsageErrors show the variable and its value.
class Variables {
 public:
  explicit Variables(const Environment& environment) : environment_(environment) {}

  bool has(const char* name) const { return environment_(name).has_value(); }
  std::optional<std::string> text(const char* name) const { return environment_(name); }
  std::string text_or(const char* name, std::string otherwise) const;

  /// A number from `least` to `most`, or nothing when the variable is not set.
  std::optional<int> number(const char* name, int least, int most) const;
  int required_number(const char* name, int least, int most) const;

  /// Those of `names` that are not set.
  std::string missing(std::initializer_list<const char*> names) const;
  bool has_any(std::initializer_list<const char*> names) const;

 private:
  const Environment& environment_;
};

/// mpirun names each rank; PMIx's and Slurm's variables that it leaves beside are those of its daemons.
inline bool started_by_mpirun(const Variables& variables) {
  return variables.has("OMPI_COMM_WORLD_RANK");
}

inline constexpr int most_ranks = 1 << 20;

}  // namespace lockstep::comm
