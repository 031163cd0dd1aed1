#include "kernels/base/cores.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <set>
#include <sstream>
#include <string>

#include <fmt/format.h>

#include "kernels/base/file.h"
#include "kernels/base/number.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

CpuList siblings(int cpu, const fs::path& root) {
  const auto file = fmt::format("sys/devices/system/cpu/cpu{}/topology/thread_siblings_list", cpu);
  return parse_cpu_list(first_line(root / file));
}

constexpr double no_limit = std::numeric_limits<double>::infinity();

double ratio(const std::string& quota, const std::string& period) {
  const double granted = leading_number<int>(quota);
  return granted > 0 && leading_number<int>(period) > 0 ? granted / leading_number<int>(period) : no_limit;
}

double quota_v2(const fs::path& group) {
  std::istringstream line(first_line(group / "cpu.max"));
  std::string quota;
  std::string period;
  line >> quota >> period;
  return quota == "max" ? no_limit : ratio(quota, period);
}

double quota_v1(const fs::path& group) {
  return ratio(first_line(group / "cpu.cfs_quota_us"), first_line(group / "cpu.cfs_period_us"));
}

/// The least quota from `group` up to the mount. A container often sees its own group as the mount itself,
/// while /proc still tells the outer path: folders that are missing simply grant no limit.
double least_quota(const fs::path& mount, fs::path group, double (*read)(const fs::path&)) {
  double least = read(mount);
  for (group = group.relative_path(); !group.empty(); group = group.parent_path()) {
    least = std::min(least, read(mount / group));
  }
  return least;
}

}  // namespace

std::vector<CpuList> group_by_core(const CpuList& cpus, const fs::path& root) {
  const bool smt = first_line(root / "sys/devices/system/cpu/smt/active") == "1";
  std::vector<CpuList> cores;
  std::set<int> placed;
  for (int cpu : cpus) {
    if (placed.contains(cpu)) continue;
    CpuList core = {cpu};
    if (smt) {
      for (int sibling : siblings(cpu, root)) {
        if (sibling != cpu && std::ranges::binary_search(cpus, sibling)) core.push_back(sibling);
      }
    }
    placed.insert(core.begin(), core.end());
    cores.push_back(std::move(core));
  }
  return cores;
}

int online_cpus(const fs::path& root) {
  const CpuList listed = parse_cpu_list(first_line(root / "sys/devices/system/cpu/online"));
  return static_cast<int>(listed.empty() ? ::sysconf(_SC_NPROCESSORS_ONLN) : std::ssize(listed));
}

double cgroup_quota(const fs::path& root) {
  const fs::path mounts = root / "sys/fs/cgroup";
  std::ifstream groups(root / "proc/self/cgroup");
  double least = no_limit;
  for (std::string line; std::getline(groups, line);) {
    const auto first = line.find(':');
    const auto second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string group = line.substr(second + 1);
    if (controllers.empty()) {
      least = std::min(
          {least, least_quota(mounts, group, quota_v2), least_quota(mounts / "unified", group, quota_v2)});
    } else if (("," + controllers + ",").find(",cpu,") != std::string::npos) {
      least = std::min(least, least_quota(mounts / controllers, group, quota_v1));
    }
  }
  return least == no_limit ? 0 : least;
}

int cpus_within(double quota, int cpus) {
  const int most = std::max(1, cpus);
  return quota > 0 ? static_cast<int>(std::clamp(quota, 1.0, static_cast<double>(most))) : most;
}

int Cores::usable() const {
  return cpus_within(quota, static_cast<int>(cores.size()));
}

int Cores::per_rank(int ranks) const {
  return std::max(1, usable() / ranks);
}

Cores find_cores(const CpuList& mask, const fs::path& root) {
  return {.cores = group_by_core(mask, root), .quota = cgroup_quota(root)};
}

std::vector<CpuList> slice_cores(const Cores& cores, int ranks, int omp_threads) {
  std::vector<CpuList> slices;
  if (ranks < 2 || ranks > cores.usable() || omp_threads > cores.per_rank(ranks)) return slices;
  const auto count = cores.cores.size();
  const auto parts = static_cast<std::size_t>(ranks);
  for (std::size_t part = 0; part < parts; ++part) {
    CpuList& slice = slices.emplace_back();
    for (auto core = part * count / parts; core < (part + 1) * count / parts; ++core) {
      slice.insert(slice.end(), cores.cores[core].begin(), cores.cores[core].end());
    }
    std::ranges::sort(slice);
  }
  return slices;
}

}  // namespace lockstep
