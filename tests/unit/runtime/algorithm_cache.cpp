// The file in which --benchmark's measurements are kept.
#include "runtime/run/algorithm_cache.h"

#include <sys/stat.h>

#include <memory>
#include <sstream>
#include <vector>

#include <fmt/format.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include "kernels/base/json.h"
#include "tests/support/catch.h"
#include "tests/support/child_process.h"
#include "tests/support/files.h"
#include "tests/support/temporary_folder.h"

namespace lockstep::runtime {
namespace {

namespace fs = std::filesystem;
using tests::contains;
using tests::TemporaryFolder;

const KnownAlgorithms some{{"conv2d: f32 4x3x8x8 row-major", "winograd"}, {"conv2d kernel 5x5", "eng1_k2=3"}};

/// Of the process, while it lives.
class Log {
 public:
  Log() {
    spdlog::set_default_logger(
        std::make_shared<spdlog::logger>("test", std::make_shared<spdlog::sinks::ostream_sink_mt>(text_)));
  }
  ~Log() { spdlog::set_default_logger(before_); }
  std::string take() {
    const std::string text = text_.str();
    text_.str("");
    return text;
  }

 private:
  std::shared_ptr<spdlog::logger> before_ = spdlog::default_logger();
  std::ostringstream text_;
};

TEST_CASE("algorithm cache: each machine finds its own measurements again") {
  const TemporaryFolder folder;
  const fs::path file = folder / "new/lockstep/algorithms";
  const AlgorithmCache here(file, "here");
  const AlgorithmCache there(file, "there");
  CHECK(here.load().empty());
  here.store(some);
  CHECK(here.load() == some);
  CHECK(there.load().empty());
  there.store({{"conv2d", "direct"}});
  CHECK(here.load() == some);
  CHECK(there.load() == KnownAlgorithms{{"conv2d", "direct"}});
  CHECK(AlgorithmCache("", "here").load().empty());
  AlgorithmCache("", "here").store(some);
}

TEST_CASE("algorithm cache: what another run added is kept, and what is measured anew wins") {
  const TemporaryFolder folder;
  const AlgorithmCache cache(folder / "algorithms", "here");
  cache.store({{"a", "direct"}, {"b", "direct"}});
  cache.store({{"b", "winograd"}, {"c", "direct"}});
  CHECK(cache.load() == KnownAlgorithms{{"a", "direct"}, {"b", "winograd"}, {"c", "direct"}});
  CHECK(tests::files_in(folder.path()) == 2);  // with its lock
}

TEST_CASE("algorithm cache: what runs store at the same moment is all kept") {
  constexpr int runs = 3;
  constexpr int stores = 40;
  const TemporaryFolder folder;
  const fs::path file = folder / "algorithms";
  {
    std::vector<std::unique_ptr<tests::ChildProcess>> processes;
    for (int run = 0; run < runs; ++run) {
      processes.push_back(std::make_unique<tests::ChildProcess>([&, run] {
        // Two machines by turns: sections of others must not get lost either.
        for (int i = 0; i < stores; ++i) {
          AlgorithmCache(file, std::to_string(i % 2)).store({{fmt::format("{} {}", run, i), "direct"}});
        }
        return 0;
      }));
    }
    for (const auto& process : processes) CHECK(process->wait() == 0);
  }
  const std::size_t kept = AlgorithmCache(file, "0").load().size() + AlgorithmCache(file, "1").load().size();
  CHECK(kept == runs * stores);
}

TEST_CASE("algorithm cache: the machines measured last are kept") {
  const TemporaryFolder folder;
  const auto of = [&](int i) { return AlgorithmCache(folder / "algorithms", std::to_string(i)); };
  for (int i = 0; i < 64; ++i) of(i).store(some);
  of(0).store(some);
  of(64).store(some);
  CHECK(of(0).load() == some);
  CHECK(of(1).load().empty());
  CHECK(of(64).load() == some);
}

TEST_CASE("algorithm cache: a damaged file is named, not used, and replaced") {
  const TemporaryFolder folder;
  const fs::path file = folder / "algorithms";
  const AlgorithmCache cache(file, "here");
  cache.store(some);
  const std::string whole = tests::contents(file);
  Json other_format = Json::parse(whole);
  other_format["format"] = 99;
  Json no_strings = Json::parse(whole);
  no_strings["machines"] = std::vector<int>{1};
  for (const std::string& text : {whole.substr(0, whole.size() / 2), std::string("\xff\xfe"), std::string(),
                                  other_format.dump(), no_strings.dump()}) {
    CAPTURE(text);
    Log log;
    tests::write_file(file, text);
    CHECK(cache.load().empty());
    CHECK_THAT(log.take(), contains(file.string() + ": no measurements of --benchmark: "));
    cache.store(some);
    CHECK(log.take().empty());
    CHECK(tests::contents(file) == whole);
  }
}

TEST_CASE("algorithm cache: a file or folder that others may write is neither read nor written") {
  const TemporaryFolder folder;
  const fs::path file = folder / "cache/algorithms";
  const AlgorithmCache cache(file, "here");
  cache.store(some);
  struct stat status {};
  REQUIRE(::stat(file.c_str(), &status) == 0);
  CHECK((status.st_mode & (S_IWGRP | S_IWOTH)) == 0);
  const std::string whole = tests::contents(file);
  const fs::path open_to_all = GENERATE(true, false) ? file : file.parent_path();
  fs::permissions(open_to_all, fs::perms::others_write, fs::perm_options::add);
  Log log;
  CHECK(cache.load().empty());
  CHECK_THAT(log.take(), contains(open_to_all.string() + " can be written by everyone: chmod o-w"));
  cache.store({{"a", "direct"}});
  CHECK(tests::contents(file) == whole);
}

TEST_CASE("algorithm cache: a link is not followed, and what cannot be written is said") {
  const TemporaryFolder folder;
  const fs::path file = folder / "algorithms";
  fs::create_symlink(folder / "elsewhere", file);
  const AlgorithmCache cache(file, "here");
  Log log;
  CHECK(cache.load().empty());
  CHECK_THAT(log.take(), contains("is a symbolic link"));
  cache.store(some);
  CHECK_FALSE(fs::exists(folder / "elsewhere"));
  fs::remove(file);
  fs::create_directory(file);
  cache.store(some);
  CHECK_THAT(log.take(), contains("measurements of --benchmark are not kept: " + file.string()));
}

}  // namespace
}  // namespace lockstep::runtime
