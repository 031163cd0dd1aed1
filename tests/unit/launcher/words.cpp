#include "launcher/words.h"

#include "kernels/base/error.h"
#include "launcher/options.h"
#include "tests/support/catch.h"
#include "tests/support/message_of.h"

namespace lockstep::launcher {
namespace {

using Arguments = std::vector<std::string>;

Options parse(const Arguments& arguments) {
  return parse_options(arguments, [](const std::string&) { return std::nullopt; });
}

std::string refusal(const Arguments& arguments) {
  return tests::message_of<UsageError>([&] { parse(arguments); });
}

TEST_CASE("other launchers' words for our options do the same") {
  CHECK(parse({"--nproc=3", "p"}).nproc_per_node == "3");
  CHECK(parse({"--nodes", "1", "p"}).nnodes == 1);
  const Options node = parse(
      {"--num_machines=2", "--machine_rank", "1", "--main_process_ip=a", "--main-process-port", "7", "p"});
  CHECK(node.nnodes == 2);
  CHECK(node.node_rank == 1);
  CHECK(node.master_addr == "a");
  CHECK(node.master_port == 7);
  CHECK(parse({"-N", "1", "p"}).command == Arguments{"p"});
}

TEST_CASE("words of another meaning are answered with what to type") {
  struct Answer {
    Arguments typed;
    std::string answer;
  };
  for (const auto& [typed, answer] : std::vector<Answer>{
           {{"--world-size", "2", "p"}, "--world-size: ranks on this node are given by --nproc_per_node=N"},
           {{"--world_size=2", "p"}, "--world_size: ranks on this node are given by --nproc_per_node=N"},
           {{"-n", "2", "p"}, "-n: ranks on this node are given by --nproc_per_node=N"},
           {{"-np", "2", "p"}, "-np: ranks on this node are given by --nproc_per_node=N"},
           {{"--gpus", "2", "p"}, "--gpus: a rank for each GPU: --nproc_per_node=gpu, or the number"},
           {{"--use_env", "p"}, "--use_env: always done; leave it out"},
           {{"--local_rank=0", "p"}, "--local_rank: launch numbers the ranks; leave it out"},
           {{"--duplicate-stdout-filters", "x", "p"},
            "--duplicate-stdout-filters: not in this version: give --tee=3 --log_dir=DIR, and grep in the "
            "ranks' files there"},
           {{"-H", "a,b", "p"},
            "-H: start one launch on each node: --nnodes=N --node_rank=r --master_addr=ADDRESS"},
           {{"--epochs", "2", "p"},
            "unknown option '--epochs'; `launch --help` lists them; options of PROGRAM stand behind it"},
           {{"-q", "p"},
            "unknown option '-q'; `launch --help` lists them; options of PROGRAM stand behind it"},
           {{"--nproc_per_nod", "2", "p"},
            "unknown option '--nproc_per_nod', did you mean '--nproc-per-node'? `launch --help` lists them; "
            "options of PROGRAM stand behind it"},
           {{"--nproc_per_node=2"},
            "no program to start: launch [options] [--] PROGRAM [ARGS...], such as: launch "
            "--nproc_per_node=2 trainer --model mlp"},
           {{},
            "no program to start: launch [options] [--] PROGRAM [ARGS...], such as: launch "
            "--nproc_per_node=2 trainer --model mlp"},
       }) {
    CHECK(refusal(typed) == answer);
  }
}

TEST_CASE("every row has an option that exists or a hint") {
  const std::string help = help_text();
  for (const FieldWord& row : field_words) {
    INFO(row.word);
    CHECK(row.ours.empty() != row.hint.empty());
    if (!row.ours.empty()) CHECK_THAT(help, tests::contains("--" + std::string(row.ours)));
    CHECK(find_word(field_words, row.word) == &row);
  }
}

}  // namespace
}  // namespace lockstep::launcher
