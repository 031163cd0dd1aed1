#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <functional>

#include "kernels/base/error.h"
#include "runtime/checkpoint/checkpoint_directory.h"
#include "runtime/checkpoint/checkpointer.h"
#include "tests/support/catch.h"
#include "tests/support/child_process.h"
#include "tests/support/files.h"
#include "tests/support/message_of.h"
#include "tests/support/skip.h"
#include "tests/support/temporary_folder.h"

namespace lockstep::runtime {
namespace {

namespace fs = std::filesystem;
using tests::contains;
using tests::contents;
using tests::write_file;
using Steps = std::vector<std::int64_t>;

void fill(const fs::path& folder) {
  for (const char* name : checkpoint_files) write_file(folder / name, "what " + std::string(name) + " holds");
  write_manifest(folder);
}

CheckpointDirectory directory_with(const fs::path& folder, const Steps& steps) {
  CheckpointDirectory directory(folder);
  for (const std::int64_t step : steps) directory.add(step, fill);
  return directory;
}

CheckpointContent content_of(std::int64_t step, std::size_t elements) {
  const NamedTensor tensor{.name = "fc.weight",
                           .shape = {static_cast<std::int64_t>(elements)},
                           .values = std::vector<float>(elements, 1)};
  return {.step = step, .weights = {tensor}, .optimizer = {}, .state = "{}"};
}

void write(CheckpointWriter& writer, CheckpointContent content) {
  writer.staging() = std::move(content);
  writer.start();
}

TEST_CASE("checkpoints are folders by step, whole, and latest is the last one written") {
  const tests::TemporaryFolder folder;
  const CheckpointDirectory directory = directory_with(folder / "checkpoints", {20, 100});
  CHECK(directory.steps() == Steps{100, 20});
  CHECK(directory.path_of(100) == folder / "checkpoints" / "step-00000100");
  CHECK(damage_of(directory.path_of(20)).empty());
  CHECK(fs::read_symlink(directory.folder() / "latest") == "step-00000100");
  directory.add(20, fill);  // a run that went on from an earlier step comes by again
  CHECK(damage_of(directory.path_of(20)).empty());
  CHECK(fs::read_symlink(directory.folder() / "latest") == "step-00000020");
  CHECK(tests::files_in(directory.folder()) == 3);
}

TEST_CASE("pruning keeps the newest, never removes the one just written, and spares later steps") {
  const tests::TemporaryFolder folder;
  const CheckpointDirectory directory = directory_with(folder.path(), {10, 20, 30, 40, 50});
  directory.prune(50, 0);
  CHECK(directory.steps() == Steps{50, 40, 30, 20, 10});
  directory.prune(40, 2);
  CHECK(directory.steps() == Steps{50, 40, 30});
  directory.prune(30, 1);
  CHECK(directory.steps() == Steps{50, 40, 30});
  directory.prune(50, 1);
  CHECK(directory.steps() == Steps{50});
  CHECK(tests::files_in(directory.folder()) == 2);
}

TEST_CASE("a folder in the place of latest, as a copy of a run may have it, stays, and nothing else does") {
  const tests::TemporaryFolder folder;
  fs::create_directories(folder / "latest");
  write_file(folder / "latest" / "state.json", "a copy");
  const CheckpointDirectory directory = directory_with(folder.path(), {1, 2});
  directory.set_latest(1);
  CHECK(directory.steps() == Steps{2, 1});
  CHECK(contents(folder / "latest" / "state.json") == "a copy");
  CHECK(tests::files_in(folder.path()) == 3);
}

TEST_CASE("every kind of damage is found and names the file") {
  const tests::TemporaryFolder folder;
  const CheckpointDirectory directory = directory_with(folder.path(), {1});
  const fs::path checkpoint = directory.path_of(1);
  for (const char* name : checkpoint_files) {
    INFO(name);
    const std::string whole = contents(checkpoint / name);
    const auto damage = [&] { return damage_of(checkpoint); };
    fs::remove(checkpoint / name);
    CHECK_THAT(damage(), contains(name) && contains("is missing"));
    write_file(checkpoint / name, whole.substr(0, whole.size() - 1));
    CHECK_THAT(damage(), contains(name) && contains("its manifest says"));
    std::string flipped = whole;
    flipped[3] ^= 1;
    write_file(checkpoint / name, flipped);
    CHECK_THAT(damage(), contains(name) && contains("SHA-256"));
    write_file(checkpoint / name, "");
    CHECK_THAT(damage(), contains(name));
    write_file(checkpoint / name, whole);
    CHECK(damage().empty());
  }
}

TEST_CASE("a manifest that is none is damage, not a crash") {
  const tests::TemporaryFolder folder;
  const CheckpointDirectory directory = directory_with(folder.path(), {1});
  const fs::path manifest = directory.path_of(1) / manifest_file;
  for (
      const char* text :
      {"", "{", "[]", "7", R"({"format": 1})", R"({"format": 1, "files": []})",
       R"({"format": 1, "files": {"model.safetensors": 3}})", R"({"format": 2, "files": {}})",
       R"({"format": 1, "files": {"model.safetensors": {}, "optimizer.safetensors": {}, "state.json": {}}})"}) {
    INFO(text);
    write_file(manifest, text);
    CHECK_FALSE(damage_of(directory.path_of(1)).empty());
  }
  fs::remove(manifest);
  CHECK_THAT(damage_of(directory.path_of(1)), contains("manifest.json is missing"));
}

TEST_CASE("names that are no checkpoints are left alone") {
  const tests::TemporaryFolder folder;
  for (const char* name : {"step-", "step-12x", "step--3", "other", "step-00000012.bak"}) {
    CHECK_FALSE(step_in(name));
    write_file(folder / name, "mine");
  }
  CHECK(step_in("step-00001200") == 1200);
  const CheckpointDirectory directory = directory_with(folder.path(), {1, 2});
  directory.prune(2, 1);
  directory.sweep();
  CHECK(tests::files_in(folder.path()) == 7);
}

TEST_CASE("sweep removes the half-written checkpoints of a killed process") {
  const tests::TemporaryFolder folder;
  const CheckpointDirectory directory = directory_with(folder.path(), {1});
  for (const char* name : {".step-00000002.77.tmp", ".step-00000001.77.old"}) {
    fs::create_directories(folder / name);
    write_file(folder / name / "model.safetensors", "half");
  }
  CHECK(directory.steps() == Steps{1});
  directory.sweep();
  CHECK(tests::files_in(folder.path()) == 2);
}

TEST_CASE("the writer writes in order, prunes, and its staged copy keeps its memory") {
  const tests::TemporaryFolder folder;
  const CheckpointDirectory directory(folder.path());
  CheckpointWriter writer(directory, 2);
  write(writer, content_of(1, 1000));
  const float* memory = writer.staging().weights[0].values.data();
  for (const std::int64_t step : {2, 3, 4}) {
    writer.staging().step = step;
    writer.start();
  }
  CHECK(writer.staging().weights[0].values.data() == memory);
  CHECK(directory.steps() == Steps{4, 3});
  CHECK(damage_of(directory.path_of(4)).empty());
}

/// In a process whose files may not grow beyond 64 KiB, as on a disk that is full.
template <class Action>
int with_small_files(Action action) {
  tests::ChildProcess child([&] {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{.rlim_cur = 65536, .rlim_max = 65536};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    return action();
  });
  return child.wait();
}

/// What `action` gives in a process that permissions bind, as they do not bind root; `folder` is its own
/// then.
int without_root(const fs::path& folder, const std::function<int()>& action) {
  constexpr uid_t nobody = 65534;
  const bool is_root = ::geteuid() == 0;
  if (is_root && ::chown(folder.c_str(), nobody, nobody) != 0) return tests::not_allowed;
  tests::ChildProcess child([&] {
    const bool is_bound = !is_root || (::setgid(nobody) == 0 && ::setuid(nobody) == 0);
    return is_bound ? action() : tests::not_allowed;
  });
  return child.wait();
}

TEST_CASE("an old checkpoint that may not be removed stays whole under its name, and ends no run") {
  const tests::TemporaryFolder folder;
  const CheckpointDirectory directory(folder.path());
  const fs::path kept = directory.path_of(1);
  const int ended = without_root(folder.path(), [&] {
    for (const std::int64_t step : {1, 2}) directory.add(step, fill);
    fs::permissions(kept, fs::perms::owner_read | fs::perms::owner_exec);
    struct stat before {
    }, after{};
    ::stat(kept.c_str(), &before);
    CheckpointWriter writer(directory, 1);
    write(writer, content_of(3, 1));
    if (!tests::message_of<DeviceError>([&] { writer.wait(); }).empty()) return 1;
    // It has not been renamed meanwhile: somebody may be copying it.
    ::stat(kept.c_str(), &after);
    if (after.st_ctim.tv_sec != before.st_ctim.tv_sec || after.st_ctim.tv_nsec != before.st_ctim.tv_nsec)
      return 3;
    // Its name is not taken from it either.
    return tests::message_of<DeviceError>([&] { directory.add(1, fill); }).empty() ? 2 : 0;
  });
  if (ended == tests::not_allowed) return tests::skip("root's namespace has no other users");
  CHECK(ended == 0);
  CHECK(directory.steps() == Steps{3, 1});
  CHECK(tests::files_in(folder.path()) == 3);
  fs::permissions(kept, fs::perms::owner_all);
  CHECK(damage_of(kept).empty());
}

TEST_CASE("a write that fails names the file and leaves the earlier checkpoints as they are") {
  const tests::TemporaryFolder folder;
  const CheckpointDirectory directory = directory_with(folder.path(), {1, 2});
  const int told = with_small_files([&] {
    CheckpointWriter writer(directory, 1);
    write(writer, content_of(3, 1 << 20));
    const std::string message = tests::message_of<DeviceError>([&] { writer.wait(); });
    return message.find("model.safetensors: cannot write") == std::string::npos ? 1 : 0;
  });
  CHECK(told == 0);
  CHECK(directory.steps() == Steps{2, 1});
  CHECK(damage_of(directory.path_of(2)).empty());
  CHECK(fs::read_symlink(folder / "latest") == "step-00000002");
  CHECK(tests::files_in(folder.path()) == 3);
}

TEST_CASE("a write that failed is thrown once, by whichever call comes next") {
  const tests::TemporaryFolder folder;
  write_file(folder / "checkpoints", "in the way");
  CheckpointWriter writer(CheckpointDirectory(folder / "checkpoints"), 1);
  write(writer, content_of(1, 1));
  CHECK_THROWS_AS(writer.staging(), DeviceError);
  CHECK_NOTHROW(writer.wait());
  CHECK_NOTHROW(writer.check());
}

}  // namespace
}  // namespace lockstep::runtime
