#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/options/options.h"

namespace lockstep::runtime {

/// What an option decides: what a run computes, and so must be the same on all ranks and when the run goes on
/// from a checkpoint; the course of the run, how far it goes, what it evaluates and which calls the ranks
/// make together, and so must be the same on all ranks; or only how and where a rank does that.
enum class Decides { numbers, course, nothing };

struct OptionInfo {
  std::string group;
  std::string name;
  std::string value_name;  ///< empty for a switch
  std::string what;
  Decides decides = Decides::numbers;
};

/// One option: how its text gets into Options and back.
struct OptionEntry : OptionInfo {
  std::function<void(Options&, const std::string& text)>
      set;                                          ///< throws UsageError without the option's name
  std::function<std::string(const Options&)> show;  ///< empty text: not given
  std::string least{};                              ///< of a number; empty for anything else
  std::string most{};
  std::optional<std::string> alone{};                 ///< the value when none is typed; switches: "true"
  bool is_pair = false;                               ///< may be typed as two words
  std::function<std::string(const Options&)> keep{};  ///< for config.ini, where that is another text

  bool is_switch() const { return value_name.empty(); }
  OptionEntry taken_alone_as(std::string value) && {
    alone = std::move(value);
    return std::move(*this);
  }
};

const std::vector<OptionEntry>& option_table();
/// Null for none.
const OptionEntry* find_entry(const std::string& name);

/// Options that this version does not have, or that ask for what is always so (`--deterministic`). A value
/// that asks for nothing is accepted.
struct FutureOption {
  std::string name;
  std::string neutral;  ///< the value that asks for nothing; empty: there is none
  bool is_switch = false;
};

const std::vector<FutureOption>& future_options();
const FutureOption* find_future(const std::string& name);

}  // namespace lockstep::runtime
