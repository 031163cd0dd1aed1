// Options in files: --config, and the config.ini of a run.
#include <filesystem>

#include "kernels/base/error.h"
#include "runtime/options/options.h"
#include "tests/support/catch.h"
#include "tests/support/files.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"

namespace lockstep::runtime {
namespace {

using Words = std::vector<std::string>;

std::string refusal(const Words& words) {
  return tests::message_of<UsageError>([&] { parse_options(words); });
}

CommandOptions of_run(const std::filesystem::path& config, const Words& words) {
  return parse_options_of_run(words, [&](const std::string&) { return std::optional(config); });
}

TEST_CASE("a config file gives the same options; the command line wins") {
  const tests::TemporaryFolder folder;
  const auto file = folder.path() / "run.ini";
  const Options original = parse_options(
      {"--model=mlp", "--model-args=hidden=32", "--optimizer=sgd", "--lr=0.05", "--momentum=0.9",
       "--dampening=0.25", "--betas=0.8,0.99", "--epochs=3", "--image-shape=3x8x8", "--drop-last",
       "--matmul-precision=medium", "--clip-grad-norm=0.5"});
  tests::write_file(file, to_ini(original));
  CHECK(to_ini(parse_options({"--config", file.string()})) == to_ini(original));
  CHECK(parse_options({"--config", file.string(), "--lr", "1"}).optimizer.learning_rate == 1);
  CHECK(parse_options({"--config", file.string()}).clip_grad_norm == 0.5);
  CHECK(parse_options({"--config", file.string()}).optimizer.dampening == 0.25);
  CHECK(parse_options({"--config", file.string()}).matmul_precision == kernels::MatmulPrecision::medium);

  tests::write_file(file, "\xEF\xBB\xBFmodel = mlp\nepcohs = 3\n");
  CHECK(refusal({"--config", file.string()}) ==
        file.string() + ": unknown option '--epcohs', did you mean '--epochs'? `trainer --help` lists them");
  tests::write_file(file, "learning_rate = 0.5\nbetas = 0.8 0.9\n");
  CHECK(parse_options({"--config", file.string()}).optimizer.learning_rate == 0.5);
  CHECK(parse_options({"--config", file.string()}).optimizer.beta2 == 0.9);
  tests::write_file(file, "betas = 0.8, 0.95\n");
  CHECK(parse_options({"--config", file.string()}).optimizer.beta2 == 0.95);
  tests::write_file(file, "config = other.ini\n");
  CHECK_THAT(refusal({"--config", file.string()}), tests::contains("a file names no other"));
  CHECK_FALSE(refusal({"--config", (folder.path() / "none.ini").string()}).empty());
}

TEST_CASE("what is typed wins over what a config file says by another option") {
  const tests::TemporaryFolder folder;
  const auto file = folder / "run.ini";
  const auto beside = [&](const Words& more) {
    Words words{"--config", file.string()};
    words.insert(words.end(), more.begin(), more.end());
    return parse_options(words);
  };
  tests::write_file(file, to_ini(parse_options({"--model=mlp", "--global-batch=128"})));
  CHECK(beside({}).global_batch == 128);
  CHECK(beside({"--batch-size=32"}).global_batch == 0);
  CHECK(beside({"--batch-size=32"}).batch_size == 32);
  tests::write_file(file, "batch-size = 8\neval-samples = 9\n");
  CHECK(beside({"--global-batch=64"}).global_batch == 64);
  CHECK(beside({"--eval-every=0"}).eval_samples == 0);
  CHECK(beside({"--eval-every=0", "--eval-every=2"}).eval_samples == 9);
  CHECK_FALSE(refusal({"--config", file.string(), "--batch-size=8", "--global-batch=64"}).empty());

  tests::write_file(file, "dataset = parallel-text\ndata-dir = /there\ntarget-file = /there.de\n");
  const Options other = beside({"--dataset=" + folder.path().string()});
  CHECK(other.dataset == "image-folder");
  CHECK(other.data_dir == folder.path());
  CHECK(other.target_file.empty());
  CHECK(beside({"--dataset=mnist"}).data_dir.empty());
  CHECK(beside({"--dataset=Parallel_Text"}).data_dir == "/there");
  tests::write_file(file, "dataset = image-folder\ncorrupt-samples = skip\nnum-classes = 7\n");
  CHECK(beside({}).is_typed("corrupt-samples"));
  CHECK_FALSE(beside({"--dataset=synthetic"}).is_typed("corrupt-samples"));
  CHECK_FALSE(beside({"--dataset=mnist"}).is_typed("num-classes"));
  tests::write_file(file, "data-dir = /there\n");
  CHECK(beside({"--dataset=mnist"}).data_dir == "/there");
}

TEST_CASE("a line of a config file without a value is refused by its number, with what to write") {
  const tests::TemporaryFolder folder;
  const auto file = folder.path() / "run.ini";
  const auto said = [&](const std::string& text) {
    tests::write_file(file, text);
    return refusal({"--config", file.string()});
  };
  CHECK(said("# mine\nmodel = mlp\n\nno_shuffle  # all of them\n") ==
        file.string() + ": line 4: 'no_shuffle' has no '=': write no_shuffle = true");
  CHECK(said("lr 0.5\n") == file.string() + ": line 1: 'lr 0.5' has no '=': write lr = 0.5");
  CHECK(said("lr") == file.string() + ": line 1: 'lr' has no '=': write lr = VALUE");
  CHECK(said("model = mlp\r\n\r\n").empty());
  CHECK(said("json = true\n") ==
        file.string() + ": --json: `trainer devices` takes it, on the command line alone");
  CHECK_THAT(said("ranks = 2\n"), tests::contains("on the command line alone"));
}

TEST_CASE("a # of a value comes back from a config file; behind a blank one begins a comment") {
  const tests::TemporaryFolder folder;
  const auto file = folder.path() / "run.ini";
  for (const std::string place : {"/data/C#/train.txt", "#pics", "/data/my #2", "a\\#b"}) {
    CAPTURE(place);
    tests::write_file(file, to_ini(parse_options({"--data-dir", place})));
    CHECK(parse_options({"--config", file.string()}).data_dir == place);
  }
  tests::write_file(file, "# all of C#\nlr = 0.5 # as before\ndata-dir = /data/C#\n");
  CHECK(parse_options({"--config", file.string()}).optimizer.learning_rate == 0.5);
  CHECK(parse_options({"--config", file.string()}).data_dir == "/data/C#");
}

TEST_CASE("a value that no config file would give back is refused in one line; a prompt stands in none") {
  for (const std::string place : {"o/a\nb", "o/a\n", " a", "a\t", "a\r", "a\x01z"}) {
    CAPTURE(place);
    for (const std::string option : {"--run-dir", "--data-dir", "--interface"}) {
      CHECK(
          refusal({option, place}) ==
          option +
              ": no line break, control character or blank at an end can stand in config.ini: leave it out");
    }
  }
  CHECK(refusal({"--run-dir=my run"}).empty());
  CHECK(parse_options({"--prompt= a\nb "}).generation.prompts == Words{" a\nb "});
  CHECK(parse_options({"--stop=\n"}).generation.stop == "\n");
}

TEST_CASE("a run's config file names its data for every folder that it is read in") {
  const tests::TemporaryFolder folder;
  const auto run = folder.path() / "config.ini";
  tests::write_file(folder / "a.txt", "text");
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(folder.path());
  const Options options = parse_options({"--model=gpt2", "--dataset=text", "--data-dir=a.txt"});
  tests::write_file(run, to_ini(options));
  std::filesystem::current_path(before);
  CHECK(options.data_dir == "a.txt");
  CHECK(of_run(run, {"RUN"}).options.data_dir == folder / "a.txt");
  CHECK_FALSE(of_run(run, {"RUN", "--data-dir=" + (folder / "a.txt").string()}).options.data_are_new);
  // The project has moved.
  const tests::TemporaryFolder other;
  tests::write_file(other / "a.txt", "text");
  CHECK(of_run(run, {"RUN", "--data-dir=" + (other / "a.txt").string()}).options.data_are_new);
  std::filesystem::remove(folder / "a.txt");
  CHECK_FALSE(of_run(run, {"RUN", "--data-dir=" + (other / "a.txt").string()}).options.data_are_new);
  tests::write_file(run, to_ini(parse_options({"--model=gpt2", "--data-dir=s3://texts/a"})));
  CHECK(of_run(run, {"RUN"}).options.data_dir == "s3://texts/a");
}

TEST_CASE("what a user's own file sets counts as typed, whatever its first line") {
  const tests::TemporaryFolder folder;
  const auto file = folder.path() / "run.ini";
  tests::write_file(file, "# data\ndataset = cifar10\ntransform = pad-crop=4,flip\n");
  CHECK_THAT(refusal({"--model=resnet18", "--config", file.string()}),
             tests::contains("normalises otherwise than --eval-transform"));
  tests::write_file(file, to_ini(parse_options({"--model=mlp", "--batch-size=8"})));
  CHECK_FALSE(parse_options({"--config", file.string()}).is_typed("batch-size"));
  const std::string whole = tests::contents(file);
  tests::write_file(file, whole.substr(0, whole.find("# generation")));
  CHECK_FALSE(parse_options({"--config", file.string()}).is_typed("batch-size"));
}

TEST_CASE("data that a config file names are other data than the run's, as typed ones are") {
  const tests::TemporaryFolder folder;
  const auto run = folder.path() / "config.ini", file = folder.path() / "new.ini";
  tests::write_file(run, "dataset = mnist\ndata-dir = /there\neval-samples = 50\n");
  tests::write_file(file, "data-dir = /here\n");
  const CommandOptions given = of_run(run, {"RUN", "--config", file.string()});
  CHECK(given.data_given);
  CHECK(given.options.data_dir == "/here");
  CHECK(given.options.eval_samples == 0);
}

TEST_CASE("what a run did with its pictures is left where other data have none") {
  const tests::TemporaryFolder folder;
  const auto run = folder.path() / "config.ini";
  tests::write_file(run, to_ini(parse_options({"--model=convnet", "--dataset=cifar10"})));
  CHECK_FALSE(of_run(run, {"RUN"}).options.transform.empty());
  const CommandOptions tensors = of_run(run, {"RUN", "--dataset=tensors", "--data-dir=x.safetensors"});
  CHECK(tensors.options.transform.empty());
  CHECK(tensors.options.eval_transform.empty());
  CHECK(refusal({"--dataset=tensors", "--transform=flip"}) ==
        "--transform is for pictures; tensors has none");
}

}  // namespace
}  // namespace lockstep::runtime
