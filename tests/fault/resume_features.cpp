// A run whose steps draw random numbers and keep more than weights from step to step: dropout, micro-batches,
// transformed pictures, an average of the weights.
#include "tests/fault/ten_kills.h"
#include "tests/unit/data/picture_folder.h"

namespace lockstep::tests {

TEST_CASE("dropout, micro-batches, random transforms and averaged weights: killed whole at ten moments") {
  const TemporaryFolder folder;
  // Four steps of 16 and one of 12, whose second micro-batch has 2 samples on each rank.
  data::testing::write_picture_folder(folder / "pictures", 76);
  check_ten_kills({.options = {"--model=mobilenet_v3_small", "--model-args=dropout=0.3",
                               "--dataset=" + (folder / "pictures").string(),
                               "--transform=random-resized-crop=32,flip,normalise=imagenet", "--batch-size=4",
                               "--accumulate-steps=2", "--ema=0.9", "--lr-schedule=cosine"},
                   .steps = 100},
                  folder.path());
}

}  // namespace lockstep::tests
