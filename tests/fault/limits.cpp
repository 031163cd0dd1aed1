// Runs that get too little of the machine: descriptors, processes, bytes of a file, memory, time of its
// processors. They end well, however slowly, or with a line that says what there was too little of, and go on
// to the same bits elsewhere.
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>

#include <map>

#include "kernels/base/threads.h"
#include "tests/fault/short_runs.h"
#include "tests/support/child_process.h"
#include "tests/support/skip.h"
#include "tests/support/text.h"

namespace lockstep::tests {
namespace {

namespace fs = std::filesystem;

struct Limit {
  Shape shape;
  const char* what;  ///< of `shell_limits`, or a file of a control group
  std::vector<const char*> values;
  std::vector<int> codes;  ///< of a run for which it is too little; none: it must end well
  const char* said = "";
};

const char* const no_descriptor = "Too many open files";
const char* const too_large = "File too large; raise ulimit -f";
const char* const no_process = "Resource temporarily unavailable; ";  // and what to do
const char* const no_memory = "the kernel does that when memory runs out";

const std::vector<Limit> limits{
    {by_memory, "descriptors", {"64"}, {}},
    {by_tcp, "descriptors", {"64"}, {}},
    {by_memory, "descriptors", {"6", "8", "12", "18", "20", "22"}, {4}, no_descriptor},
    {by_tcp, "descriptors", {"22", "24", "26", "28"}, {4, 5}, no_descriptor},
    {by_memory, "KiB of a stack", {"64", "96"}, {4}, "raise ulimit -s"},
    {by_memory, "blocks of a file", {"0", "1", "8", "64", "128"}, {4}, too_large},
    {by_tcp, "blocks of a file", {"0", "1", "8", "64", "128"}, {4}, too_large},
    {by_memory, "pids.max", {"2", "4", "6", "8", "10", "12", "14", "16"}, {4}, no_process},
    {by_tcp, "pids.max", {"8", "11", "13", "15", "17", "19", "21"}, {4}, no_process},
    {by_memory, "memory.max", {"6M", "8M", "10M"}, {137}, no_memory},
    {by_tcp, "cpu.max", {"5000"}, {}},  // of 100 ms in each 100 ms: a twentieth
};

const std::map<std::string, std::string> shell_limits{
    {"descriptors", "ulimit -n"}, {"blocks of a file", "ulimit -f"}, {"KiB of a stack", "ulimit -s"}};

/// The folder of a new control group with this file, or none; version 1 has other names and a folder for each
/// controller.
class ControlGroup {
 public:
  explicit ControlGroup(const std::string& file) {
    const fs::path root = "/sys/fs/cgroup";
    const bool version_2 = fs::exists(root / "cgroup.subtree_control");
    const std::string controller = file.substr(0, file.find('.'));
    folder_ = (version_2 ? root : root / controller) / fmt::format("lockstep-test-{}", ::getpid());
    std::error_code error;
    if (!fs::create_directory(folder_, error)) return;
    file_ = folder_ / (version_2 ? file : name_of_version_1(file));
  }
  ControlGroup(const ControlGroup&) = delete;
  ControlGroup& operator=(const ControlGroup&) = delete;
  ~ControlGroup() {
    // What died last may not be gone from it yet.
    for (const Deadline deadline = Deadline::in(patience); !file_.empty() && !deadline.passed();) {
      if (::rmdir(folder_.c_str()) == 0) return;
    }
  }

  bool exists() const { return !file_.empty() && fs::exists(file_); }
  /// Joins it, then becomes the program.
  Words enter(const std::string& value) const {
    return {"/bin/sh", "-c",  "echo $1 >$0 && echo $$ >$2 && shift 2 && exec \"$@\"",
            file_,     value, folder_ / "cgroup.procs"};
  }

