#include "kernels/base/cores.h"

#include <sched.h>
#include <unistd.h>

#include <cerrno>

#include "kernels/base/file.h"
#include "tests/support/catch.h"
#include "tests/support/scratch_folder.h"

using namespace lockstep;
using tests::ScratchFolder;

TEST_CASE("hardware threads of one core count once, as far as they are among the CPUs") {
  const ScratchFolder root;
  using Groups = std::vector<CpuList>;
  CHECK(group_by_core({2, 5, 7}, root.path()) == Groups{{2}, {5}, {7}});
  root.write("sys/devices/system/cpu/smt/active", "1\n");
  const char* const siblings[] = {"0,2\n", "1,3\n", "0,2\n", "1,3\n"};
  for (std::size_t cpu = 0; cpu < std::size(siblings); ++cpu) {
    root.write("sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/thread_siblings_list",
               siblings[cpu]);
  }
  CHECK(group_by_core({0, 1, 2, 3}, root.path()) == Groups{{0, 2}, {1, 3}});
  CHECK(group_by_core({0, 1, 2}, root.path()) == Groups{{0, 2}, {1}});
  CHECK(group_by_core({0, 2}, root.path()) == Groups{{0, 2}});
  CHECK(group_by_core({}, root.path()).empty());
}

TEST_CASE("CPUs that are switched on") {
  const ScratchFolder root;
  CHECK(online_cpus(root.path()) == ::sysconf(_SC_NPROCESSORS_ONLN));
  root.write("sys/devices/system/cpu/online", "0-3,8\n");
  CHECK(online_cpus(root.path()) == 5);
}

TEST_CASE("the quota of a cgroup v2 and of its parents") {
  const ScratchFolder root;
  CHECK(cgroup_quota(root.path()) == 0);
  root.write("proc/self/cgroup", "0::/job/step\n");
  SECTION("own group") {
    root.write("sys/fs/cgroup/job/step/cpu.max", "250000 100000\n");
    CHECK(cgroup_quota(root.path()) == Approx(2.5));
  }
  SECTION("a parent's is smaller") {
    root.write("sys/fs/cgroup/job/step/cpu.max", "max 100000\n");
    root.write("sys/fs/cgroup/job/cpu.max", "50000 100000\n");
    CHECK(cgroup_quota(root.path()) == Approx(0.5));
  }
  SECTION("a container sees its own group as the mount") {
    root.write("sys/fs/cgroup/cpu.max", "300000 100000\n");
    CHECK(cgroup_quota(root.path()) == Approx(3));
  }
  SECTION("no limit") {
    root.write("sys/fs/cgroup/job/step/cpu.max", "max 100000\n");
    CHECK(cgroup_quota(root.path()) == 0);
  }
}

TEST_CASE("the quota of a cgroup v1") {
  const ScratchFolder root;
  root.write("proc/self/cgroup", "4:memory:/job\n3:cpu,cpuacct:/job\n1:cpuset:/\n");
  root.write("sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_period_us", "100000\n");
  SECTION("limited") {
    root.write("sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us", "200000\n");
    CHECK(cgroup_quota(root.path()) == Approx(2));
  }
  SECTION("-1 is no limit") {
    root.write("sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us", "-1\n");
    CHECK(cgroup_quota(root.path()) == 0);
  }
}

TEST_CASE("of the CPUs as many compute at the same time as the quota lets, but one always") {
  CHECK(cpus_within(0, 4) == 4);
  CHECK(cpus_within(2.9, 4) == 2);
  CHECK(cpus_within(8, 4) == 4);
  CHECK(cpus_within(0.05, 4) == 1);
  CHECK(cpus_within(0, 0) == 1);
  CHECK(cpus_within(2, 0) == 1);
}

TEST_CASE("without files the mask alone counts") {
  const ScratchFolder root;
  const Cores cores = find_cores({2, 5, 7}, root.path());
  CHECK(cores.cores == std::vector<CpuList>{{2}, {5}, {7}});
  CHECK(cores.quota == 0);
  CHECK(cores.usable() == 3);
}

TEST_CASE("cores count, not hardware threads, as far as the quota goes") {
  const ScratchFolder root;
  root.write("sys/devices/system/cpu/smt/active", "1\n");
  for (const int cpu : {0, 1, 2, 3}) {
    root.write("sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/thread_siblings_list",
               cpu % 2 == 0 ? "0,2\n" : "1,3\n");
  }
  CHECK(find_cores({0, 1, 2, 3}, root.path()).usable() == 2);
  root.write("proc/self/cgroup", "0::/\n");
  root.write("sys/fs/cgroup/cpu.max", "150000 100000\n");
  CHECK(find_cores({0, 1, 2, 3}, root.path()).quota == Approx(1.5));
  CHECK(find_cores({0, 1, 2, 3}, root.path()).usable() == 1);
}

TEST_CASE("slices are contiguous, equal but for one, and cover the mask") {
  const Cores cores = {.cores = {{0}, {1}, {2}, {3}, {4}}, .quota = 0};
  CHECK(slice_cores(cores, 2) == std::vector<CpuList>{{0, 1}, {2, 3, 4}});
  CHECK(slice_cores(cores, 5).size() == 5);
  CHECK(slice_cores(cores, 6).empty());
  CHECK(slice_cores(cores, 1).empty());
}

TEST_CASE("a quota below the mask limits the ranks that are bound, not the slices") {
  const Cores cores = {.cores = {{0}, {1}, {2}, {3}}, .quota = 2};
  CHECK(slice_cores(cores, 2) == std::vector<CpuList>{{0, 1}, {2, 3}});
  CHECK(slice_cores(cores, 3).empty());
}

TEST_CASE("each rank has an equal part of the usable cores, and slices hold whole cores") {
  const Cores cores = {.cores = {{0, 4}, {1, 5}, {2, 6}, {3, 7}}, .quota = 0};
  CHECK(cores.per_rank(1) == 4);
  CHECK(cores.per_rank(3) == 1);
  CHECK(cores.per_rank(8) == 1);
  const std::vector<CpuList> halves{{0, 1, 4, 5}, {2, 3, 6, 7}};
  CHECK(slice_cores(cores, 2) == halves);
  CHECK(slice_cores(cores, 2, 2) == halves);
  CHECK(slice_cores(cores, 2, 3).empty());
}

TEST_CASE("the affinity mask is read whole where the kernel may have more than 1024 CPUs") {
  const auto of_4096 = [](pid_t, std::size_t bytes, cpu_set_t* sets) {
    if (bytes < 4096 / 8) {
      errno = EINVAL;
      return -1;
    }
    for (const std::size_t cpu : {3U, 1500U}) CPU_SET_S(cpu, bytes, sets);
    return 0;
  };
  CHECK(affinity_mask(of_4096) == CpuList{3, 1500});
  const auto none = [](pid_t, std::size_t, cpu_set_t*) {
    errno = EPERM;
    return -1;
  };
  CHECK(affinity_mask(none) == parse_cpu_list(first_line("/sys/devices/system/cpu/online")));
  CHECK_FALSE(affinity_mask().empty());
}

TEST_CASE("lists are written as the kernel writes them") {
  CHECK(format_cpu_list({0, 1, 2, 5, 7, 8}) == "0-2,5,7-8");
  CHECK(parse_cpu_list("0-2,5,7-8") == CpuList{0, 1, 2, 5, 7, 8});
  CHECK(parse_cpu_list("").empty());
}
