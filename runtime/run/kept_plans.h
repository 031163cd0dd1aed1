#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "kernels/base/activity.h"
#include "kernels/plan_store.h"
#include "runtime/machine/session.h"

namespace lockstep::runtime {

/// A file a plan, by a hash of its key: the SHA-256 of what follows, the key, the plan. A file that is
/// damaged, or that others may write, counts as none; plans are code that the GPU runs.
class KeptPlans final : public kernels::PlanStore {
 public:
  explicit KeptPlans(std::filesystem::path folder, Activity* activity = nullptr)
      : folder_(std::move(folder)), activity_(activity) {}

  std::optional<std::string> find(const std::string& key) const override;
  void keep(const std::string& key, const std::string& plan) const override;

 private:
  std::filesystem::path file_of(const std::string& key) const;

  const std::filesystem::path folder_;
  Activity* const activity_;
};

/// The session's device keeps its plans in `$XDG_CACHE_HOME/lockstep/plans`, if there is such a place.
void keep_library_plans(Session& session);

}  // namespace lockstep::runtime
