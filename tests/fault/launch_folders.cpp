// launch's temporary folders: one whose launch was killed goes with the user's next launch, no other does.
#include <fcntl.h>
#include <sys/mount.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "kernels/base/hash.h"
#include "kernels/base/host.h"
#include "tests/support/catch.h"
#include "tests/support/child_process.h"
#include "tests/support/files.h"
#include "tests/support/program.h"
#include "tests/support/skip.h"
#include "tests/support/temporary_folder.h"

namespace lockstep::launcher {
namespace {

namespace fs = std::filesystem;
using tests::contains;
using tests::files_in;
using tests::Program;
using tests::TemporaryFolder;
using tests::wait_until_gone;

std::vector<std::string> launch_in(const fs::path& folder, const std::vector<std::string>& words) {
  std::vector<std::string> command{"/usr/bin/env", "TMPDIR=" + folder.string(), LAUNCH_PROGRAM,
                                   "--nproc_per_node=1"};
  command.insert(command.end(), words.begin(), words.end());
  return command;
}

/// Tells the folder of its error file, and waits.
const std::vector<std::string> waiting{
    "sh", "-c", "echo pid=$$ folder=${TORCHELASTIC_ERROR_FILE%/attempt_0/*}.; exec sleep 1000"};

fs::path folder_of(Program& launch) {
  launch.wait_for(".\n");
  const auto at = launch.output().find("folder=") + 7;
  return launch.output().substr(at, launch.output().find(".\n", at) - at);
}

/// One that the host of this boot may give a folder.
std::string folder_name(const std::string& boot) {
  return fmt::format("lockstep_launch_tmp_{:016x}_abcdef", fnv1a(boot));
}

void kill_whole(Program& launch) {
  kill(launch.pid(), SIGKILL);
  REQUIRE(launch.wait_for_end() == 128 + SIGKILL);
  REQUIRE(wait_until_gone(launch.number_after("pid")));
}

void launch_once(const fs::path& folder) {
  Program launch(launch_in(folder, {"true"}));
  CHECK(launch.wait_for_end() == 0);
}

TEST_CASE("what a rank says reaches launch from another folder, too, when --log-dir is relative") {
  const TemporaryFolder folder;
  Program shell({"/bin/sh", "-c", "cd \"$0\" && exec \"$@\"", folder.path().string(), LAUNCH_PROGRAM,
                 "--log-dir=logs", "--max_restarts=3", "sh", "-c",
                 "cd / && echo \"$0\" >\"$TORCHELASTIC_ERROR_FILE\"; exit 2",
                 R"({"message": {"message": "no such word", "extraInfo": {"exit_code": 2}}})"});
  CHECK(shell.wait_for_end() == 2);
  CHECK_THAT(shell.output(), contains("it said: no such word") && !contains("starts all ranks"));
}

TEST_CASE("logs lie in --log-dir also when the run id is a path") {
  const auto [id, name] = GENERATE(table<std::string, std::string>(
      {{"team/run", "team_run_"}, {"/tmp/run", "_tmp_run_"}, {"../run", ".._run_"}}));
  const TemporaryFolder folder;
  Program launch({LAUNCH_PROGRAM, "--rdzv_id=" + id, "--log_dir=" + (folder / "logs").string(),
                  "--redirects=1", "echo", "text"});
  CHECK(launch.wait_for_end() == 0);
  REQUIRE(files_in(folder / "logs") == 1);
  const fs::path run = *fs::directory_iterator(folder / "logs");
  CHECK_THAT(run.filename().string(), contains(name));
  CHECK(fs::exists(run / "attempt_0/0/stdout.log"));
}

/// The exit code of launch, whose two ranks do nothing, and what it says, where `prepare` has changed the
/// mounts; nothing where that is not allowed.
std::optional<std::pair<int, std::string>> launch_behind(const std::function<bool()>& prepare,
                                                         const std::vector<std::string>& options) {
  const TemporaryFolder folder;
  std::vector<std::string> words{LAUNCH_PROGRAM, "--nproc_per_node=2"};
  words.insert(words.end(), options.begin(), options.end());
  words.push_back("true");
  tests::ChildProcess child([&] {
    const int errors = ::open((folder / "errors").c_str(), O_CREAT | O_WRONLY, 0600);
    if (!tests::have_own_mounts() || !prepare()) return tests::not_allowed;
    ::dup2(errors, STDERR_FILENO);
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    ::execv(argv[0], argv.data());
    return 127;
  });
  const int code = child.wait();
  if (code == tests::not_allowed) return std::nullopt;
  return std::pair{code, tests::contents(folder / "errors")};
}

TEST_CASE("a log that finds no room, and a machine without /dev: 4, and what to do") {
  const TemporaryFolder folder;
  const auto full =
      launch_behind([&] { return ::mount("tmpfs", folder.path().c_str(), "tmpfs", 0, "nr_inodes=7") == 0; },
                    {"--redirects=3", "--log_dir=" + folder.path().string()});
  if (!full) return tests::skip("a mount namespace of one's own needs root");
  CHECK(full->first == 4);
  CHECK_THAT(full->second,
             contains(".log': No space left on device; name another folder by TMPDIR or --log-dir"));
  const auto bare = launch_behind([] { return ::mount("tmpfs", "/dev", "tmpfs", 0, nullptr) == 0; }, {});
  CHECK(bare->first == 4);
  CHECK_THAT(bare->second,
             contains("'/dev/null': No such file or directory; give the container, or chroot, a /dev"));
}

TEST_CASE("the folder of a launch that was killed goes with the next one, that of a living one stays") {
  const TemporaryFolder temporary;
  Program living(launch_in(temporary.path(), waiting));
  Program killed(launch_in(temporary.path(), waiting));
  const fs::path stays = folder_of(living);
  const fs::path goes = folder_of(killed);
  kill_whole(killed);
  REQUIRE(fs::exists(goes));
  launch_once(temporary.path());
  CHECK_FALSE(fs::exists(goes));
  CHECK(fs::exists(stays / "attempt_0/0"));
  kill(living.pid(), SIGTERM);
  CHECK(living.wait_for_end() == 128 + SIGTERM);
  CHECK(files_in(temporary.path()) == 0);
}

TEST_CASE("a launch that was killed as soon as it had made its folder: the next one removes that") {
  const TemporaryFolder temporary;
  fs::create_directory(temporary / folder_name(boot_id()));
  launch_once(temporary.path());
  CHECK(files_in(temporary.path()) == 0);
}

TEST_CASE("on a disk that hosts share another host's folder stays, whose launch may live") {
  const TemporaryFolder temporary;
  const fs::path others = temporary / folder_name("another host's");
  fs::create_directory(others);
  launch_once(temporary.path());
  CHECK(fs::exists(others));
}

TEST_CASE("of a launch that was killed logs stay, and what a link leads to, and what is another user's") {
  const TemporaryFolder temporary;
  const TemporaryFolder elsewhere;
  const auto left_in = [](const fs::path& folder, std::vector<std::string> words) {
    words.insert(words.end(), waiting.begin(), waiting.end());
    Program launch(launch_in(folder, words));
    const fs::path left = folder_of(launch);
    kill_whole(launch);
    return left;
  };
  const fs::path logs = left_in(temporary.path(), {"--tee=3"});
  const fs::path linked = left_in(elsewhere.path(), {});
  fs::create_symlink(linked, temporary / folder_name(boot_id()));
  launch_once(temporary.path());
  CHECK(fs::exists(logs / "attempt_0/0/stdout.log"));
  CHECK(fs::exists(linked / "attempt_0/0"));
  if (geteuid() != 0) return tests::skip("only root can give files away");
  const fs::path others = left_in(temporary.path(), {});
  REQUIRE(chown(others.c_str(), 65534, 65534) == 0);
  launch_once(temporary.path());
  CHECK(fs::exists(others / "attempt_0/0"));
}

}  // namespace
}  // namespace lockstep::launcher
