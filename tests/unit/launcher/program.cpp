#include "launcher/program.h"

#include <unistd.h>

#include "kernels/base/error.h"
#include "tests/support/catch.h"
#include "tests/support/scratch_folder.h"

namespace lockstep::launcher {
namespace {

using tests::contains;
using tests::ScratchFolder;
using Arguments = std::vector<std::string>;

Options typed(Arguments command) {
  Options options;
  options.command = std::move(command);
  return options;
}

std::string complaint(const Options& options, const std::filesystem::path& own, const std::string& path) {
  try {
    find_command(options, own, path);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "found";
}

TEST_CASE("a name is looked for beside launch, then in PATH") {
  const ScratchFolder folder;
  const auto own = folder.path() / "own";
  const auto path = (folder.path() / "a").string() + ":" + (folder.path() / "b").string();
  folder.write("a/tool", "not executable");
  const auto in_path = folder.write_program("b/tool", "");
  CHECK(find_command(typed({"tool", "x"}), own, path).program == in_path);
  CHECK(find_command(typed({"tool", "x"}), own, path).arguments == Arguments{"tool", "x"});
  const auto beside = folder.write_program("own/tool", "");
  CHECK(find_command(typed({"tool"}), own, path).program == beside);
}

TEST_CASE("a script runs under unbuffered python3, unless told otherwise") {
  const ScratchFolder folder;
  const auto python = folder.write_program("bin/python3", "");
  const auto script = folder.write_program("train.py", "").string();
  const auto path = (folder.path() / "bin").string();
  Options options = typed({script, "--epochs", "1"});
  CHECK(find_command(options, folder.path(), path).program == python);
  CHECK(find_command(options, folder.path(), path).arguments ==
        Arguments{"python3", "-u", script, "--epochs", "1"});
  options.no_python = true;
  CHECK(find_command(options, folder.path(), path).program == script);
  options = typed({"package.train", "1"});
  options.module = true;
  CHECK(find_command(options, folder.path(), path).arguments ==
        Arguments{"python3", "-u", "-m", "package.train", "1"});
}

TEST_CASE("what cannot be started is named with the reason") {
  const ScratchFolder folder;
  const auto plain = folder.write("plain", "").string();
  CHECK(complaint(typed({"nosuch"}), folder.path(), "/nowhere").find("neither beside launch nor in PATH") !=
        std::string::npos);
  CHECK(complaint(typed({"./no/such"}), folder.path(), "").find("does not exist") != std::string::npos);
  CHECK(complaint(typed({plain}), folder.path(), "").find("chmod +x") != std::string::npos);
  CHECK(complaint(typed({folder.path().string()}), folder.path(), "").find("folder") != std::string::npos);
  CHECK(complaint(typed({"nosuch.py"}), folder.path(), "/usr/bin:/bin").find("script 'nosuch.py'") !=
        std::string::npos);
}

TEST_CASE("a program behind folders that lead nowhere, or are closed, is named with the reason") {
  namespace fs = std::filesystem;
  const ScratchFolder folder;
  fs::create_symlink("loop", folder / "loop");
  const std::string looped = (folder / "loop/trainer").string();
  const std::string reason = "'" + looped + "' cannot be reached: Too many levels of symbolic links";
  CHECK_THAT(complaint(typed({looped}), folder.path(), ""), contains("program " + reason));
  CHECK_THAT(complaint(typed({looped + ".py"}), folder.path(), ""), contains("cannot be reached"));
  const std::string below_a_file = folder.write("file", "").string() + "/trainer";
  CHECK_THAT(complaint(typed({below_a_file}), folder.path(), ""), contains("does not exist"));
  const fs::path hidden = folder.write_program("closed/trainer", "");
  fs::permissions(hidden.parent_path(), fs::perms::none);
  const std::string told = complaint(typed({hidden.string()}), folder.path(), "");
  fs::permissions(hidden.parent_path(), fs::perms::owner_all);
  // Nothing is closed to root.
  CHECK_THAT(told, contains(geteuid() == 0
                                ? "found"
                                : "program '" + hidden.string() + "' cannot be reached: Permission denied"));
}

}  // namespace
}  // namespace lockstep::launcher
