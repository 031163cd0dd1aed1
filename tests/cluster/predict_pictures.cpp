// trainer predict RUN pictures: by the run's transforms and with its names, without its data.
#include <cmath>
#include <cstring>

#include "kernels/base/safetensors.h"
#include "tests/support/json_lines.h"
#include "tests/unit/data/encoded.h"
#include "tests/unit/data/formula_picture.h"
#include "tests/unit/data/idx_bytes.h"

namespace lockstep::tests {
namespace {

namespace fs = std::filesystem;

std::string picture_of(int width, int height) {
  return data::testing::jpeg_of(data::testing::formula_picture({width, height}, 3).view());
}

/// A run on JPEGs of the classes "cat" and "dog", whose folder is gone.
fs::path trained_on_folders(const TemporaryFolder& folder) {
  const fs::path set = folder / "set";
  for (int i = 0; i < 8; ++i) {
    const fs::path path = set / (i % 2 == 0 ? "cat" : "dog") / (std::to_string(i) + ".jpg");
    fs::create_directories(path.parent_path());
    write_file(path, picture_of(20 + 3 * i, 60 - i));
  }
  train(1,
        {"--dataset", set.string(), "--model=mlp", "--transform=random-resized-crop=16",
         "--eval-transform=resize=20,crop=16,normalise=imagenet", "--batch-size=4", "--threads=1",
         "--checkpoint-every=1", "--eval-samples=3"},
        folder / "run");
  fs::remove_all(set);
  return folder / "run";
}

/// Seven pictures, in two folders and beside them.
fs::path write_seen(const TemporaryFolder& folder) {
  const fs::path seen = folder / "seen";
  for (int i = 0; i < 7; ++i) {
    const fs::path path = seen / (i < 2 ? "b" : i < 4 ? "a/deep" : "") / (std::to_string(i) + ".jpg");
    fs::create_directories(path.parent_path());
    write_file(path, picture_of(50 - i, 30 + 2 * i));
  }
  return seen;
}

TEST_CASE("pictures are predicted by a run whose data are gone, each once on any number of ranks") {
  const TemporaryFolder folder;
  const std::string run = trained_on_folders(folder).string();
  const fs::path seen = write_seen(folder);
  const std::string single = (seen / "5.jpg").string();
  const Words words{"predict", run, single, seen.string(), "--threads=1", "--batch-size=2"};
  const auto one = lines_of(output_of(1, words));
  std::vector<std::string> files;
  for (const auto& line : one) files.push_back(line["file"]);
  const auto at = [&](const char* name) { return (seen / name).string(); };
  CHECK(files == Words{single, at("4.jpg"), single, at("6.jpg"), at("a/deep/2.jpg"), at("a/deep/3.jpg"),
                       at("b/0.jpg"), at("b/1.jpg")});
  for (const auto& line : one) {
    REQUIRE(line["top5"].size() == 2);
    const bool is_cat = line["class"] == 0;
    CHECK(line["name"] == (is_cat ? "cat" : "dog"));
    CHECK(line["top5"][1]["name"] == (is_cat ? "dog" : "cat"));
    CHECK(line["probability"].get<double>() + line["top5"][1]["probability"].get<double>() == Approx(1));
  }
  CHECK(lines_of(output_of(3, words)) == one);
  const auto alone = lines_of(output_of(3, {"predict", run, single, "--threads=1", "--batch-size=2"}));
  REQUIRE(alone.size() == 1);
  CHECK(alone[0]["name"] == one[0]["name"]);
  const auto of_checkpoint = lines_of(output_of(1, {"predict", run + "/checkpoints/latest", single}));
  CHECK(of_checkpoint.at(0)["name"] == one[0]["name"]);
  const auto of_file = lines_of(output_of(1, {"predict", run + "/model.safetensors", single, "--model=mlp",
                                              "--eval-transform=resize=20,crop=16"}));
  CHECK(of_file.at(0).contains("name"));
}

TEST_CASE("a picture that cannot be decoded ends predict with 3 and its name, or is passed over") {
  const TemporaryFolder folder;
  const std::string run = trained_on_folders(folder).string();
  const fs::path seen = write_seen(folder);
  const std::string corrupt = (seen / "b/0.jpg").string();
  write_file(corrupt, contents(corrupt).substr(0, 300));
  for (const int ranks : {1, 2}) {
    Program strict(trainer_words(ranks, {"predict", run, seen.string()}));
    CHECK(strict.wait_for_end() == 3);
    CHECK_THAT(strict.output(), contains(corrupt + ": offset "));
    const Words skip{"predict", run, seen.string(), "--corrupt-samples=skip", "--batch-size=2"};
    const std::string output = output_of(ranks, skip);
    CHECK_THAT(output, contains("passed over: " + corrupt));
    const auto lines = lines_of(output);
    CHECK(lines.size() == 6);
    for (const auto& line : lines) CHECK(line["file"] != corrupt);
    CHECK(lines.back()["index"] == 6);
  }
  const std::string logits = (folder / "logits.safetensors").string();
  output_of(2, {"predict", run, seen.string(), "--corrupt-samples=skip", "--output", logits});
  const SafetensorsFile file(logits);
  REQUIRE(file.find("logits")->shape == Shape{7, 2});
  std::array<float, 14> values{};
  std::memcpy(values.data(), file.find("logits")->bytes.data(), sizeof values);
  for (std::size_t row = 0; row < 7; ++row) CHECK(std::isnan(values[2 * row]) == (row == 5));
}

TEST_CASE("pictures of digits are predicted as the data set's own, in grey and with its names") {
  const TemporaryFolder folder;
  for (const char* part : {"train", "t10k"}) {
    write_file(folder / (std::string(part) + "-images-idx3-ubyte"), idx_images(12));
    write_file(folder / (std::string(part) + "-labels-idx1-ubyte"), idx_labels(12));
  }
  train(1, {"--model=mlp", "--dataset=mnist", "--data-dir", folder.path().string(), "--batch-size=4"},
        folder / "run");
  const std::string run = (folder / "run").string();
  const std::string image = idx_images(12).substr(16 + 5 * 784, 784);
  write_file(folder / "grey.png", data::testing::png_of({28, 28}, SPNG_COLOR_TYPE_GRAYSCALE, 8, image));
  write_file(folder / "colours.jpg", picture_of(90, 60));
  const auto own = lines_of(output_of(1, {"predict", run}));
  const auto lines = lines_of(
      output_of(1, {"predict", run, (folder / "colours.jpg").string(), (folder / "grey.png").string()}));
  REQUIRE(lines.size() == 2);
  CHECK(lines[1]["top5"] == own.at(5)["top5"]);  // both in row 1 of a batch of 4
  for (const auto& line : lines) {
    CHECK(line["name"].get<std::string>().starts_with(std::to_string(line["class"].get<int>()) + " - "));
  }
}

TEST_CASE("what a run without pictures cannot predict is said") {
  const TemporaryFolder folder;
  train(1, {"--model=mlp", "--dataset=synthetic", "--samples=64"}, folder / "run");
  const std::string picture = (folder / "1.jpg").string();
  write_file(picture, picture_of(30, 30));
  const auto refused = [&](const Words& more) {
    Program program(Words{TRAINER_PROGRAM, "predict", (folder / "run").string()} + more);
    const int code = program.wait_for_end();
    return std::to_string(code) + " " + program.output();
  };
  CHECK_THAT(refused({picture}), contains("data set synthetic has no pictures"));
  CHECK(refused({picture}).starts_with("2 "));
  CHECK(refused({(folder / "none").string()}).starts_with("3 "));
  CHECK_THAT(refused({(folder / "none").string()}), contains("no such file or folder"));
}

}  // namespace
}  // namespace lockstep::tests
