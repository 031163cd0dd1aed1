// trainer predict --prompt: text behind prompts, the same on any number of ranks and threads.
#include "kernels/base/safetensors.h"
#include "tests/support/json_lines.h"
#include "tests/support/refusal.h"

namespace lockstep::tests {
namespace {

/// Enough for the letters, and for a model that has learned a little.
std::filesystem::path text_in(const TemporaryFolder& folder) {
  std::string text;
  for (int i = 0; i < 400; ++i) text += "the cat sat on the mat, and the dog ran after it.\n";
  write_file(folder / "text.txt", text);
  return folder / "text.txt";
}

const Words small_gpt2{"--model=gpt2", "--model-args=n_layer=2,n_head=2,n_embd=32,block_size=24,dropout=0"};

/// A run of a small gpt2 on that text.
std::filesystem::path trained(const TemporaryFolder& folder) {
  train(1,
        small_gpt2 + Words{"--dataset=text", "--data-dir=" + text_in(folder).string(), "--max-steps=60",
                           "--batch-size=8", "--lr=3e-3", "--seed=5", "--eval-every=0"},
        folder / "run");
  return folder / "run";
}

TEST_CASE("predict writes on from prompts, the same on any number of ranks and threads") {
  const TemporaryFolder folder;
  const std::string run = trained(folder).string();
  write_file(folder / "prompts.txt", "dog ran\n\non the\r\n");
  const Words asked{"predict",
                    run,
                    "--prompt=the cat ",
                    "--prompt",
                    "m",
                    "--prompt-file",
                    (folder / "prompts.txt").string(),
                    "--max-new-tokens=70",
                    "--top-k=8"};
  const auto one = lines_of(output_of(1, asked + Words{"--threads=1"}));
  REQUIRE(one.size() == 4);
  const std::vector<std::string> prompts{"the cat ", "m", "dog ran", "on the"};
  for (std::size_t i = 0; i < one.size(); ++i) {
    CHECK(one[i]["prompt"] == prompts[i]);
    CHECK(one[i]["text"].get<std::string>().size() == 70);
    CHECK(one[i]["tokens"] == 70);
    CHECK(one[i]["stop_reason"] == "length");
  }
  CHECK(lines_of(output_of(1, asked + Words{"--threads=2"})) == one);
  CHECK(lines_of(output_of(1, asked + Words{"--batch-size=3"})) == one);
  CHECK(lines_of(output_of(2, asked + Words{"--threads=1"})) == one);
  CHECK(lines_of(output_of(3, asked + Words{"--threads=1", "--batch-size=1"})) == one);
  CHECK(lines_of(output_of(1, asked + Words{"--seed=6"})) != one);
  // A file of weights has the vocabulary with it; the model's own is told.
  Words of_file = Words{"predict", run + "/model.safetensors", "--seed=5"} + small_gpt2;
  of_file.insert(of_file.end(), asked.begin() + 2, asked.end());
  CHECK(lines_of(output_of(1, of_file)) == one);
}

TEST_CASE("prompts come from standard input, which one rank has, to all ranks") {
  const TemporaryFolder folder;
  const Words asked{"predict", trained(folder).string(), "--max-new-tokens=20"};
  const auto told = lines_of(output_of(1, asked + Words{"--prompt=the cat", "--prompt=m", "--prompt=on"}));
  // Others wait for the rank that reads as long as it takes, not --timeout.
  const Words piped{"/bin/sh", "-c", "(sleep 3; printf 'm\\n\\non\\r\\n') | exec \"$0\" \"$@\""};
  for (const int ranks : {1, 2}) {
    Program program(
        piped + trainer_words(ranks, asked + Words{"--prompt=the cat", "--prompt-file=-", "--timeout=1"}));
    CHECK(program.wait_for_end() == 0);
    INFO(program.output());
    CHECK(lines_of(program.output()) == told);
  }
}

TEST_CASE("predict at temperature 0 gives one text, and ends before --stop") {
  const TemporaryFolder folder;
  const std::string run = trained(folder).string();
  const Words asked{"predict", run, "--prompt=the ", "--temperature=0", "--max-new-tokens=40"};
  const auto greedy = lines_of(output_of(1, asked)).at(0);
  CHECK(lines_of(output_of(1, asked + Words{"--seed=9"})).at(0) == greedy);
  CHECK(lines_of(output_of(1, asked + Words{"--temperature=1", "--top-k=1"})).at(0) == greedy);
  const std::string text = greedy["text"].get<std::string>();
  const std::string stop = text.substr(9, 2);
  const auto stopped = lines_of(output_of(1, asked + Words{"--stop=" + stop})).at(0);
  CHECK(stopped["text"] == text.substr(0, text.find(stop)));
  CHECK(stopped["stop_reason"] == "stop");
  // 16 GB, if there were room for all tokens before they come. A sanitizer's own addresses are beyond any
  // limit.
  const std::string kilobytes = slowness > 1 ? "unlimited" : "8000000";
  Program limited(Words{"/bin/sh", "-c", "ulimit -v " + kilobytes + "; exec \"$0\" \"$@\""} +
                  trainer_words(1, asked + Words{"--stop=" + stop, "--max-new-tokens=1000000000"}));
  CHECK(limited.wait_for_end() == 0);
  INFO(limited.output());
  CHECK(lines_of(limited.output()).at(0) == stopped);
}

TEST_CASE("predict ends a text where the model ends it, unless it is to go on") {
  const TemporaryFolder folder;
  std::string text;
  for (int i = 0; i < 400; ++i) text += "Lord King<|endoftext|>";
  write_file(folder / "text.txt", text);
  train(1,
        small_gpt2 + Words{"--dataset=text", "--data-dir=" + (folder / "text.txt").string(),
                           "--tokenizer=" TOKENIZER, "--max-steps=200", "--batch-size=8", "--lr=5e-3",
                           "--seed=5", "--eval-every=0"},
        folder / "run");
  const auto written = [&](const Words& more) {
    return lines_of(output_of(1, Words{"predict", (folder / "run").string(), "--prompt=Lord",
                                       "--temperature=0", "--max-new-tokens=5"} +
                                     more))
        .at(0);
  };
  const auto ended = written({});
  CHECK(ended["text"] == " King");
  CHECK(ended["tokens"] == 1);
  CHECK_THAT(contents(folder / "run/config.json"), contains("\"eos_token_id\": 0\n"));
  CHECK(ended["stop_reason"] == "end");
  CHECK(written({"--stop=Lord"}) == ended);
  CHECK(written({"--stop=ing"})["stop_reason"] == "stop");
  const auto further = written({"--stop", ""});
  CHECK(further["text"] == " King<|endoftext|>Lord King<|endoftext|>");
  CHECK(further["tokens"] == 5);
  CHECK(further["stop_reason"] == "length");
}

TEST_CASE("weights go on with another text in the numbers of their own characters") {
  const TemporaryFolder folder;
  const auto run = trained(folder);
  const auto text = folder / "other.txt";
  const auto lines = [&](const std::string& line) {
    std::string all;
    for (int i = 0; i < 100; ++i) all += line;
    write_file(text, all);
  };
  lines("the hat ran\n");
  // The rate is so low that the weights stay what they are but for their last bits.
  const Words further = small_gpt2 + Words{"--dataset=text",
                                           "--data-dir=" + text.string(),
                                           "--init-from=" + run.string(),
                                           "--max-steps=1",
                                           "--lr=1e-12",
                                           "--eval-every=0"};
  train(2, further, folder / "further");
  const auto writes = [&](const Words& weights) {
    return lines_of(output_of(
        1, Words{"predict"} + weights + Words{"--prompt=the ", "--temperature=0", "--max-new-tokens=40"}));
  };
  const auto written = writes({run.string()});
  CHECK(writes({(folder / "further").string()}) == written);
  // Characters that are kept with the weights come before another's tokenizer beside them.
  write_file(folder / "further/tokenizer.json", "{}");
  CHECK(writes({(folder / "further").string()}) == written);
  const SafetensorsFile file(folder / "further/model.safetensors");
  auto metadata = file.metadata();
  CHECK(metadata == SafetensorsFile(run / "model.safetensors").metadata());
  // What the classes are called says nothing of tokens.
  metadata["class_names"] = R"(["cats","dogs"])";
  write_safetensors(folder / "named.safetensors", file.tensors(), metadata);
  CHECK(writes(Words{(folder / "named.safetensors").string()} + small_gpt2) == written);

  lines("the zoo\n");
  const Refusal refused = refusal(further);
  INFO(refused.said);
  CHECK(refused.code == 3);
  CHECK_THAT(refused.said, contains(text.string() + ": offset 4: U+007A is no character of the 18 that the "
                                                    "vocabulary has; these are the characters that "));
}

TEST_CASE("text for weights beside their tokenizer is cut by it, in training and in eval as in predict") {
  const TemporaryFolder folder;
  std::string text;
  for (int i = 0; i < 400; ++i) text += "Lord King<|endoftext|>";
  write_file(folder / "text.txt", text);
  const Words data{"--dataset=text", "--data-dir=" + (folder / "text.txt").string()};
  train(1,
        small_gpt2 + data +
            Words{"--tokenizer=" TOKENIZER, "--max-steps=60", "--batch-size=8", "--lr=5e-3", "--seed=5",
                  "--eval-every=0"},
        folder / "run");
  const auto hugging_face = folder / "hf";
  std::filesystem::create_directory(hugging_face);
  for (const char* file : {"config.json", "model.safetensors"})
    std::filesystem::copy_file(folder / "run" / file, hugging_face / file);
  std::filesystem::copy_file(TOKENIZER, hugging_face / "tokenizer.json");
  const auto scores = [&](const Words& more) {
    return lines_of(output_of(1, Words{"eval", hugging_face.string()} + data + more)).at(0);
  };
  CHECK(scores({}) == scores({"--tokenizer=" TOKENIZER}));
  CHECK(scores({})["samples"] != scores({"--tokenizer=characters"})["samples"]);

  // The rate is so low that the weights stay what they are but for their last bits.
  train(1,
        data + Words{"--init-from=" + hugging_face.string(), "--max-steps=1", "--lr=1e-12", "--eval-every=0"},
        folder / "further");
  CHECK_THAT(contents(folder / "further/config.ini"), contains("\ntokenizer = " + hugging_face.string()));
  const auto written = [&](const std::filesystem::path& weights) {
    return lines_of(output_of(
        1, {"predict", weights.string(), "--prompt=Lord", "--temperature=0", "--max-new-tokens=5"}));
  };
  CHECK(written(folder / "further") == written(hugging_face));
  write_file(hugging_face / "tokenizer.json", R"(["L","o","r","d"])");
  const Refusal refused = refusal({"predict", (folder / "further").string(), "--prompt=Lord"});
  CHECK(refused.code == 3);
  CHECK_THAT(refused.said, contains(hugging_face.string() + ": differs in tokens from the tokenizer that "));
}

TEST_CASE("predict translates what it has learned, the same on any number of ranks") {
  const TemporaryFolder folder;
  // Words of five letters, whose translation is their letters' successors.
  std::string sources;
  std::string targets;
  for (int i = 0; i < 600; ++i) {
    for (int at = 0, word = i * 7919; at < 5; ++at, word /= 6) {
      sources += static_cast<char>('a' + word % 6);
      targets += static_cast<char>('b' + word % 6);
    }
    sources += '\n';
    targets += '\n';
  }
  write_file(folder / "words.src", sources);
  write_file(folder / "words.tgt", targets);
  const auto run = folder / "run";
  train(2,
        {"--model=transformer", "--model-args=d_model=32,nhead=4,layers=1,block_size=12",
         "--dataset=parallel-text", "--data-dir=" + (folder / "words.src").string(), "--seq-len=8",
         "--max-steps=300", "--batch-size=16", "--lr=3e-3", "--seed=5", "--eval-every=0", "--threads=1"},
        run, Seconds(60));
  const Words asked{"predict",      run.string(),       "--prompt=abcde",
                    "--prompt=ffa", "--prompt=cabbafe", "--temperature=0"};
  const auto one = lines_of(output_of(1, asked));
  REQUIRE(one.size() == 3);
  CHECK(one[0]["text"] == "bcdef");
  CHECK(one[0]["tokens"] == 5);
  CHECK(one[0]["stop_reason"] == "end");
  CHECK(lines_of(output_of(2, asked)) == one);
  CHECK(lines_of(output_of(1, asked + Words{"--batch-size=1"})) == one);
  const auto searched = lines_of(output_of(1, asked + Words{"--beam=4"}));
  CHECK(searched.at(0) == one[0]);
  CHECK(lines_of(output_of(2, asked + Words{"--beam=4", "--threads=1"})) == searched);

  const auto expect = [&](const Words& options, const std::string& said) {
    const Refusal refused = refusal(Words{"predict", run.string()} + options);
    INFO(refused.said);
    CHECK(refused.code == 2);
    CHECK_THAT(refused.said, contains(said));
  };
  for (const std::string option : {"--top-k=3", "--top-p=0.9", "--temperature=0.7"}) {
    expect({"--prompt=abcde", "--beam=4", option},
           option.substr(0, option.find('=')) + " with --beam: the likeliest is searched");
  }
  expect({"--prompt=abcdefabc"},
         "has 9 tokens, the model looks at 8 at most (--seq-len, that of its training");
}

TEST_CASE("what no text can be written for is said in one line, with 2") {
  const TemporaryFolder folder;
  const std::string run = trained(folder).string();
  const auto expect = [&](const Words& options, const std::string& said) {
    const Refusal refused = refusal(Words{"predict", run} + options);
    INFO(refused.said);
    CHECK(refused.code == 2);
    CHECK_THAT(refused.said, contains(said));
  };
  expect({"--prompt=thé"}, "U+00E9");
  expect({"--prompt="}, "nothing to write on from");
  expect({"--prompt=" + std::string(25, 't')}, "has 25 tokens, the model looks at 24");
  expect({"--prompt=t", "--temperature=-1"}, "--temperature: -1 is not in the range 0 to 1000");
  expect({"--prompt=t", "--top-p=1.5"}, "--top-p: 1.5 is not in the range 0 to 1");
  expect({"--prompt=t", "--top-k=-1"}, "--top-k: -1 is not in the range");
  expect({"--prompt=t", "--max-new-tokens=0"}, "--max-new-tokens: 0 is not in the range");
  expect({"--prompt=t", "--model=mlp", "--model-args="}, "model mlp gives no next token");
  expect({"--prompt=t", "--seq-len=48"}, "sequences of 48 tokens are longer than block_size=24");
  expect({"--prompt=t", "--beam=0"}, "--beam: 0 is not in the range");
  expect({"--prompt=t", "--beam=2"}, "--beam is for translations");
  expect({"--prompt=t", "--prompt=a\xff"}, "prompt 'a...': offset 1: byte 0xff is no UTF-8");
  expect({"--prompt=t", "--stop=\xff"}, "--stop: is no UTF-8");
  expect({"--prompt-file="}, "--prompt-file: '' is no file");
  expect({"none.png", "--prompt=t"}, "'none.png' beside --prompt or --prompt-file: leave one out");
  expect({"--prompt=t", "--output=x.safetensors"}, "--output beside --prompt or --prompt-file");
  expect({"--temperature=0"},
         "--temperature is not read by trainer predict, only by trainer predict --prompt");
  write_file(folder / "empty.txt", "\n\n");
  expect({"--prompt-file=" + (folder / "empty.txt").string()}, "has no line with a prompt");
  expect({"--prompt-file=" + (folder / "none.txt").string()}, "none.txt: cannot open: No such file");
}

}  // namespace
}  // namespace lockstep::tests