 private:
  static std::string name_of_version_1(const std::string& file) {
    if (file == "memory.max") return "memory.limit_in_bytes";
    return file == "cpu.max" ? "cpu.cfs_quota_us" : file;
  }

  fs::path folder_;
  fs::path file_;
};

void check(const Limit& limit, const Words& limited) {
  const TemporaryFolder folder;
  const Words words = training(limit.shape, folder / "run");
  Program run(limited + words);
  const int code = run.wait_for_end(Seconds((timeout_s + 3) * slowness));
  INFO(run.output());
  if (code != 0) {
    CHECK(std::ranges::find(limit.codes, code) != limit.codes.end());
    CHECK_THAT(run.output(), contains(limit.said) && !contains("internal error"));
    // Nor do its peers, and their report, tell the words of the standard library alone.
    CHECK_THAT(run.output(), !contains("unavailable\n") && !contains("std::bad_alloc"));
    hash_of(words, folder / "run");
  }
  CHECK(hash_in(folder / "run") == undisturbed(limit.shape));
}

TEST_CASE(
    "too few descriptors, processes, bytes of a file or of memory, milliseconds: a run ends well, or says of "
    "what there was too "
    "little") {
  for (const Limit& limit : limits) {
    for (const std::string value : limit.values) {
      CAPTURE(limit.shape.name, limit.what, value);
      if (const auto by_shell = shell_limits.find(limit.what); by_shell != shell_limits.end()) {
        check(limit, {"/bin/sh", "-c", by_shell->second + " $0 && exec \"$@\"", value});
        continue;
      }
      const ControlGroup group(limit.what);
      if (!group.exists()) {
        skip("this machine lets no control group be made");
        break;
      }
      check(limit, group.enter(value));
    }
  }
}

const Words few_steps{"--model=mlp",   "--dataset=synthetic", "--samples=64",
                      "--max-steps=2", "--eval-every=0",      "--device=cpu"};

TEST_CASE("a rank that the system gives too few compute threads says so") {
  for (const std::string value : {"2", "3"}) {
    CAPTURE(value);
    const ControlGroup group("pids.max");
    if (!group.exists()) return skip("this machine lets no control group be made");
    const TemporaryFolder folder;
    Program run(group.enter(value) + Words{TRAINER_PROGRAM} + few_steps +
                Words{"--threads=4", "--run-dir=" + (folder / "run").string()});
    CHECK(run.wait_for_end() == 4);
    CHECK_THAT(run.output(), contains(no_process) && contains("raise ulimit -u") && !contains("libgomp"));
  }
}

TEST_CASE("more threads than a rank may have, by OMP_NUM_THREADS, are refused as wrong use") {
  const std::string threads = GENERATE("4097", "1000000", "99999999999999999999");
  const TemporaryFolder folder;
  Program run(Words{"/usr/bin/env", "OMP_NUM_THREADS=" + threads, TRAINER_PROGRAM} + few_steps +
              Words{"--run-dir=" + (folder / "run").string()});
  CHECK(run.wait_for_end() == 2);
  CHECK_THAT(run.output(), contains("OMP_NUM_THREADS=" + threads + " is no number from 1 to 4096"));
}

TEST_CASE("where there is no address space for the stack of a thread, that limit is named") {
  const TemporaryFolder folder;
  Program run(Words{"/bin/sh", "-c", "ulimit -s 1000000 || exit 100; ulimit -v 1000000; exec \"$0\" \"$@\"",
                    TRAINER_PROGRAM} +
              few_steps + Words{"--threads=2", "--run-dir=" + (folder / "run").string()});
  const int code = run.wait_for_end();
  if (code == 100) return skip("this machine allows no stacks of a gigabyte");
  CHECK(code == 4);
  CHECK_THAT(run.output(), contains("Resource temporarily unavailable; raise ulimit -v, or ulimit -u"));
}

TEST_CASE("a limit of data is named where there is no room for a thread") {
  ChildProcess limited([] {
    const rlimit bytes{.rlim_cur = 1 << 30, .rlim_max = 1 << 30};
    if (::setrlimit(RLIMIT_DATA, &bytes) != 0) return 1;
    return obstacle_to_start_thread(EAGAIN).find("raise ulimit -d, or ulimit -u") != std::string::npos ? 0
                                                                                                       : 2;
  });
  CHECK(limited.wait() == 0);
}

TEST_CASE("a rank without a descriptor for signals says what to do") {
  // The loader of libraries needs the fourth, which the test may have been started with.
  Program run(Words{"/bin/sh", "-c", "exec 3>&-; ulimit -n 4; exec \"$0\" \"$@\"", TRAINER_PROGRAM} +
              few_steps);
  CHECK(run.wait_for_end() == 4);
  CHECK_THAT(run.output(),
             contains("cannot wait for signals: Too many open files: raise the limit (ulimit -n)"));
}

TEST_CASE("launch needs no more than two descriptors for each rank") {
  Program run(Words{"/bin/sh", "-c", "ulimit -n 128; exec \"$0\" --nproc_per_node=40 true", LAUNCH_PROGRAM});
  CHECK(run.wait_for_end() == 0);
  CHECK_THAT(run.output(), !contains("Too many open files"));
}

TEST_CASE("launch takes more descriptors where it may, and starts ranks with the limit that it had") {
  Program run(Words{"/bin/sh", "-c", "ulimit -Sn 64; exec \"$0\" --nproc_per_node=40 sh -c \"ulimit -Sn\"",
                    LAUNCH_PROGRAM});
  CHECK(run.wait_for_end() == 0);
  INFO(run.output());
  CHECK(count_of(run.output(), "\n64\n") == 40);
}

TEST_CASE("launch says what to do where there are too few descriptors") {
  Program run(Words{"/bin/sh", "-c", "ulimit -n 64; exec \"$0\" --nproc_per_node=40 true", LAUNCH_PROGRAM});
  CHECK(run.wait_for_end() == 4);
  CHECK_THAT(run.output(), contains("Too many open files: raise the limit (ulimit -n)\n"));
}

TEST_CASE("where standard output takes no more, text is lost, never the run, and that is said once") {
  const TemporaryFolder folder;
  const Words words{"--model=mlp",   "--dataset=synthetic", "--samples=64",
                    "--max-steps=2", "--eval-every=0",      "--run-dir=" + (folder / "run").string()};
  Program run(Words{"/bin/sh", "-c", "exec \"$0\" \"$@\" >/dev/full", TRAINER_PROGRAM} + words);
  CHECK(run.wait_for_end() == 0);
  const std::string said = "standard output loses text: No space left on device; the run goes on\n";
  INFO(run.output());
  CHECK(run.output().find(said) != std::string::npos);
  CHECK(run.output().find(said) == run.output().rfind(said));
}

TEST_CASE("where a command cannot write what it was asked for: 4, with the reason") {
  const TemporaryFolder folder;
  const std::string run = (folder / "run").string();
  Program training({TRAINER_PROGRAM, "--model=mlp", "--dataset=synthetic", "--samples=64", "--max-steps=2",
                    "--eval-every=0", "--run-dir=" + run});
  REQUIRE(training.wait_for_end() == 0);
  const std::vector<Words> commands{{"eval", run}, {"predict", run},
                                    {"--version"}, {"plan", "--model=mlp", "--dataset=synthetic"},
                                    {"--help"},    {"models"}};
  for (const Words& command : commands) {
    INFO(command.front());
    Program printing(Words{"/bin/sh", "-c", "exec \"$0\" \"$@\" >/dev/full", TRAINER_PROGRAM} + command);
    CHECK(printing.wait_for_end() == 4);
    CHECK(printing.output() == "error: standard output: cannot write: No space left on device\n");
  }
}

}  // namespace
}  // namespace lockstep::tests
