#include <fcntl.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/fault/launch_process.h"
#include "tests/support/catch.h"
#include "tests/support/temporary_folder.h"

namespace lockstep::launcher {
namespace {

using tests::contains;

std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

TEST_CASE("every rank sees torchrun's environment") {
  LaunchProcess launch({"--nproc_per_node=2", "--rdzv_id=job7", "--master_port=4567", "env"});
  CHECK(launch.wait_for_end() == 0);
  for (const char* variable :
       {"\nRANK=0\n", "\nRANK=1\n", "\nLOCAL_RANK=1\n", "\nWORLD_SIZE=2\n", "\nMASTER_PORT=4567\n",
        "\nTORCHELASTIC_RUN_ID=job7\n", "\nLOCKSTEP_LAUNCH=127.0.0.1:4567,"}) {
    CHECK_THAT(launch.output(), contains(variable));
  }
}

TEST_CASE("sixteen ranks on few cores") {
  LaunchProcess launch(
      {"--nproc_per_node=16", "sh", "-c", "echo rank $RANK of $WORLD_SIZE on port $MASTER_PORT."});
  CHECK(launch.wait_for_end() == 0);
  for (int rank = 0; rank < 16; ++rank) {
    CHECK_THAT(launch.output(), contains("rank " + std::to_string(rank) + " of 16 on port "));
  }
}

TEST_CASE("lines of different ranks are never mixed") {
  // Every line arrives in two writes, with the other rank's between them.
  LaunchProcess launch(
      {"--nproc_per_node=2", "sh", "-c",
       "for i in 1 2 3 4 5 6 7 8 9; do printf \"<$RANK\"; sleep 0.002; printf \"$RANK>\\n\"; done"});
  CHECK(launch.wait_for_end() == 0);
  std::istringstream lines(launch.output());
  int count = 0;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("launch: ")) continue;
    CHECK((line == "<00>" || line == "<11>"));
    ++count;
  }
  CHECK(count == 18);
}

TEST_CASE("a line of more than a mebibyte stays one line") {
  LaunchProcess launch({"--nproc_per_node=2", "sh", "-c",
                        "[ $RANK = 1 ] || { head -c 1500000 /dev/zero | tr '\\0' x; echo; echo end; }"});
  CHECK(launch.wait_for_end() == 0);
  CHECK(launch.output().ends_with("\n" + std::string(1'500'000, 'x') + "\nend\n"));
}

TEST_CASE("a line of another rank ends one that has no end") {
  LaunchProcess launch({"--nproc_per_node=2", "sh", "-c",
                        "F=${TORCHELASTIC_ERROR_FILE%/*/*}/begun; "
                        "[ $RANK = 1 ] && { until [ -e $F ]; do sleep 0.01; done; echo other; exit; }; "
                        "head -c 1500000 /dev/zero | tr '\\0' x; touch $F; exec sleep 1000"});
  launch.wait_for("x\nother\n");
}

TEST_CASE("on a terminal lines carry their rank, rank 0's bar does not, and the columns are told") {
  LaunchProcess launch(
      {"--nproc_per_node=2", "sh", "-c",
       "echo hello; [ $RANK = 0 ] && printf '\\r10%%\\r99%%\\n'; echo ${LOCKSTEP_LAUNCH##*,} columns"},
      LaunchProcess::Console::terminal);
  CHECK(launch.wait_for_end() == 0);
  CHECK_THAT(launch.output(), contains("[rank0] hello") && contains("[rank1] hello"));
  CHECK_THAT(launch.output(), contains("\r10%\r99%"));
  CHECK_THAT(launch.output(), contains("[rank1] 77 columns"));
}

TEST_CASE("a stream that is a file gets neither prefixes nor what erases a bar, whatever the other is") {
  const tests::TemporaryFolder folder;
  const std::string file = (folder / "text").string();
  const bool has_errors = GENERATE(true, false);
  tests::Program shell(
      {"/bin/sh", "-c",
       std::string("exec \"$0\" --nproc_per_node=2 sh -c \"$1\" ") + (has_errors ? "2" : "1") + ">\"$2\"",
       LAUNCH_PROGRAM, "printf '\\r10%%'; echo error$RANK >&2; echo; echo line$RANK", file},
      tests::Program::Console::terminal);
  CHECK(shell.wait_for_end() == 0);
  CHECK_THAT(shell.output(), contains(has_errors ? "[rank1] line1" : "[rank1] error1"));
  CHECK_THAT(read_file(file),
             contains(has_errors ? "error1\n" : "line1\n") && !contains("[rank") && !contains("\x1b"));
}

TEST_CASE("streams go to log files when asked, with tee to the console too") {
  const tests::TemporaryFolder folder;
  LaunchProcess launch({"--nproc_per_node=2", "--log_dir", folder.path().string(), "--redirects=2", "--tee=1",
                        "--rdzv_id=job", "sh", "-c", "echo out$RANK; echo err$RANK >&2"});
  CHECK(launch.wait_for_end() == 0);
  CHECK_THAT(launch.output(), contains("out0") && contains("out1") && !contains("err0"));
  const auto run = std::filesystem::directory_iterator(folder.path())->path();
  CHECK(run.filename().string().starts_with("job_"));
  CHECK(read_file(run / "attempt_0/1/stdout.log") == "out1\n");
  CHECK(read_file(run / "attempt_0/1/stderr.log") == "err1\n");
}

