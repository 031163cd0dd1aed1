#include <numeric>

#include "kernels/base/error.h"
#include "kernels/base/safetensors.h"
#include "runtime/run/inference.h"
#include "runtime/run/task.h"
#include "runtime/run/task_names.h"
#include "runtime/weights/weights_file.h"
#include "runtime/weights/write_weights.h"
#include "tests/support/catch.h"
#include "tests/support/files.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"

namespace lockstep::runtime {
namespace {

using Words = std::vector<std::string>;

TrainingTask task_of(const Words& words) {
  return make_task_without_data(parse_options(words));
}

std::string refusal(const Words& words) {
  return tests::message_of<UsageError>([&] { task_of(words); });
}

/// Weights of so many classes that keep these names.
WeightsFile head_of(const std::filesystem::path& file, std::int64_t classes, const KeptNames& names) {
  const std::vector<float> values(static_cast<std::size_t>(classes));
  const SafetensorsFile::Tensor head{"fc.bias", DType::f32, {classes}, std::as_bytes(std::span(values))};
  write_safetensors(file, std::span(&head, 1), weights_metadata(names));
  return WeightsFile(file);
}

TEST_CASE("the classes are the model's own, what was asked for, or the data set's") {
  const auto classes = [](const Words& words) { return task_of(words).input.num_classes; };
  CHECK(classes({"--model=resnet18", "--dataset=synthetic"}) == 1000);
  CHECK(classes({"--model=mlp", "--dataset=synthetic"}) == 10);
  CHECK(classes({"--model=mlp", "--dataset=synthetic", "--model-args", "num_classes=7"}) == 7);
  CHECK(classes({"--model=mlp", "--dataset=synthetic", "--num-classes=7"}) == 7);
  CHECK(classes({"--model=resnet18", "--dataset=fashion-mnist"}) == 10);
  CHECK(classes({"--model=resnet18", "--dataset=fashion-mnist", "--model-args", "num_classes=10"}) == 10);
}

TEST_CASE("class counts that contradict each other are refused") {
  CHECK(refusal({"--model=mlp", "--dataset=synthetic", "--num-classes=5", "--model-args", "num_classes=7"}) ==
        "--num-classes 5 and --model-args num_classes=7 contradict each other");
  CHECK(refusal({"--model=mlp", "--dataset=fashion-mnist", "--model-args", "num_classes=7"}) ==
        "--model-args num_classes=7: data set fashion-mnist has 10 classes; leave it out");
  CHECK(refusal({"--model=mlp", "--dataset=fashion-mnist", "--num-classes=7"}) ==
        "--num-classes 7: data set fashion-mnist has 10 classes; leave it out");
}

TEST_CASE("options that the data set does not read are refused where it is known") {
  CHECK(refusal({"--model=mlp", "--dataset=fashion-mnist", "--samples=100"}) ==
        "--samples is not read by --dataset fashion-mnist: leave it out, or give --dataset synthetic");
}

TEST_CASE("--label-smoothing is refused for a loss of values, unless a run's config.ini has it") {
  const Words words{"--model=linear", "--dataset=synthetic", "--label-smoothing=0.1"};
  CHECK(refusal(words) ==
        "--label-smoothing is of the cross-entropy, but model 'linear' learns values: leave it out");
  const tests::TemporaryFolder folder;
  const auto config = folder / "config.ini";
  tests::write_file(config, to_ini(parse_options(words)));
  CHECK(refusal({"--config", config.string()}).empty());
  const Words classes{"--config", config.string(), "--model=mlp"};
  CHECK(task_of(classes).model.label_smoothing == 0.1F);
}

TEST_CASE("labels of a file of tensors are below the model's classes, however few there are") {
  const tests::TemporaryFolder folder;
  const std::vector<float> inputs(4);
  std::vector<std::int64_t> targets(4);
  std::iota(targets.begin(), targets.end(), 3);
  const std::vector<SafetensorsFile::Tensor> tensors{
      {"inputs", DType::f32, {4, 1}, std::as_bytes(std::span(inputs))},
      {"targets", DType::i64, {4}, std::as_bytes(std::span(targets))}};
  const std::string file = (folder / "samples").string();
  write_safetensors(file, tensors);
  const Words words{"--model=mlp", "--dataset=tensors", "--data-dir=" + file};
  CHECK(task_of(words).input.num_classes == 10);
  const auto with_classes = [&](const std::string& count) {
    Words all = words;
    all.insert(all.end(), {"--model-args", "num_classes=" + count});
    return all;
  };
  CHECK(task_of(with_classes("7")).input.num_classes == 7);
  CHECK(tests::message_of<DataError>([&] { task_of(with_classes("6")); }) ==
        file +
            ": targets[3] is 6, no class below num_classes 6; --model-args num_classes=N says how many "
            "there are");
}

TEST_CASE("text has the numbers of the characters that the weights of --init-from know") {
  const tests::TemporaryFolder folder;
  const std::filesystem::path text = folder / "a.txt";
  tests::write_file(text, "cabcabcabcabcabcabca");
  const float value = 0;
  const SafetensorsFile::Tensor tensor{"a", DType::f32, {1}, std::as_bytes(std::span(&value, 1))};
  write_safetensors(folder / "w.safetensors", std::span(&tensor, 1),
                    weights_metadata({.tokens = {"\n", "a", "b", "c", "d"}}));
  const auto words = [&](const char* weights) {
    return Words{"--model=gpt2",
                 "--model-args=n_layer=1,n_head=1,n_embd=8,block_size=4",
                 "--dataset=text",
                 "--windows=each",
                 "--data-dir=" + text.string(),
                 "--init-from=" + (folder / weights).string()};
  };
  CHECK(task_of(words("w.safetensors")).input.vocab_size == 5);
  const TrainingTask task = make_task(parse_options(words("w.safetensors")));
  CHECK(task.input.vocab_size == 5);
  CHECK(task.token_names == std::vector<std::string>{"\n", "a", "b", "c", "d"});
  std::vector<std::int64_t> input(4);
  std::vector<std::int64_t> target(4);
  task.train_set->get(0, 0, std::as_writable_bytes(std::span(input)),
                      std::as_writable_bytes(std::span(target)));
  CHECK(input == std::vector<std::int64_t>{3, 1, 2, 3});
  // A run that resumes does not look at the weights that it began with, which may be gone.
  CHECK(make_task(parse_options(words("gone.safetensors"))).input.vocab_size == 3);
  tests::write_file(text, "cabcabcabcabcabcabcx");
  const std::string said = text.string() +
                           ": offset 19: U+0078 is no character of the 5 that the vocabulary has; these are "
                           "the characters that " +
                           (folder / "w.safetensors").string() + " knows: leave others out of the text";
  CHECK(tests::message_of<DataError>([&] { make_task(parse_options(words("w.safetensors"))); }) ==
        said + ", or train without --init-from");
  CHECK(tests::message_of<DataError>([&] {
          open_test_set(parse_options(words("w.safetensors")), WeightsFile(folder / "w.safetensors"),
                        nullptr);
        }) == said);
}

TEST_CASE("text is not read by numbers of its own for weights that keep no vocabulary") {
  const tests::TemporaryFolder folder;
  const std::string text = (folder / "a.txt").string();
  tests::write_file(text, "cabcabcabcabcabcabca");
  const WeightsFile weights = head_of(folder / "w.safetensors", 1, {});
  const std::string said =
      weights.path().string() +
      ": no vocabulary is kept with these weights; give --tokenizer PATH, that of their training, or "
      "--tokenizer characters if they know the text's own characters, numbered from 0";
  const Words words{"--model=gpt2", "--model-args=n_layer=1,n_head=1,n_embd=8,block_size=4", "--dataset=text",
                    "--data-dir=" + text};
  Words first = words;
  first.push_back("--init-from=" + weights.path().string());
  CHECK(refusal(first) == said);
  CHECK(tests::message_of<UsageError>([&] { make_task(parse_options(first)); }) == said);
  CHECK(tests::message_of<UsageError>([&] { open_test_set(parse_options(words), weights, nullptr); }) ==
        said);
  for (Words by_characters : {words, first}) {
    by_characters.push_back("--tokenizer=characters");
    const Options options = parse_options(by_characters);
    CHECK(make_task(options).input.vocab_size == 3);
    CHECK(open_test_set(options, weights, nullptr).samples->spec().vocab_size == 3);
  }
}

TEST_CASE("text is cut by the tokenizer that came with the weights, unless another is typed") {
  const tests::TemporaryFolder folder;
  const std::filesystem::path hugging_face = folder / "hf";
  const std::filesystem::path run = folder / "run";
  for (const auto& path : {hugging_face, run}) {
    std::filesystem::create_directory(path);
    head_of(path / "model.safetensors", 1, {});
  }
  tests::write_file(hugging_face / "tokenizer.json", R"(["x","a","b","c","d"])");
  tests::write_file(run / "config.ini", "tokenizer = " + hugging_face.string() + "\n");
  tests::write_file(folder / "a.txt", "cabcabcabcabcabcabca");
  const auto words_from = [&](const std::filesystem::path& weights, const Words& more = {}) {
    Words words{"--model=gpt2", "--model-args=n_layer=1,n_head=1,n_embd=8,block_size=4", "--dataset=text",
                "--data-dir=" + (folder / "a.txt").string(), "--init-from=" + weights.string()};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  };
  for (const auto& weights : {hugging_face, hugging_face / "model.safetensors", run}) {
    CHECK(task_of(words_from(weights)).input.vocab_size == 5);
    const TrainingTask task = make_task(parse_options(words_from(weights)));
    CHECK(task.input.vocab_size == 5);
    CHECK(task.tokenizer == hugging_face);
    CHECK(task.token_names.empty());
  }
  const TrainingTask by_characters =
      make_task(parse_options(words_from(hugging_face, {"--tokenizer=characters"})));
  CHECK(by_characters.input.vocab_size == 3);
  CHECK(by_characters.tokenizer == "characters");
  const Options options = parse_options(Words{"--model=gpt2", "--model-args=block_size=4", "--dataset=text",
                                              "--data-dir=" + (folder / "a.txt").string()});
  CHECK(open_test_set(options, WeightsFile(hugging_face), nullptr).samples->spec().vocab_size == 5);

  std::filesystem::remove_all(hugging_face);
  CHECK(tests::message_of<DataError>([&] { task_of(words_from(run)); }) ==
        (run / "config.ini").string() + ": " + hugging_face.string() +
            ", the tokenizer of these weights, is gone; give --tokenizer PATH");
}

TEST_CASE("a tokenizer of other tokens than those that the weights were trained on is refused") {
  const tests::TemporaryFolder folder;
  const std::string tokenizer = (folder / "tokenizer.json").string();
  tests::write_file(tokenizer, R"(["x","a","b","c"])");
  tests::write_file(folder / "a.txt", "cabcabcabcabcabcabca");
  const Words words{"--model=gpt2", "--model-args=n_layer=1,n_head=1,n_embd=8,block_size=4", "--dataset=text",
                    "--data-dir=" + (folder / "a.txt").string()};
  Words typed = words;
  typed.push_back("--tokenizer=" + tokenizer);
  const TrainingTask task = make_task(parse_options(typed));
  const std::string known = task.tokenizer_fingerprint;
  CHECK(known.size() == 16);
  CHECK(kept_names(task).tokenizer == known);
  const WeightsFile weights = head_of(folder / "w.safetensors", 1, kept_names(task));
  const auto scored = [&](const Words& asked) { open_test_set(parse_options(asked), weights, nullptr); };
  for (Words asked : {words, typed}) {
    CHECK_NOTHROW(scored(asked));
    asked.push_back("--init-from=" + weights.path().string());
    CHECK_NOTHROW(make_task(parse_options(asked)));
  }

  tests::write_file(tokenizer, R"(["x","b","a","c"])");
  CHECK(make_task(parse_options(typed)).tokenizer_fingerprint != known);
  const auto said = [&](const std::string& place) {
    return place + ": its tokens are not those that " + weights.path().string() +
           " was trained on; give the tokenizer of that training by --tokenizer PATH";
  };
  CHECK(tests::message_of<DataError>([&] { scored(words); }) == said(folder.path().string()));
  CHECK(tests::message_of<DataError>([&] { scored(typed); }) == said(tokenizer));
  Words first = words;
  first.push_back("--init-from=" + weights.path().string());
  CHECK(tests::message_of<DataError>([&] { make_task(parse_options(first)); }) ==
        said(folder.path().string()));
  // Who types one to train with means it.
  first.push_back("--tokenizer=" + tokenizer);
  CHECK_NOTHROW(make_task(parse_options(first)));
  // Weights from before tell nothing.
  head_of(folder / "w.safetensors", 1, {});
  CHECK_NOTHROW(open_test_set(parse_options(words), WeightsFile(folder / "w.safetensors"), nullptr));
}

TEST_CASE("classes have the names that the weights know, else those of the data set") {
  const tests::TemporaryFolder folder;
  tests::write_file(folder / "a.tsv", "pos\tab\nneg\tb\n");
  const Options options =
      parse_options(Words{"--model=rnn", "--dataset=labelled-text",
                          "--data-dir=" + (folder / "a.tsv").string(), "--tokenizer=characters"});
  const std::vector<std::string> known{"pos", "neg", "odd"};
  const auto names_by = [&](const KeptNames& names) {
    return open_test_set(options, head_of(folder / "w.safetensors", 3, names), nullptr).class_names;
  };
  CHECK(names_by({}) == std::vector<std::string>{"neg", "pos"});
  CHECK(names_by({.classes = known}) == known);
}

TEST_CASE("that classes are numbered by a guess is told where the weights know more and do not name them") {
  const tests::TemporaryFolder folder;
  const std::string text = (folder / "a.tsv").string();
  tests::write_file(text, "pos\tab\nneg\tb\n");
  const Options options = parse_options(
      Words{"--model=rnn", "--dataset=labelled-text", "--data-dir=" + text, "--tokenizer=characters"});
  const auto note = [&](std::int64_t classes, const KeptNames& names) {
    const WeightsFile weights = head_of(folder / "w.safetensors", classes, names);
    const data::DatasetPtr samples = open_test_set(options, weights, nullptr).samples;
    const TrainingTask task = task_for_weights(options, weights, samples->spec(), samples);
    CHECK(task.input.num_classes == classes);
    return task.note;
  };
  CHECK(
      note(3, {}) ==
      "labelled-text (" + text + "): its 2 classes are numbered from 0 in the order of their names, but " +
          (folder / "w.safetensors").string() +
          " knows 3 and not their names: scores are right only if the classes that are missing here are the "
          "last; give samples of each class, or weights with class_names in their metadata");
  CHECK(note(3, {.classes = {"pos", "neg", "odd"}}).empty());
  CHECK(note(2, {}).empty());
}

}  // namespace
}  // namespace lockstep::runtime
