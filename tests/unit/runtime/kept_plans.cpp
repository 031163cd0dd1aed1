#include "runtime/run/kept_plans.h"

#include <sys/stat.h>

#include "tests/support/catch.h"
#include "tests/support/files.h"
#include "tests/support/temporary_folder.h"

namespace lockstep::runtime {
namespace {

using namespace std::string_literals;
namespace fs = std::filesystem;

const std::string key = "GPU, library: a convolution eng1_k2=3";
const std::string plan = "{\"code\":\"\n\0\xff\"}"s;

fs::path only_file(const fs::path& folder) {
  REQUIRE(std::distance(fs::directory_iterator(folder), {}) == 1);
  return fs::directory_iterator(folder)->path();
}

TEST_CASE("kept plans: what is kept is found, by its key alone, in another process too") {
  const tests::TemporaryFolder folder;
  KeptPlans(folder / "plans").keep(key, plan);
  const KeptPlans plans(folder / "plans");
  CHECK(plans.find(key) == plan);
  CHECK(plans.find(key + " ") == std::nullopt);
  plans.keep(key, "another");
  CHECK(plans.find(key) == "another");
  CHECK(KeptPlans(folder / "none").find(key) == std::nullopt);
}

TEST_CASE("kept plans: a file that is damaged, cut or another key's is none") {
  const tests::TemporaryFolder folder;
  const KeptPlans plans(folder.path());
  plans.keep(key, plan);
  const fs::path file = only_file(folder.path());
  const std::string text = tests::contents(file);
  for (std::size_t at = 0; at < text.size(); ++at) {
    std::string damaged = text;
    damaged[at] = static_cast<char>(damaged[at] ^ 1);
    tests::write_file(file, damaged);
    CHECK(plans.find(key) == std::nullopt);
    tests::write_file(file, text.substr(0, at));
    CHECK(plans.find(key) == std::nullopt);
  }
  tests::write_file(file, text);
  CHECK(plans.find(key) == plan);

  fs::remove(file);
  plans.keep("other", plan);
  fs::rename(only_file(folder.path()), file);
  CHECK(plans.find(key) == std::nullopt);
}

TEST_CASE("kept plans: what others may write is not taken") {
  const tests::TemporaryFolder folder;
  const KeptPlans plans(folder.path());
  plans.keep(key, plan);
  const fs::path file = only_file(folder.path());
  const bool is_file = GENERATE(true, false);
  const fs::path writable = is_file ? file : folder.path();
  REQUIRE(::chmod(writable.c_str(), 0777) == 0);
  CHECK(plans.find(key) == std::nullopt);
  REQUIRE(::chmod(writable.c_str(), 0755) == 0);
  CHECK(plans.find(key) == plan);
}

TEST_CASE("kept plans: where nothing can be written a run goes on") {
  const tests::TemporaryFolder folder;
  tests::write_file(folder / "file", "");
  const KeptPlans plans(folder / "file/plans");
  CHECK_NOTHROW(plans.keep(key, plan));
  CHECK(plans.find(key) == std::nullopt);
}

}  // namespace
}  // namespace lockstep::runtime
