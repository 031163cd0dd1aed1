// Waits that no peer can end: a disk that hangs, and files that are none. comm/WAITS.md has the table of all
// waits.
#include <sys/stat.h>

#include <cstdint>
#include <cstdlib>
#include <random>
#include <tuple>

#include "tests/support/training.h"
#include "tests/support/unused_port.h"

namespace lockstep::tests {
namespace {

namespace fs = std::filesystem;
using tests::contains;

std::string big_endian(std::uint32_t number) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(number >> shift);
  return bytes;
}

void write_data(const fs::path& folder, std::uint32_t samples) {
  fs::create_directories(folder);
  std::string pixels;
  for (std::mt19937 random(7); pixels.size() < samples * std::size_t{28 * 28};) {
    pixels += static_cast<char>(random());
  }
  write_file(folder / "train-images-idx3-ubyte",
             big_endian(0x803) + big_endian(samples) + big_endian(28) + big_endian(28) + pixels);
  write_file(folder / "train-labels-idx1-ubyte",
             big_endian(0x801) + big_endian(samples) + std::string(samples, '\3'));
}

/// Training on a disk of which a part hangs once `begin` is called.
class HungDisk {
 public:
  explicit HungDisk(std::uint32_t samples = 256) { write_data(folder_ / "data", samples); }

  fs::path operator/(const std::string& name) const { return folder_ / name; }
  void begin() const { write_file(folder_ / "now", ""); }

  /// `call` hangs on files at or below `path`.
  Words alone(const std::string& call, const std::string& path, const Words& more = {}) const {
    return with_library(call, path, Words{TRAINER_PROGRAM} + training(more));
  }
  /// For rank 1 alone; `script` runs before the trainer.
  Words two_ranks(const std::string& call, const std::string& path, const Words& more = {},
                  const std::string& script = "[ $RANK = 1 ] || unset LD_PRELOAD") const {
    const Words launch{LAUNCH_PROGRAM, "--nproc_per_node=2", "sh", "-c", script + "; exec \"$0\" \"$@\""};
    return with_library(call, path, launch + Words{TRAINER_PROGRAM} + training(more));
  }

 private:
  Words with_library(const std::string& call, const std::string& path, const Words& words) const {
    return Words{"/usr/bin/env", "LD_PRELOAD=" HUNG_DISK, "HUNG_CALL=" + call,
                 "HUNG_PATH=" + (folder_ / path).string(), "HUNG_SINCE=" + (folder_ / "now").string()} +
           words;
  }

  Words training(const Words& more) const {
    return Words{"--model=mlp",
                 "--dataset=mnist",
                 "--threads=1",
                 "--batch-size=16",
                 "--eval-every=0",
                 "--num-workers=1",
                 "--log-every=1",
                 "--progress=plain",
                 "--timeout=1",
                 "--max-steps=1000000",
                 "--data-dir=" + (folder_ / "data").string(),
                 "--run-dir=" + (folder_ / "run").string()} +
           more;
  }

