#pragma once

#include <optional>
#include <string>

namespace lockstep::kernels {

/// Plans that a vendor's library compiles when they are built, as texts that it gives and takes, kept from
/// run to run. A key holds all that a plan depends on. From any thread.
class PlanStore {
 public:
  virtual ~PlanStore() = default;
  /// Whole and unchanged, or no value.
  virtual std::optional<std::string> find(const std::string& key) const = 0;
  /// Where it can.
  virtual void keep(const std::string& key, const std::string& plan) const = 0;
};

}  // namespace lockstep::kernels
