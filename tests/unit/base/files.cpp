#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <fstream>
#include <functional>

#include "kernels/base/error.h"
#include "kernels/base/file.h"
#include "kernels/base/file_status.h"
#include "kernels/base/hash.h"
#include "kernels/base/host.h"
#include "kernels/base/unique_fd.h"
#include "tests/support/catch.h"
#include "tests/support/child_process.h"
#include "tests/support/files.h"
#include "tests/support/message_of.h"
#include "tests/support/skip.h"
#include "tests/support/temporary_folder.h"

using namespace lockstep;
using namespace lockstep::tests;

namespace {

bool is_open(int fd) {
  return ::fcntl(fd, F_GETFD) != -1;
}

}  // namespace

TEST_CASE("a UniqueFd closes its descriptor once and hands it on") {
  const int raw = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  REQUIRE(raw >= 0);
  {
    UniqueFd first(raw);
    UniqueFd second(std::move(first));
    CHECK(!first);
    CHECK(second.get() == raw);
    UniqueFd third;
    third = std::move(second);
    CHECK(is_open(raw));
  }
  CHECK(!is_open(raw));
}

// FIPS 180-2, appendix B.
TEST_CASE("SHA-256 gives the standard's answers, in one piece or several") {
  CHECK(Sha256().hex() == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK(Sha256().update("abc").hex() == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  Sha256 pieces;
  pieces.update("abcdbcdecdefdefgefgh");
  CHECK(pieces.hex() == Sha256().update("abcdbcdecdefdefgefgh").hex());
  pieces.update("fghighijhijkijkljklmklmnlmnomnopnopq");
  CHECK(pieces.hex() == "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
}

TEST_CASE("an atomic file appears whole") {
  const TemporaryFolder folder;
  std::ofstream(folder / "file") << "old";
  {
    AtomicFile file(folder / "file");
    file.write("new ");
    CHECK(contents(folder / "file") == "old");
    file.write("text");
    file.commit();
  }
  CHECK(contents(folder / "file") == "new text");
  CHECK(files_in(folder.path()) == 1);
}

TEST_CASE("an atomic file that is given up leaves the old one and no litter") {
  const TemporaryFolder folder;
  std::ofstream(folder / "file") << "old";
  AtomicFile(folder / "file").write("new");
  CHECK(contents(folder / "file") == "old");
  CHECK(files_in(folder.path()) == 1);
}

TEST_CASE("an atomic file without a folder says so") {
  const TemporaryFolder folder;
  const std::string path = (folder / "none/file").string();
  CHECK(message_of<DeviceError>([&] { write_file_atomically(path, "text"); }) ==
        path + ": cannot create: No such file or directory; make its folder first");
}

TEST_CASE("an atomic file takes the place of no folder, FIFO or stream") {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / "folder");
  REQUIRE(::mkfifo((folder / "pipe").c_str(), 0600) == 0);
  std::filesystem::create_symlink("pipe", folder / "link");
  std::filesystem::create_symlink("/proc/self/fd/1", folder / "stdout");  // wherever it goes
  const auto refusal = [&](const std::string& name) {
    const std::string message =
        message_of<DeviceError>([&] { write_file_atomically(folder / name, "text"); });
    const std::string path = (folder / name).string() + ": ";
    return message.starts_with(path) ? message.substr(path.size()) : "not about the file: " + message;
  };
  CHECK(refusal("folder") == "is a folder, not a file; name another");
  CHECK(refusal("pipe") == "is a FIFO, not a file; name another");
  CHECK(refusal("link") == "is a FIFO, not a file; name another");
  CHECK(refusal("stdout") == "is an open stream, not a file; name another");
  CHECK(std::filesystem::is_fifo(folder / "pipe"));
  CHECK(std::filesystem::is_symlink(folder / "stdout"));
  CHECK(files_in(folder.path()) == 4);
}

TEST_CASE("what is at a path is told, or why it cannot be") {
  const TemporaryFolder folder;
  write_file(folder / "file", "text");
  CHECK(std::filesystem::is_directory(status_at(folder.path())));
  CHECK(std::filesystem::exists(status_at(folder / "file")));
  CHECK_FALSE(std::filesystem::exists(status_at(folder / "none")));
  CHECK_FALSE(std::filesystem::exists(status_at(folder / "file/below")));
  std::filesystem::create_symlink("circle", folder / "circle");
  const auto complaint = [&](const std::string& name) {
    return message_of<DataError>([&] { status_at(folder / name); });
  };
  CHECK(complaint("circle") == (folder / "circle").string() +
                                   ": cannot be reached: Too many levels of symbolic links; see that you "
                                   "may enter the folders above it, and where links lead");
  std::filesystem::permissions(folder.path(), std::filesystem::perms::others_exec,
                               std::filesystem::perm_options::add);
  std::filesystem::create_directory(folder / "closed");
  std::filesystem::permissions(folder / "closed", std::filesystem::perms::none);
  ChildProcess nobody([&] {
    constexpr uid_t number = 65534;
    if (::geteuid() == 0 && ::setuid(number) != 0) return not_allowed;
    return complaint("closed/file").find(": cannot be reached: Permission denied; ") != std::string::npos ? 0
                                                                                                          : 2;
  });
  const int ended = nobody.wait();
  std::filesystem::permissions(folder / "closed", std::filesystem::perms::owner_all);
  if (ended == not_allowed) return skip("root's namespace has no other users");
  CHECK(ended == 0);
}

TEST_CASE("a full disk leaves the old file and no litter") {
  const TemporaryFolder folder;
  ChildProcess child([&] {
    if (!have_own_mounts() || !make_tiny(folder.path())) return not_allowed;
    write_file_atomically(folder / "file", "old");
    const std::string large(200 * 1024, 'x');
    const std::string message =
        message_of<DeviceError>([&] { write_file_atomically(folder / "file", large); });
    if (message != (folder / "file").string() +
                       ": cannot write: No space left on device; free space there or choose another folder") {
      return 1;
    }
    return contents(folder / "file") == "old" && files_in(folder.path()) == 1 ? 0 : 2;
  });
  const int result = child.wait();
  if (result == not_allowed) {
    tests::skip("a mount namespace of one's own needs root");
  } else {
    CHECK(result == 0);
  }
}

TEST_CASE("nobody can take the name that an atomic file is written under") {
  const TemporaryFolder folder;
  for (int count = 0; count < 100; ++count) {
    write_file(folder / (".file." + std::to_string(::getpid()) + "-" + std::to_string(count) + ".tmp"),
               "left over");
  }
  write_file_atomically(folder / "file", "text");
  CHECK(contents(folder / "file") == "text");
  sweep_temporaries(folder.path());
  CHECK(files_in(folder.path()) == 1);
}

TEST_CASE("a reader takes regular files alone, and notices one that was cut") {
  const TemporaryFolder folder;
  write_file(folder / "file", "lockstep");
  std::string text;
  read_in_pieces(folder / "file", [&](std::span<const std::byte> piece) {
    text.append(reinterpret_cast<const char*>(piece.data()), piece.size());
  });
  CHECK(text == "lockstep");
  FileReader reader(folder / "file");
  CHECK(reader.bytes() == 8);
  std::filesystem::resize_file(folder / "file", 3);
  std::array<std::byte, 8> bytes{};
  CHECK(message_of<DataError>([&] { reader.read(bytes); }) ==
        (folder / "file").string() + ": was cut while it was read: it had 8 bytes");
  std::filesystem::create_symlink(folder / "file", folder / "link");
  CHECK(message_of<DataError>([&] { FileReader link(folder / "link"); }) ==
        (folder / "link").string() + ": cannot open: it is a symbolic link");
  REQUIRE(::mkfifo((folder / "pipe").c_str(), 0600) == 0);
  for (const auto& open : std::vector<std::function<void()>>{[&] { FileReader pipe(folder / "pipe"); },
                                                             [&] { MappedFile pipe(folder / "pipe"); }}) {
    CHECK(message_of<DataError>(open) == (folder / "pipe").string() + ": is a FIFO, not a file");
  }
}

TEST_CASE("folders are made with those above them") {
  const TemporaryFolder folder;
  CHECK(make_folders(folder / "a/b/c/"));
  CHECK(std::filesystem::is_directory(folder / "a/b/c"));
  CHECK_FALSE(make_folders(folder / "a/b/c"));
  write_file(folder / "file", "text");
  std::filesystem::create_symlink("nowhere", folder / "link");
  for (const char* taken : {"file/a", "link"}) {
    CHECK_THAT(message_of<DeviceError>([&] { make_folders(folder / taken); }),
               contains(": cannot be made") && contains("a file, or a link that leads nowhere, is where"));
  }
}

TEST_CASE("a text comes whole, or not at all") {
  const TemporaryFolder folder;
  const std::string lines(10'000, 'x');
  write_file(folder / "lines", lines);
  CHECK(whole_text(folder / "lines") == lines);
  CHECK(read_text(folder / "lines") == lines);
  CHECK_THAT(message_of<DataError>([&] { whole_text(folder / "none"); }),
             contains("none: cannot open: No such file or directory"));
  CHECK(read_text(folder / "none").empty());
  // Nothing is mapped at its beginning: what a broken disk answers.
  CHECK(message_of<DataError>([] { whole_text("/proc/self/mem"); }) ==
        "/proc/self/mem: cannot read: Input/output error");
  CHECK(read_text("/proc/self/mem").empty());
}

TEST_CASE("the first line of a small file of the system") {
  const TemporaryFolder folder;
  write_file(folder / "lines", "0-3\nmore\n");
  CHECK(first_line(folder / "lines") == "0-3");
  write_file(folder / "bare", "max 100000");
  CHECK(first_line(folder / "bare") == "max 100000");
  CHECK(first_line(folder / "none").empty());
  CHECK(boot_id().size() == std::string_view("01234567-89ab-cdef-0123-456789abcdef").size());
  CHECK(boot_id() == boot_id());
  REQUIRE(start_ticks("self"));
  CHECK(start_ticks("self") == start_ticks(std::to_string(::getpid())));
  CHECK(start_ticks("self") >= start_ticks(std::to_string(::getppid())));
  CHECK_FALSE(start_ticks("none"));
}
