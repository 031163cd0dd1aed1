// What ranks are told and what they find must be the same: each of two ranks, started by hand as on nodes of
// their own, says what differs and ends with 2.
#include <array>

#include <fmt/format.h>

#include "tests/support/training.h"
#include "tests/support/unused_port.h"
#include "tests/unit/data/picture_folder.h"

namespace lockstep::tests {
namespace {

namespace fs = std::filesystem;

struct Ended {
  int code = -1;
  std::string said;
};

/// Nobody supervises them: only they can tell each other.
Words by_hand(int rank, int port, const Words& words) {
  return Words{"/usr/bin/env",
               fmt::format("RANK={}", rank),
               fmt::format("LOCAL_RANK={}", rank),
               "WORLD_SIZE=2",
               "LOCAL_WORLD_SIZE=2",
               "MASTER_ADDR=127.0.0.1",
               fmt::format("MASTER_PORT={}", port),
               fmt::format("TORCHELASTIC_RUN_ID=rank-agreement-{}", port),
               TRAINER_PROGRAM} +
         words;
}

/// `command` on both ranks, with more words for each.
std::array<Ended, 2> ends_of(const Words& command, const Words& more_of_0, const Words& more_of_1) {
  const int port = unused_port();
  Program first(by_hand(0, port, command + more_of_0));
  Program second(by_hand(1, port, command + more_of_1));
  const int code = first.wait_for_end();
  return {Ended{code, first.output()}, Ended{second.wait_for_end(), second.output()}};
}

void check_both(const std::array<Ended, 2>& ends, int code, const std::string& said) {
  for (const Ended& end : ends) {
    INFO(end.said);
    CHECK(end.code == code);
    CHECK_THAT(end.said, contains(said));
  }
}

/// Lines of a label, a tab and a text.
std::string texts(int lines, const std::string& even, const std::string& odd) {
  std::string text;
  for (int i = 0; i < lines; ++i) {
    text += (i % 2 == 0 ? even : odd) + '\t' + std::string(static_cast<std::size_t>(1 + i % 7), 'a') + "bc\n";
  }
  return text;
}

const Words of_texts{"--model=rnn", "--model-args=embedding=8,hidden=8", "--dataset=labelled-text",
                     "--seq-len=8", "--threads=1"};

Words data_at(const fs::path& place) {
  return {"--data-dir=" + place.string()};
}

TEST_CASE("an option that decides a run's numbers or its course is the same on all ranks, or named") {
  struct Difference {
    std::string typed;  ///< on rank 1
    std::string of_0;
    std::string of_1;
  };
  const auto difference =
      GENERATE(Difference{"--seed=2", "--seed 0", "--seed 2"},
               Difference{"--label-smoothing=0.5", "--label-smoothing not given", "--label-smoothing 0.5"},
               Difference{"--no-shuffle", "--no-shuffle false", "--no-shuffle true"},
               Difference{"--samples=512", "--samples 256", "--samples 512"},
               Difference{"--batch-size=32", "--batch-size 64", "--batch-size 32"},
               Difference{"--epochs=2", "--epochs 1", "--epochs 2"},
               Difference{"--max-steps=2", "--max-steps not given", "--max-steps 2"},
               Difference{"--checkpoint-every=2", "--checkpoint-every 0", "--checkpoint-every 2"},
               Difference{"--eval-every=2", "--eval-every 1", "--eval-every 2"},
               Difference{"--eval-samples=32", "--eval-samples 64", "--eval-samples 32"},
               Difference{"--detect-anomaly", "--detect-anomaly false", "--detect-anomaly true"});
  const TemporaryFolder folder;
  const fs::path run_dir = folder / "run";
  const Words command{"--model=mlp", "--dataset=synthetic", "--samples=256", "--eval-samples=64",
                      "--threads=1", "--progress=none",     "--timeout=20",  "--run-dir=" + run_dir.string()};
  check_both(ends_of(command, {}, {difference.typed}), 2,
             fmt::format("ranks disagree on the options: rank 0 has '{}', rank 1 has '{}'; start all ranks",
                         difference.of_0, difference.of_1));
  CHECK_FALSE(fs::exists(run_dir));
}

TEST_CASE("data may lie in another place on each rank, and ranks may load and tell otherwise") {
  const TemporaryFolder folder;
  for (const char* rank : {"0", "1"}) {
    fs::create_directories(folder / rank);
    write_file(folder / rank / "texts.tsv", texts(200, "even", "odd"));
  }
  const Words command = of_texts + Words{"--run-dir=" + (folder / "run").string()};
  check_both(ends_of(command, data_at(folder / "0/texts.tsv"),
                     data_at(folder / "1/texts.tsv") + Words{"--num-workers=2", "--log-every=3", "--keep=1"}),
             0, "");
  CHECK(fs::exists(folder / "run/summary.json"));
}

TEST_CASE("training and test data whose contents differ are told apart before the first step") {
  const std::string part = GENERATE("training", "test");
  const TemporaryFolder folder;
  for (const char* rank : {"0", "1"}) {
    fs::create_directories(folder / rank);
    write_file(folder / rank / "train.tsv", texts(200, "even", "odd"));
    write_file(folder / rank / "val.tsv", texts(40, "even", "odd"));
  }
  write_file(folder / "1" / (part == "test" ? "val.tsv" : "train.tsv"),
             texts(part == "test" ? 40 : 200, "odd", "even"));
  const Words command = of_texts + Words{"--run-dir=" + (folder / "run").string()};
  const auto ends = ends_of(command, data_at(folder / "0"), data_at(folder / "1"));
  check_both(ends, 2, fmt::format("ranks disagree on the data: rank 0 has 'contents of the {} set ", part));
  check_both(ends, 2, fmt::format("rank 1 has 'contents of the {} set ", part));
  CHECK_FALSE(fs::exists(folder / "run"));
}

TEST_CASE(
    "one label, one character and other names of either are other data, between samples that are compared") {
  const std::string all = texts(1000, "even", "odd");
  const std::size_t second = all.find('\n') + 1;
  const auto replaced = [](std::string text, const std::string& from, const std::string& to) {
    for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
      text.replace(at, from.size(), to);
    return text;
  };
  struct Change {
    std::string text;
    std::string said;
  };
  const auto change =
      GENERATE_REF(Change{std::string(all).replace(second, 3, "even"), "bytes of the training set "},
                   Change{std::string(all).replace(second + 4, 1, "b"), "bytes of the training set "},
                   Change{replaced(replaced(all, "even", "neg"), "odd", "pos"), "names of the classes "},
                   Change{replaced(all, "c\n", "f\n"), "names of the tokens "});
  const TemporaryFolder folder;
  write_file(folder / "all.tsv", all);
  write_file(folder / "other.tsv", change.text);
  const Words command = of_texts + Words{"--checkpoint-every=1", "--run-dir=" + (folder / "run").string()};
  const Words same = data_at(folder / "all.tsv");
  const Words other = data_at(folder / "other.tsv");
  check_both(ends_of(command, same, other), 2, "ranks disagree on the data: rank 0 has '" + change.said);
  check_both(ends_of(command + same, {"--max-steps=1"}, {"--max-steps=1"}), 0, "");
  check_both(ends_of(command + other, {"--resume=auto"}, {"--resume=auto"}), 2,
             "was made with " + change.said);
}

TEST_CASE("one of 64 pictures is other data, also where samples are so large that few are compared") {
  const TemporaryFolder folder;
  for (const char* name : {"0", "1"}) data::testing::write_picture_folder(folder / name, 64);
  const fs::path picture = folder / "1/even/130.jpg";
  std::string bytes = contents(picture);
  bytes[bytes.size() / 2] ^= 1;
  write_file(picture, bytes);
  const Words command{"--model=simplecnn",
                      "--dataset=image-folder",
                      "--transform=resize=64,crop=224",
                      "--eval-transform=resize=64,crop=224",
                      "--batch-size=2",
                      "--checkpoint-every=1",
                      "--threads=1",
                      "--run-dir=" + (folder / "run").string()};
  const Words same = data_at(folder / "0");
  const Words other = data_at(folder / "1");
  const std::string said = "files of the training set ";
  check_both(ends_of(command, same, other), 2, "ranks disagree on the data: rank 0 has '" + said);
  check_both(ends_of(command + same, {"--max-steps=1"}, {"--max-steps=1"}), 0, "");
  check_both(ends_of(command + other, {"--resume=auto"}, {"--resume=auto"}), 2, "was made with " + said);
}

TEST_CASE("a run goes on with other data on no rank, and all say so") {
  const TemporaryFolder folder;
  write_file(folder / "all.tsv", texts(200, "even", "odd"));
  write_file(folder / "other.tsv", texts(200, "odd", "even"));
  const Words command = of_texts + Words{"--checkpoint-every=1", "--run-dir=" + (folder / "run").string()};
  const Words all = data_at(folder / "all.tsv");
  const Words other = data_at(folder / "other.tsv");
  check_both(ends_of(command + all, {"--max-steps=1"}, {"--max-steps=1"}), 0, "");
  check_both(ends_of(command + Words{"--resume=auto"}, all, other), 2, "ranks disagree on the data");
  check_both(ends_of(command + other, {"--resume=auto"}, {"--resume=auto"}), 2,
             "was made with contents of the training set ");
}

TEST_CASE("texts that are cut are told of once, by rank 0, whatever else is shown") {
  const TemporaryFolder folder;
  write_file(folder / "all.tsv", texts(200, "even", "odd"));
  const Words command = of_texts + data_at(folder / "all.tsv") +
                        Words{"--progress=none", "--max-steps=1", "--run-dir=" + (folder / "run").string()};
  const auto ends = ends_of(command, {}, {});
  check_both(ends, 0, "");
  CHECK_THAT(ends[0].said,
             contains("texts longer than --seq-len 8 are cut: 25 of 180; the longest takes 9 tokens"));
  CHECK_THAT(ends[1].said, !contains("are cut"));
}

/// Both end with 2, and name the rank that has found this: that one as in each line of its own.
void check_found_by(int rank, const std::array<Ended, 2>& ends, const std::string& said) {
  check_both(ends, 2, said);
  for (const int one : {0, 1}) {
    const std::string of_other = one == rank ? "" : fmt::format("rank {}: ", rank);
    CHECK_THAT(ends[static_cast<std::size_t>(one)].said,
               contains(fmt::format("rank {}: error: {}{}", one, of_other, said)));
  }
}

TEST_CASE("what one rank alone finds wrong with its data is told by all, with that rank") {
  const TemporaryFolder folder;
  write_file(folder / "many.tsv", texts(1000, "even", "odd"));
  write_file(folder / "few.tsv", texts(100, "even", "odd"));
  const Words many = data_at(folder / "many.tsv");
  const Words few = data_at(folder / "few.tsv");
  const Words run_dir{"--run-dir=" + (folder / "run").string()};
  check_found_by(1, ends_of(of_texts + run_dir + Words{"--eval-samples=50"}, many, few),
                 "--eval-samples 50: the test set has 10");
  CHECK_FALSE(fs::exists(folder / "run"));

  train(1, of_texts + few + Words{"--max-steps=1", "--eval-every=0"}, folder / "run");
  // Of a file that is not the run's own all is scored.
  const Words eval{"eval", (folder / "run").string(), "--eval-samples=50", "--threads=1"};
  check_found_by(0, ends_of(eval, few, many), "--eval-samples 50: the test set has 10");
}

TEST_CASE("what all ranks find wrong is told without a rank") {
  const TemporaryFolder folder;
  write_file(folder / "few.tsv", texts(100, "even", "odd"));
  const Words command = of_texts + data_at(folder / "few.tsv") +
                        Words{"--eval-samples=50", "--run-dir=" + (folder / "run").string()};
  const auto ends = ends_of(command, {}, {});
  check_both(ends, 2, "--eval-samples 50: the test set has 10");
  for (const Ended& end : ends) CHECK_THAT(end.said, !contains("rank 0: --eval-samples"));
}

}  // namespace
}  // namespace lockstep::tests
