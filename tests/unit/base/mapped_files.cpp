// Files in memory: what ends with them, and what a process is told that finds no room for one.
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "kernels/base/error.h"
#include "kernels/base/file.h"
#include "kernels/base/unique_fd.h"
#include "tests/support/catch.h"
#include "tests/support/child_process.h"
#include "tests/support/files.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"

using namespace lockstep;
using namespace lockstep::tests;

TEST_CASE("a mapped file that is cut ends the process with its name, of however many are mapped") {
  const TemporaryFolder folder;
  constexpr int files = 150;
  const auto path = [&](int file) { return folder / std::to_string(file); };
  for (int file = 0; file < files; ++file) std::ofstream(path(file)) << std::string(4096, '1');
  const auto end_of_cut = [&](int cut) {
    ChildProcess child([&] {
      UniqueFd errors(::open((folder / "errors").c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
      ::dup2(errors.get(), STDERR_FILENO);
      std::vector<MappedFile> mapped;
      for (int file = 0; file < files; ++file) mapped.emplace_back(path(file));
      std::filesystem::resize_file(path(cut), 0);
      const volatile std::byte* const first = mapped[static_cast<std::size_t>(cut)].bytes().data();
      return static_cast<int>(*first);
    });
    return child.wait();
  };
  for (const int cut : {0, 64, files - 1}) {
    CHECK(end_of_cut(cut) == 3);
    CHECK(contents(folder / "errors") ==
          "error: " + path(cut).string() +
              ": was cut while it was in use; restore it, and go on (training: --resume auto)\n");
  }
}

TEST_CASE("a mapped file shows its bytes") {
  const TemporaryFolder folder;
  std::ofstream(folder / "file") << "lockstep";
  MappedFile file(folder / "file");
  const MappedFile moved(std::move(file));
  CHECK(file.bytes().empty());
  CHECK(std::string(reinterpret_cast<const char*>(moved.bytes().data()), moved.bytes().size()) == "lockstep");
  std::ofstream(folder / "empty").flush();
  CHECK(MappedFile(folder / "empty").bytes().empty());
}

TEST_CASE("a file that cannot be mapped is named") {
  const TemporaryFolder folder;
  const std::string missing = (folder / "missing").string();
  CHECK(message_of<DataError>([&] { MappedFile file(missing); }) ==
        missing + ": cannot open: No such file or directory");
  CHECK(message_of<DataError>([&] { MappedFile file(folder.path()); }) ==
        folder.path().string() + ": is a folder, not a file");
}

TEST_CASE("a file for which the system has no memory or descriptor is not told to be bad") {
  const TemporaryFolder folder;
  const auto file = folder / "file";
  std::ofstream(file) << "lockstep";
  std::filesystem::resize_file(file, std::uintmax_t{1} << 40);  // sparse
  const auto says = [&](auto limit, rlim_t value, const std::string& what) {
    ChildProcess child([&] {
      rlimit before{};
      if (::getrlimit(limit, &before) != 0) return 1;
      const rlimit limited{.rlim_cur = value, .rlim_max = before.rlim_max};
      const std::string said = message_of<ExhaustedError>([&] {
        ::setrlimit(limit, &limited);
        try {
          MappedFile mapped(file);
        } catch (...) {
          ::setrlimit(limit, &before);  // a sanitizer's look at the exception takes descriptors, too
          throw;
        }
      });
      return said == file.string() + what ? 0 : 2;
    });
    return child.wait() == 0;
  };
  CHECK(says(RLIMIT_AS, rlim_t{1} << 36,
             ": cannot map: Cannot allocate memory; raise ulimit -v, or the container's memory"));
  CHECK(says(RLIMIT_NOFILE, 3, ": cannot open: Too many open files: raise the limit (ulimit -n)"));
}
