#include <algorithm>

#include "runtime/options/table.h"

namespace lockstep::runtime {

const FutureOption* find_future(const std::string& name) {
  const auto found = std::ranges::find(future_options(), name, &FutureOption::name);
  return found == future_options().end() ? nullptr : &*found;
}

const std::vector<FutureOption>& future_options() {
  static const std::vector<FutureOption> options{
      {"loss-average", "global"},
      {"deterministic", "true", true},
      {"shards", ""},
      {"trace", ""},
  };
  return options;
}

}  // namespace lockstep::runtime