  TemporaryFolder folder_;
};

/// Within a few seconds of a time-out of 1 s.
void check_end(Program& run, int wanted_code, const std::string& said) {
  const auto start = Clock::now();
  const int code = run.wait_for_end();
  INFO(run.output());
  CHECK(code == wanted_code);
  CHECK_THAT(run.output(), contains(said));
  CHECK(Clock::now() - start < std::chrono::seconds(5));
}

TEST_CASE("data on a disk that hangs: 4, the data set and the sample are named") {
  const std::string workers = GENERATE("0", "1");
  const HungDisk disk;
  Program run(disk.alone("page", "data", {"--num-workers=" + workers}));
  run.wait_for("step ");
  disk.begin();
  check_end(run, 4, "waiting for batch ");
  CHECK_THAT(run.output(), contains("mnist (" + (disk / "data").string() + "), sample "));
}

/// Each rank on its own.
const std::string on_two_nodes = "export LOCKSTEP_NODE=$RANK; ";

TEST_CASE("data on the disk of one rank hang: 4, and the peers' report names the rank and the sample") {
  const std::string nodes = GENERATE(std::string(), on_two_nodes);
  const HungDisk disk;
  Program run(disk.two_ranks("page", "data", {}, nodes + "[ $RANK = 1 ] || unset LD_PRELOAD"));
  run.wait_for("step ");
  disk.begin();
  check_end(run, 4, "the run failed: rank 1: waiting for batch ");
  CHECK_THAT(run.output(), contains(", sample "));
}

TEST_CASE("a checkpoint on a disk that hangs: 4, the checkpoint and the file are named") {
  const HungDisk disk;
  Program run(disk.alone("fsync", "run/checkpoints/.step", {"--checkpoint-every=20"}));
  run.wait_for("step ");
  disk.begin();
  check_end(run, 4, "waiting for the checkpoint of step ");
  CHECK_THAT(run.output(), contains("model.safetensors"));
}

TEST_CASE("a checkpoint on the disk of one rank hangs: 4, and the peers' report names both") {
  const HungDisk disk;
  for (const char* rank : {"0", "1"}) fs::create_directories(disk / rank);
  Program run(disk.two_ranks("fsync", "1/run/checkpoints", {"--checkpoint-every=20", "--run-dir=run"},
                             "cd " + (disk / "").string() + "/$RANK"));
  run.wait_for("step ");
  disk.begin();
  check_end(run, 4, "the run failed: rank 1: ");
  CHECK_THAT(run.output(), contains("waiting for the checkpoint of step "));
}

TEST_CASE("the end of a run whose files do not come to the disk: 4, the file is named") {
  const auto [call, path, options] = GENERATE(
      std::tuple<std::string, std::string, Words>{"write", "run/log.jsonl", {}},
      std::tuple<std::string, std::string, Words>{"fsync", "run/.model.safetensors", {"--max-steps=40"}},
      std::tuple<std::string, std::string, Words>{
          "fsync", "run/checkpoints/.step", {"--max-steps=40", "--checkpoint-every=40"}});
  const HungDisk disk;
  if (path != "run/log.jsonl") disk.begin();
  Program run(disk.alone(call, path, options));
  if (path == "run/log.jsonl") {
    run.wait_for("step ");
    disk.begin();
  }
  check_end(run, 4, path == "run/log.jsonl" ? "log.jsonl" : "model.safetensors");
}

TEST_CASE("gradients that do not come to the disk: 4, the file is named") {
  const HungDisk disk;
  fs::create_directories(disk / "gradients");
  disk.begin();
  Program run(disk.alone("fsync", "gradients",
                         {"--dump-gradients=" + (disk / "gradients/first.safetensors").string()}));
  check_end(run, 4, "gradients/first.safetensors");
}

TEST_CASE("a disk that hangs before the first step: 4, the folder is named") {
  const auto [call, path] = GENERATE(std::tuple<std::string, std::string>{"open", "data"},
                                     std::tuple<std::string, std::string>{"open", "run/lock"},
                                     std::tuple<std::string, std::string>{"fsync", "run/.config.ini"});
  const HungDisk disk;
  disk.begin();
  Program run(disk.alone(call, path));
  check_end(run, 4, (disk / path.substr(0, path.find('/'))).string());
}

TEST_CASE("a checkpoint whose disk hangs when the run goes on: 4, the checkpoint is named") {
  const HungDisk disk;
  Program before(disk.alone("none", "run", {"--max-steps=10", "--checkpoint-every=10"}));
  REQUIRE(before.wait_for_end() == 0);
  disk.begin();
  Program run(disk.alone("read", "run/checkpoints", {"--resume=auto"}));
  check_end(run, 4, (disk / "run/checkpoints/step-00000010").string());
}

TEST_CASE("a disk that hangs where two nodes meet: 4, RUN/meeting is named") {
  const auto [rank, call, path] =
      GENERATE(std::tuple<std::string, std::string, std::string>{"0", "fsync", "run"},
               std::tuple<std::string, std::string, std::string>{"1", "open", "run/meeting"});
  const HungDisk disk;
  disk.begin();
  Program run(Words{"/usr/bin/env", "RANK=" + rank, "LOCAL_RANK=0", "WORLD_SIZE=2", "LOCAL_WORLD_SIZE=1",
                    "GROUP_RANK=" + rank, "GROUP_WORLD_SIZE=2", "MASTER_ADDR=127.0.0.1",
                    "MASTER_PORT=" + std::to_string(unused_port())} +
              disk.alone(call, path));
  check_end(run, 4, (disk / "run/meeting").string() + " does not answer for 1 s");
}

/// Of two that nobody supervises.
Words by_hand(int rank, int port, const fs::path& folder, const Words& words) {
  return Words{"/usr/bin/env",
               "RANK=" + std::to_string(rank),
               "LOCAL_RANK=" + std::to_string(rank),
               "WORLD_SIZE=2",
               "LOCAL_WORLD_SIZE=2",
               "MASTER_ADDR=127.0.0.1",
               "MASTER_PORT=" + std::to_string(port),
               "TORCHELASTIC_RUN_ID=" + folder.string()} +
         words;
}

TEST_CASE("a report that does not come to the disk holds no rank") {
  const HungDisk disk;
  const Words words = disk.alone("fsync", "run/.failure.json");
  const int port = unused_port();
  Program first(by_hand(0, port, disk / "", words));
  Program second(by_hand(1, port, disk / "", words));
  first.wait_for("step ");
  disk.begin();
  stop(second.pid());
  check_end(first, 5, "rank 1 does not answer");
  CHECK_THAT(first.output(),
             contains((disk / "run/failure.json").string() + " may be missing: its disk has not"));
}

TEST_CASE("a rank that unpacks its data for several time-outs is waited for, and its peer says so") {
  const std::string nodes = GENERATE(std::string(), on_two_nodes);
  const HungDisk disk(8000);
  REQUIRE(std::system(("gzip -1 " + (disk / "data/train-images-idx3-ubyte").string()).c_str()) == 0);
  disk.begin();
  Program run(disk.two_ranks("read", "data/train-images", {"--max-steps=3"},
                             nodes + "export HUNG_MS=250 XDG_CACHE_HOME=" + (disk / "").string() +
                                 "/cache$RANK; [ $RANK = 0 ] || unset LD_PRELOAD"));
  run.wait_for("waiting for rank 0: setting up: unpacking ");
  run.wait_for(" %\n");
  CHECK(run.wait_for_end() == 0);
}

TEST_CASE("a FIFO where a file belongs is refused at once, by its name") {
  const HungDisk disk;
  const fs::path fifo = disk / "fifo";
  const fs::path folder = disk / "idx";
  const auto refused = [&](int code, const fs::path& path, const Words& options) {
    REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
    INFO(options.back());
    Program run(disk.alone("none", "none", options));
    check_end(run, code, path.string());
    CHECK_THAT(run.output(), contains("is a FIFO"));
    fs::remove(path);
  };
  refused(2, fifo, {"--config=" + fifo.string()});
  refused(2, fifo, {"--plugin=" + fifo.string()});
  refused(3, fifo, {"--init-from=" + fifo.string()});
  refused(3, fifo, {"--dataset=tensors", "--data-dir=" + fifo.string()});
  fs::create_directories(folder);
  fs::copy(disk / "data/train-labels-idx1-ubyte", folder);
  refused(3, folder / "train-images-idx3-ubyte", {"--data-dir=" + folder.string()});
  refused(3, folder / "train-images-idx3-ubyte.gz", {"--data-dir=" + folder.string()});
}

TEST_CASE("a FIFO as the secret's file, or as torchrun's error file, holds no rank") {
  const TemporaryFolder folder;
  const std::string fifo = (folder / "fifo").string();
  REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
  Program secret({"/usr/bin/env", "RANK=0", "WORLD_SIZE=2", "LOCAL_RANK=0", "LOCAL_WORLD_SIZE=1",
                  "MASTER_ADDR=127.0.0.1", "MASTER_PORT=" + std::to_string(unused_port()), TRAINER_PROGRAM,
                  "--model=mlp", "--dataset=synthetic", "--token-file=" + fifo, "--timeout=1"});
  check_end(secret, 2, fifo + " is a FIFO");
  Program wrong_use({"/usr/bin/env", "TORCHELASTIC_ERROR_FILE=" + fifo, TRAINER_PROGRAM, "--model=convnt"});
  check_end(wrong_use, 2, "did you mean 'convnet'?");
}

}  // namespace
}  // namespace lockstep::tests
