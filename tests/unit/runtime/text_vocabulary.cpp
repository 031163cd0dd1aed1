// By which numbers the tokens of text are read for weights that know them by some.
#include <algorithm>

#include "data/text/utf8.h"
#include "data/text/vocabulary.h"
#include "kernels/base/error.h"
#include "kernels/base/safetensors.h"
#include "runtime/checkpoint/hugging_face.h"
#include "runtime/run/inference.h"
#include "runtime/run/task_names.h"
#include "runtime/weights/weights_file.h"
#include "runtime/weights/write_weights.h"
#include "tests/support/catch.h"
#include "tests/support/files.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"
#include "tests/unit/runtime/task_of_words.h"

namespace lockstep::runtime {
namespace {

using testing::head_of;
using testing::refusal;
using testing::task_of;
using testing::Words;

/// As tokenizer.json has it, in quotes: GPT-2's bytes_to_unicode.
std::string vocabulary_of_bytes() {
  std::string vocabulary;
  char32_t next = 0x100;
  for (char32_t byte = 0; byte < 256; ++byte) {
    const bool is_printable = (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
    vocabulary += byte == '"' || byte == '\\' ? "\"\\" : "\"";
    data::append_utf8(vocabulary, is_printable ? byte : next++);
    vocabulary += "\":" + std::to_string(byte) + ",";
  }
  return vocabulary;
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
    return place + ": differs in tokens from the tokenizer that " + weights.path().string() +
           " was trained with; give that one by --tokenizer PATH";
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

TEST_CASE(
    "a tokenizer of the same tokens that cuts text by other rules is refused, with the names of these") {
  const tests::TemporaryFolder folder;
  const auto bpe = [](const std::string& expression, const std::string& merges, const std::string& added) {
    return R"({"pre_tokenizer":)" + expression + R"(,"added_tokens":[)" + added +
           R"(],"model":{"type":"BPE","vocab":{)" + vocabulary_of_bytes() +
           R"("ab":256,"bc":257,"<s>":258},"merges":[)" + merges + "]}}";
  };
  const std::string gpt2 = R"({"type":"ByteLevel","add_prefix_space":false})";
  const std::string merges = R"("a b","b c")";
  const std::string path = (folder / "tokenizer.json").string();
  tests::write_file(path, bpe(gpt2, merges, ""));
  tests::write_file(folder / "a.txt", "cabcabcabcabcabcabca");
  const Options options = parse_options(
      Words{"--model=gpt2", "--model-args=n_layer=1,n_head=1,n_embd=8,block_size=4", "--dataset=text",
            "--data-dir=" + (folder / "a.txt").string(), "--tokenizer=" + path});
  const KeptNames kept = kept_names(make_task(options));
  const std::filesystem::path file = folder / "w.safetensors";
  const auto refusal = [&](const std::string& tokenizer, const KeptNames& names) {
    tests::write_file(path, tokenizer);
    const WeightsFile weights = head_of(file, 1, names);
    return tests::message_of<DataError>([&] { open_test_set(options, weights, nullptr); });
  };
  const auto said = [&](const std::string& rules) {
    return path + ": differs in " + rules + " from the tokenizer that " + file.string() +
           " was trained with; give that one by --tokenizer PATH";
  };
  const std::string reversed = bpe(gpt2, R"("b c","a b")", "");
  CHECK(refusal(bpe(gpt2, merges, ""), kept).empty());
  CHECK(refusal(reversed, kept) == said("merges"));
  CHECK(refusal(bpe(gpt2, merges, R"({"id":258,"content":"<s>"})"), kept) == said("added tokens"));
  KeptNames of_llama3 = kept;
  of_llama3.tokenizer_rules["word_pattern"] = "llama3";
  CHECK(refusal(reversed, of_llama3) == said("merges, word pattern"));
  // Weights from before rules were kept tell of the tokens alone; those of a later version may tell more.
  CHECK(refusal(reversed, {.tokenizer = kept.tokenizer}).empty());
  of_llama3.tokenizer_rules = {{"of_later", "1"}};
  CHECK(refusal(reversed, of_llama3).empty());
}

TEST_CASE("what a file beside weights says of the vocabulary is told as that file's word") {
  const tests::TemporaryFolder folder;
  std::filesystem::create_directory(folder / "hf");
  tests::write_file(folder / "hf/config.json", R"({"model_type": "gpt2", "vocab_size": 3})");
  tests::write_file(folder / "a.txt", "abcdabcdabcdabcdabcd");
  const auto options_with = [&](Words words) {
    for (const std::string& word :
         Words{"--dataset=text", "--data-dir=" + (folder / "a.txt").string(), "--tokenizer=characters",
               "--model-args=n_layer=1,n_head=1,n_embd=8,block_size=4"})
      words.push_back(word);
    Options options = parse_options(words);
    take_pretrained_config(options, folder / "hf", ModelUse::training);
    return options;
  };
  const auto said = [&](const Words& words) {
    return tests::message_of<UsageError>([&] { make_task(options_with(words)); });
  };
  const std::string file = (folder / "hf/config.json").string();
  CHECK(said({}) ==
        file + " says vocab_size 3, the text data have 4 tokens; " + data::more_tokens_than_weights);
  CHECK(said({"--vocab-size=9"}) ==
        "--vocab-size 9: " + file + " says 3, as many as its weights have; leave it out");
  const std::vector<float> rows(16);
  const SafetensorsFile::Tensor table{
      "transformer.wte.weight", DType::f32, {2, 8}, std::as_bytes(std::span(rows))};
  write_safetensors(folder / "w.safetensors", std::span(&table, 1), {});
  const WeightsFile weights(folder / "w.safetensors");
  const data::SampleSpec spec{
      .input_dtype = DType::i64, .input_shape = {4}, .target_shape = {4}, .num_classes = 3, .vocab_size = 3};
  CHECK(tests::message_of<DataError>([&] { task_for_weights(options_with({}), weights, spec, nullptr); }) ==
        weights.path().string() + ": it knows 2 tokens, but vocab_size is, by " + file + ", 3");
}

}  // namespace
}  // namespace lockstep::runtime
