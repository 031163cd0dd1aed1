#include "kernels/base/host.h"

#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <sstream>
#include <string_view>

#include <fmt/format.h>

#include "kernels/base/file.h"
#include "kernels/base/number.h"

namespace lockstep {
namespace {

CpuList cpus_in(const std::vector<cpu_set_t>& sets) {
  CpuList cpus;
  const std::size_t bytes = sets.size() * sizeof(cpu_set_t);
  for (std::size_t cpu = 0; cpu < sets.size() * CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET_S(cpu, bytes, sets.data())) cpus.push_back(static_cast<int>(cpu));
  }
  return cpus;
}

}  // namespace

std::string host_name() {
  char name[256] = {};
  if (gethostname(name, sizeof name - 1) != 0) return "?";
  return name;
}

std::string boot_id() {
  return first_line("/proc/sys/kernel/random/boot_id");
}

std::optional<std::int64_t> start_ticks(const std::string& process) {
  const std::string stat = read_text(fmt::format("/proc/{}/stat", process));
  std::size_t at = stat.rfind(')');  // the name before it may hold anything
  for (int field = 2; field < 22 && at != std::string::npos; ++field) at = stat.find(' ', at + 1);
  if (at == std::string::npos) return std::nullopt;
  return leading_number<std::int64_t>(std::string_view(stat).substr(at + 1));
}

std::int64_t boottime_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_BOOTTIME, &now);
  return now.tv_sec * 1'000'000'000LL + now.tv_nsec;
}

CpuList affinity_mask(int (*get)(pid_t, std::size_t, cpu_set_t*)) {
  constexpr std::size_t most_sets = 1024;
  // EINVAL: the kernel may ever have more CPUs than these have room for.
  for (std::size_t count = 1; count <= most_sets; count *= 2) {
    std::vector<cpu_set_t> sets(count);
    const std::size_t bytes = count * sizeof(cpu_set_t);
    if (get(0, bytes, sets.data()) == 0) return cpus_in(sets);
    if (errno != EINVAL) break;
  }
  return parse_cpu_list(first_line("/sys/devices/system/cpu/online"));
}

std::string format_cpu_list(const CpuList& cpus) {
  return ranges_of(cpus, std::string::npos);
}

CpuList parse_cpu_list(const std::string& text) {
  CpuList cpus;
  std::istringstream ranges(text);
  for (std::string range; std::getline(ranges, range, ',');) {
    const auto dash = range.find('-');
    const int first = leading_number<int>(range);
    const int last =
        dash == std::string::npos ? first : leading_number<int>(std::string_view(range).substr(dash + 1));
    for (int cpu = first; cpu <= last; ++cpu) cpus.push_back(cpu);
  }
  return cpus;
}

}  // namespace lockstep
