// Weights in one file and in shards, and where they are found.
#include "runtime/weights/weights_file.h"
#include "runtime/weights/write_weights.h"

#include <algorithm>

#include "kernels/base/error.h"
#include "kernels/base/file.h"
#include "kernels/base/json.h"
#include "runtime/checkpoint/checkpoint_directory.h"
#include "runtime/checkpoint/saved_weights.h"
#include "runtime/weights/named_tensor.h"
#include "tests/support/catch.h"
#include "tests/support/files.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"

namespace lockstep::runtime {
namespace {

namespace fs = std::filesystem;
using tests::contains;
using tests::message_of;

NamedTensor tensor(const std::string& name, std::int64_t elements) {
  return {.name = name,
          .shape = {elements},
          .values = std::vector<float>(static_cast<std::size_t>(elements), static_cast<float>(elements))};
}

/// The working folder is another one to the end of the scope.
class WorkingFolder {
 public:
  explicit WorkingFolder(const fs::path& folder) { fs::current_path(folder); }
  ~WorkingFolder() {
    std::error_code ignored;
    fs::current_path(before_, ignored);
  }
  WorkingFolder(const WorkingFolder&) = delete;
  WorkingFolder& operator=(const WorkingFolder&) = delete;

 private:
  const fs::path before_ = fs::current_path();
};

std::vector<std::string> files_in(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    names.push_back(entry.path().filename().string());
  }
  std::ranges::sort(names);
  return names;
}

TEST_CASE(
    "names of classes and tokens, and shapes of values, are kept with the weights, in one file or shards") {
  const tests::TemporaryFolder folder;
  const std::vector<NamedTensor> weights{tensor("a", 10), tensor("b", 20)};
  const std::vector<std::string> names{"cat", "a \"dog\", or so",
                                       "Stra\xc3\x9f"
                                       "e"};
  for (const std::size_t limit : {0, 50}) {
    save_weights(folder.path(), weights, limit,
                 {.classes = names, .tokens = {"\n", "a"}, .tokenizer = "0a1b", .values = Shape{3, 2}});
    CHECK(WeightsFile(folder.path()).tokenizer_fingerprint() == "0a1b");
    CHECK(WeightsFile(folder.path()).class_names() == names);
    CHECK(WeightsFile(folder.path()).token_names() == std::vector<std::string>{"\n", "a"});
    CHECK(WeightsFile(folder.path()).values_shape() == Shape{3, 2});
  }
  save_weights(folder.path(), weights, 0, {.values = Shape{}});
  CHECK(WeightsFile(folder.path()).class_names().empty());
  CHECK(WeightsFile(folder.path()).tokenizer_fingerprint().empty());
  CHECK(WeightsFile(folder.path()).values_shape() == Shape{});
  save_weights(folder.path(), weights, 0);
  CHECK_FALSE(WeightsFile(folder.path()).values_shape().has_value());
  const float value = 0;
  const SafetensorsFile::Tensor foreign{"a", DType::f32, {1}, std::as_bytes(std::span(&value, 1))};
  write_safetensors(folder / "model.safetensors", std::span(&foreign, 1),
                    {{"class_names", "cat, dog"}, {"values_shape", "[3, 0]"}});
  CHECK(WeightsFile(folder.path()).class_names().empty());
  CHECK_FALSE(WeightsFile(folder.path()).values_shape().has_value());
}

TEST_CASE("weights above the limit are written in shards with Hugging Face's names, and read back") {
  const tests::TemporaryFolder folder;
  // 40, 80, 400 and 20 bytes with a limit of 120: {a, b}, {c}, {d}.
  const std::vector<NamedTensor> weights{tensor("a", 10), tensor("b", 20), tensor("c", 100), tensor("d", 5)};
  save_weights(folder.path(), weights, 120);
  CHECK(files_in(folder.path()) ==
        std::vector<std::string>{"model-00001-of-00003.safetensors", "model-00002-of-00003.safetensors",
                                 "model-00003-of-00003.safetensors", "model.safetensors.index.json"});
  const Json index = Json::parse(read_text(folder / shard_index_file));
  CHECK(index["metadata"]["total_size"].get<int>() == 540);
  CHECK(index["weight_map"]["b"].get<std::string>() == "model-00001-of-00003.safetensors");
  CHECK(index["weight_map"]["d"].get<std::string>() == "model-00003-of-00003.safetensors");
  for (const auto& path : {folder.path(), folder / shard_index_file}) {
    const WeightsFile file(path);
    REQUIRE(file.tensors().size() == 4);
    CHECK(to_floats(*file.find("c")) == weights[2].values);
  }

  save_weights(folder.path(), weights, 540);  // they fit: the shards go
  CHECK(files_in(folder.path()) == std::vector<std::string>{"model.safetensors"});
  CHECK(WeightsFile(folder.path()).tensors().size() == 4);
}

TEST_CASE("of several weights in a folder those are taken that transformers takes") {
  const tests::TemporaryFolder folder;
  save_weights(folder.path(), std::vector{tensor("a", 10), tensor("b", 20)}, 50);
  CHECK(weights_in(folder.path()) == folder / shard_index_file);
  const fs::path other = folder / "pytorch_model.bin";
  tests::write_file(other, "");
  CHECK(weights_in(folder.path()) == folder / shard_index_file);
  // save_pretrained leaves the index of shards that it replaces by a file.
  const float value = 0;
  const SafetensorsFile::Tensor newer{"c", DType::f32, {1}, std::as_bytes(std::span(&value, 1))};
  write_safetensors(folder / weights_file_name, std::span(&newer, 1), {});
  CHECK(WeightsFile(folder.path()).names() == std::vector<std::string>{"c"});
  fs::remove(folder / weights_file_name);
  fs::remove(folder / shard_index_file);
  tests::write_file(folder / "pytorch_model.bin.index.json", "");
  CHECK(weights_in(folder.path()) == other);
  fs::remove(other);
  CHECK(weights_in(folder.path()) == folder / "pytorch_model.bin.index.json");
}

TEST_CASE("a tensor that has another name here is shown by that of its file") {
  const tests::TemporaryFolder folder;
  save_weights(folder.path(), std::vector{tensor("score", 10), tensor("fc", 20)}, 0);
  WeightsFile file(folder.path());
  for (int time = 0; time < 2; ++time) file.rename([](const std::string& name) { return "model." + name; });
  REQUIRE(file.find("model.model.score") != nullptr);
  CHECK(file.find("model.model.score")->shown_name() == "score");
  CHECK_THAT(message_of<DataError>([&] { needed_words(file, "model.model.fc", DType::f32, {3}); }),
             contains("tensor 'fc' is f32 20"));
}

TEST_CASE("of weights in a folder only those with a name that is ours make room for others") {
  const tests::TemporaryFolder folder;
  std::vector<std::string> others{"model-1-of-2.safetensors", "model-a0001-of-00002.safetensors",
                                  "model-best-of-3.safetensors"};
  for (const std::string& name : others) tests::write_file(folder / name, "");
  tests::write_file(folder / "model-00002-of-00002.safetensors", "");
  save_weights(folder.path(), std::vector{tensor("a", 10)}, 0);
  others.emplace_back("model.safetensors");
  CHECK(files_in(folder.path()) == others);
}

TEST_CASE("an index that its shards do not bear out is refused by name") {
  const tests::TemporaryFolder folder;
  save_weights(folder.path(), std::vector{tensor("a", 10), tensor("b", 20)}, 50);
  const auto refusal = [&](const std::string& weight_map) {
    write_file_atomically(folder / shard_index_file, R"({"metadata": {}, "weight_map": )" + weight_map + "}");
    return message_of<DataError>([&] { WeightsFile file(folder.path()); });
  };
  const std::string first = R"("a": "model-00001-of-00002.safetensors")";
  CHECK(refusal("{" + first + R"(, "b": "model-00002-of-00002.safetensors"})").empty());
  CHECK_THAT(refusal("{" + first + R"(, "b": "model-00001-of-00002.safetensors"})"),
             contains("tensor 'b' is not in model-00001"));
  CHECK_THAT(refusal("{" + first + R"(, "b": "../b.safetensors"})"), contains("no file beside the index"));
  CHECK_THAT(refusal("{" + first + R"(, "b": "model-3.safetensors"})"), contains("model-3.safetensors"));
  CHECK_THAT(refusal("[1]"), contains("is no index of shards"));
}

TEST_CASE("weights are found in a file, a folder of shards, a run and a checkpoint") {
  const tests::TemporaryFolder folder;
  CHECK_THAT(message_of<DataError>([&] { find_saved_weights(folder / "nothing"); }),
             contains("no such file"));
  CHECK_THAT(message_of<DataError>([&] { find_saved_weights(folder.path()); }),
             contains("holds no weights") && contains("pytorch_model.bin.index.json"));
  save_weights(folder.path(), std::vector{tensor("a", 10), tensor("b", 20)}, 50);
  CHECK(find_saved_weights(folder.path()).weights == folder.path());
  CHECK_FALSE(find_saved_weights(folder.path()).config);
  write_file_atomically(folder / "config.ini", "");
  CHECK(find_saved_weights(folder.path()).config == folder / "config.ini");
}

TEST_CASE("weights of a run are found by what is typed in its checkpoints") {
  const tests::TemporaryFolder folder;
  const fs::path checkpoint = folder / "run/checkpoints/step-00000008";
  CheckpointDirectory(folder / "run/checkpoints").add(8, [](const fs::path& made) {
    for (const char* name : checkpoint_files) write_file_atomically(made / name, "{}");
    write_manifest(made);
  });
  write_file_atomically(folder / "run/config.ini", "");
  for (const auto& [where, typed] :
       {std::pair(checkpoint.parent_path(), "."), std::pair(checkpoint, ".."),
        std::pair(folder.path(), "run/checkpoints/."), std::pair(folder.path(), "run/checkpoints")}) {
    INFO(typed);
    const WorkingFolder working(where);
    const SavedWeights found = find_saved_weights(typed);
    CHECK(fs::equivalent(found.weights, checkpoint / "model.safetensors"));
    REQUIRE(found.config);
    CHECK(fs::equivalent(*found.config, folder / "run/config.ini"));
  }
}

TEST_CASE("weights that cannot be looked at are an error of ours, with their path") {
  const tests::TemporaryFolder folder;
  const auto says = [&](const std::string& name) {
    // In a circle nothing tells what is there, to root neither.
    std::filesystem::create_symlink(name, folder / name);
    const std::string said = message_of<DataError>([&] { find_saved_weights(folder.path()); });
    std::filesystem::remove(folder / name);
    return said;
  };
  for (const char* name :
       {"state.json", "config.ini", "summary.json", shard_index_file, "model.safetensors"}) {
    CHECK_THAT(says(name), contains((folder / name).string() + ": cannot be reached: "));
  }
  std::filesystem::create_symlink("model.safetensors", folder / "model.safetensors");
  CHECK_THAT(message_of<DataError>([&] { WeightsFile file(folder.path()); }),
             contains("cannot be reached: "));
  CHECK_THAT(message_of<DataError>([&] { find_saved_weights(folder / "model.safetensors"); }),
             contains("cannot be reached: "));
}

TEST_CASE(
    "of weights that no run made the names of PyTorch's wrappers are dropped; a run's stay as they are") {
  const tests::TemporaryFolder folder;
  const auto names_of = [&](const std::string& a, const std::string& b) {
    save_weights(folder.path(), std::vector{tensor(a, 10), tensor(b, 20)}, 0);
    return open_weights(find_saved_weights(folder.path()), "mlp").names();
  };
  using Names = std::vector<std::string>;
  CHECK(names_of("module.1.bias", "module.1.weight") == Names{"1.bias", "1.weight"});
  CHECK(names_of("_orig_mod.1.bias", "_orig_mod.1.weight") == Names{"1.bias", "1.weight"});
  CHECK(names_of("_orig_mod.module.a.b", "module.a._orig_mod.c") == Names{"a.b", "a.c"});
  CHECK(names_of("module.a", "other.b") == Names{"module.a", "other.b"});
  CHECK(names_of("n_averaged", "module.a.b") == Names{"a.b"});
  write_file_atomically(folder / "config.ini", "");
  CHECK(names_of("module.a", "module.b") == Names{"module.a", "module.b"});
}

}  // namespace
}  // namespace lockstep::runtime
