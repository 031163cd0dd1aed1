#include "launcher/program.h"

#include "kernels/base/error.h"
#include "tests/support/catch.h"
#include "tests/unit/launcher/scratch_folder.h"

namespace lockstep::launcher {
namespace {

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

}  // namespace
}  // namespace lockstep::launcher
