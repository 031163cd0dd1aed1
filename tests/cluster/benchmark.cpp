// --benchmark: all ranks take rank 0's choices, and a later run takes them from the cache.
#include "tests/support/json_lines.h"
#include "tests/support/variable.h"

namespace lockstep::tests {
namespace {

namespace fs = std::filesystem;

Words options(int batch_size, const fs::path& run) {
  return {"--model=convnet",          "--dataset=synthetic", "--samples=128",
          "--image-shape=3x12x12",    "--threads=1",         "--max-steps=2",
          "--checkpoint-every=2",     "--benchmark",         "--batch-size",
          std::to_string(batch_size), "--run-dir",           run.string()};
}

/// Layer and op of each choice.
nlohmann::json choices_in(const fs::path& run) {
  return nlohmann::json::parse(contents(run / "checkpoints/latest/state.json"))["algorithms"];
}

const std::string nothing_timed = "--benchmark: 0 ops timed in ";

TEST_CASE("a second run with --benchmark times nothing and takes what the first one kept") {
  const TemporaryFolder folder;
  const Variable cache("XDG_CACHE_HOME", (folder / "cache").string());
  const fs::path file = folder / "cache/lockstep/algorithms";
  const std::string first = output_of(2, options(16, folder / "1"));
  CHECK_THAT(first, contains("--benchmark: 5 ops timed in "));
  const std::string kept = contents(file);
  CHECK_THAT(output_of(2, options(16, folder / "2")), contains(nothing_timed));
  CHECK(contents(file) == kept);
  CHECK(choices_in(folder / "2") == choices_in(folder / "1"));

  auto json = nlohmann::json::parse(kept);
  for (auto& algorithm : json["machines"][0]["algorithms"]) algorithm = "automatic";
  write_file(file, json.dump());
  CHECK_THAT(output_of(1, options(16, folder / "3")), contains(nothing_timed));
  for (const auto& choice : choices_in(folder / "3")) CHECK(choice == "automatic");

  CHECK_THAT(output_of(1, options(8, folder / "4")), contains("--benchmark: 5 ops timed in "));
  CHECK_THAT(output_of(2, options(16, folder / "5")), contains(nothing_timed));
}

TEST_CASE("a cache that is damaged is named and replaced, and two runs at once leave a whole one") {
  const TemporaryFolder folder;
  const Variable cache("XDG_CACHE_HOME", (folder / "cache").string());
  const fs::path file = folder / "cache/lockstep/algorithms";
  Program one(trainer_words(2, options(16, folder / "1")));
  Program other(trainer_words(2, options(16, folder / "2")));
  CHECK(one.wait_for_end() == 0);
  CHECK(other.wait_for_end() == 0);
  CHECK_THAT(output_of(1, options(16, folder / "3")), contains(nothing_timed));
  write_file(file, contents(file).substr(0, 100));
  CHECK_THAT(output_of(1, options(16, folder / "4")), contains(file.string() + ": no measurements"));
  CHECK_THAT(output_of(1, options(16, folder / "5")), contains(nothing_timed));
  CHECK(files_in(file.parent_path()) == 2);  // and its lock
}

}  // namespace
}  // namespace lockstep::tests
