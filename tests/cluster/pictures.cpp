#include "tests/support/training.h"
#include "tests/unit/data/picture_folder.h"

namespace lockstep::tests {
namespace {

namespace fs = std::filesystem;
using data::testing::write_picture_folder;

Words options_for(const fs::path& root) {
  return {"--dataset",        root.string(),
          "--model=mlp",      "--transform=random-resized-crop=16,flip,normalise=imagenet",
          "--global-batch=8", "--eval-transform=resize=20,crop=16,normalise=imagenet",
          "--optimizer=sgd",  "--lr=0.05",
          "--epochs=2",       "--threads=1",
          "--log-every=1"};
}

TEST_CASE("a folder of pictures trains with the same pictures for any number of workers and ranks") {
  const TemporaryFolder folder;
  write_picture_folder(folder / "pictures", 24);
  const Words options = options_for(folder / "pictures");
  const auto one = train(1, options + Words{"--num-workers=0"}, folder / "1");
  CHECK(one["samples"] == 48);
  CHECK(train(1, options + Words{"--num-workers=2"}, folder / "2")["weights_sha256"] ==
        one["weights_sha256"]);
  const auto ranks = train(2, options + Words{"--num-workers=1"}, folder / "3");
  // The order of sums changes f32's last digits, other pictures change the first ones.
  CHECK(ranks["final_loss"].get<double>() == Approx(one["final_loss"].get<double>()).epsilon(1e-4));
  CHECK(ranks["eval"]["loss"].get<double>() == Approx(one["eval"]["loss"].get<double>()).epsilon(1e-4));
  CHECK(ranks["eval"]["samples"] == 24);
}

TEST_CASE("a corrupt picture ends a run with 3 and its name, or is passed over and named") {
  const TemporaryFolder folder;
  write_picture_folder(folder / "pictures", 24);
  const fs::path corrupt = folder / "pictures" / "odd" / "103.jpg";
  write_file(corrupt, contents(corrupt).substr(0, 300));
  const Words options = options_for(folder / "pictures");
  Program strict(trainer_words(1, options + Words{"--run-dir", (folder / "1").string()}));
  CHECK(strict.wait_for_end() == 3);
  CHECK_THAT(strict.output(), contains(corrupt.string() + ": offset "));
  Program lenient(
      trainer_words(1, options + Words{"--corrupt-samples=skip", "--run-dir", (folder / "2").string()}));
  CHECK(lenient.wait_for_end() == 0);
  CHECK_THAT(lenient.output(), contains("is skipped, the next good one taken in its place"));
}

}  // namespace
}  // namespace lockstep::tests