TEST_CASE("a reader that takes nothing does not keep launch from its workers") {
  // The test reads nothing after the first lines: pipe or terminal are full long before the signal.
  const auto console = GENERATE(tests::Program::Console::pipe, tests::Program::Console::terminal);
  LaunchProcess launch({"--nproc_per_node=2", "sh", "-c", "echo pid$RANK=$$.; exec yes"}, console);
  launch.wait_for(".", 2);
  kill(launch.pid(), SIGTERM);
  CHECK(wait_until_gone(launch.number_after("pid0")));
  CHECK(wait_until_gone(launch.number_after("pid1")));
}

TEST_CASE("text that nobody takes is dropped when the shutdown timeout has passed after the last rank") {
  const int code = GENERATE(0, 3);
  // More than a pipe holds; the test reads nothing until launch has gone.
  LaunchProcess launch({"--nproc_per_node=2", "--shutdown_timeout=0.5", "sh", "-c",
                        "head -c 200000 /dev/zero | tr '\\0' x; exit " + std::to_string(code)});
  CHECK(wait_until_gone(launch.pid()));
  CHECK(launch.wait_for_end() == code);
}

TEST_CASE("a reader that has stalled does not keep a rank that was told to end from saving") {
  LaunchProcess launch({"--nproc_per_node=2", "--shutdown_timeout=10", "sh", "-c",
                        "trap 'head -c 3000000 /dev/zero | tr \"\\0\" x; exit 75' TERM; sleep 1000 & "
                        "echo pid$RANK=$$.; wait"});
  launch.wait_for(".\n", 2);
  kill(launch.pid(), SIGTERM);
  CHECK(wait_until_gone(launch.number_after("pid0")));
  CHECK(wait_until_gone(launch.number_after("pid1")));
  CHECK(launch.wait_for_end() == 75);
}

TEST_CASE("a full disk loses text, never the run, and is named once") {
  tests::Program shell(
      {"/bin/sh", "-c",
       std::string(LAUNCH_PROGRAM) +
           " --nproc_per_node=2 sh -c 'for i in 1 2 3 4 5 6 7 8 9; do echo line; sleep 0.01; "
           "done' >/dev/full; echo code=$?."});
  shell.wait_for_end();
  CHECK(shell.number_after("code") == 0);
  const std::string named = "launch: standard output loses text: No space left on device; the run goes on\n";
  CHECK(count_of(shell.output(), named) == 1);
}

TEST_CASE("what launch was asked for and cannot write ends it with 4") {
  for (const std::string option : {"--help", "--version"}) {
    tests::Program shell({"/bin/sh", "-c", std::string(LAUNCH_PROGRAM) + " " + option + " >/dev/full"});
    CHECK(shell.wait_for_end() == 4);
    CHECK(shell.output() == "launch: standard output: cannot write: No space left on device\n");
  }
}

TEST_CASE("a log that may not grow loses text, never the run, and is named once") {
  const tests::TemporaryFolder folder;
  tests::Program shell({"/bin/bash", "-c",
                        "ulimit -f 1; " + std::string(LAUNCH_PROGRAM) + " --nproc_per_node=2 --log_dir=" +
                            folder.path().string() + " --tee=0:1 sh -c 'echo begun; seq 1000' 2>&1 | cat; " +
                            "echo code=${PIPESTATUS[0]}."});
  shell.wait_for_end();
  CHECK(shell.number_after("code") == 0);
  CHECK(count_of(shell.output(), "attempt_0/0/stdout.log loses text: File too large; the run goes on\n") ==
        1);
  CHECK(count_of(shell.output(), "\n1000\n") == 2);
}

TEST_CASE("an error is told by its code when nobody reads its text") {
  const std::string words = GENERATE("--nproc_per_node=2 nosuchprogram", "--nproc_per_nod=2 true");
  tests::Program shell(
      {"/bin/bash", "-c",
       "exec 3> >(true); wait $!; " + std::string(LAUNCH_PROGRAM) + " " + words + " 2>&3; echo code=$?."});
  shell.wait_for_end();
  CHECK(shell.number_after("code") == 2);
}

TEST_CASE("rank 0 reads launch's input, the others read nothing") {
  int ends[2];
  REQUIRE(pipe2(ends, O_CLOEXEC) == 0);
  const int before = dup(STDIN_FILENO);
  dup2(ends[0], STDIN_FILENO);
  LaunchProcess launch({"--nproc_per_node=2", "sh", "-c", "echo got$RANK-$(cat)."});
  dup2(before, STDIN_FILENO);
  CHECK(write(ends[1], "text", 4) == 4);
  close(ends[1]);
  close(ends[0]);
  close(before);
  CHECK(launch.wait_for_end() == 0);
  CHECK_THAT(launch.output(), contains("got0-text.") && contains("got1-."));
}

}  // namespace
}  // namespace lockstep::launcher
