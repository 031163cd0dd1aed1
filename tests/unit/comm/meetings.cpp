// RUN/meeting of one run, when another run is given the same folder.
#include <unistd.h>

#include <filesystem>
#include <string>

#include <fmt/format.h>

#include "comm/rendezvous/meeting_file.h"
#include "comm/rendezvous/rendezvous.h"
#include "kernels/base/error.h"
#include "tests/support/catch.h"
#include "tests/support/files.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"
#include "tests/unit/comm/ranks.h"

using namespace lockstep;
using namespace lockstep::comm;
using namespace lockstep::comm::testing;
using tests::contains;

namespace {

Deadline soon() {
  return Deadline::in(Seconds(10));
}

/// Two nodes of one rank each, which has started for the third time.
World world_of(int rank, const std::string& run_id) {
  World world = local_world(0, 1, run_id);
  world.rank = world.node_rank = rank;
  world.size = world.node_count = 2;
  world.restart = 2;
  world.source = "torchrun";
  return world;
}

/// Given a folder alone.
CommOptions options_in(const tests::TemporaryFolder& folder) {
  CommOptions options;
  options.run_dir = folder / "run";
  return options;
}

}  // namespace

TEST_CASE("a run whose ranks still meet keeps RUN/meeting; another run there is refused", "[rendezvous]") {
  const tests::TemporaryFolder folder;
  const CommOptions options = options_in(folder);
  const std::string first_run = fresh_run_id();
  const Rendezvous first = open_rendezvous(world_of(0, first_run), options, soon());
  const std::string before = tests::contents(MeetingFile::in(options.run_dir));
  World second = world_of(0, fresh_run_id());
  second.restart = 0;
  const std::string message =
      tests::message_of<UsageError>([&] { open_rendezvous(second, options, soon()); });
  CHECK_THAT(message, contains(fmt::format("run/meeting is of run {}, which lives: rank 0 (pid {} on ",
                                           first_run, getpid())) &&
                          contains("--run-dir"));
  CHECK(tests::contents(MeetingFile::in(options.run_dir)) == before);
  CHECK(tests::files_in(options.run_dir) == 1);
}

TEST_CASE("a rank that finds another run's RUN/meeting says so", "[rendezvous]") {
  const tests::TemporaryFolder folder;
  const CommOptions options = options_in(folder);
  const std::string first_run = fresh_run_id();
  const Rendezvous first = open_rendezvous(world_of(0, first_run), options, soon());
  const std::string message = tests::message_of<CommError>(
      [&] { open_rendezvous(world_of(1, fresh_run_id()), options, Deadline::in(Seconds(0.3))); });
  CHECK_THAT(message, contains("it is of run " + first_run + ", and this is "));
}

TEST_CASE("what a run that has ended has left in RUN/meeting is replaced", "[rendezvous]") {
  const tests::TemporaryFolder folder;
  const CommOptions options = options_in(folder);
  const auto file = MeetingFile::in(options.run_dir);
  std::filesystem::create_directories(options.run_dir);
  tests::write_file(file, to_text({"127.0.0.1", 1, {"another run", "the secret of that run"}}));
  std::filesystem::permissions(file, std::filesystem::perms(0600));
  const std::string run = fresh_run_id();
  const Rendezvous met = open_rendezvous(world_of(0, run), options, soon());
  const auto point = parse_meeting_point(tests::contents(file));
  REQUIRE(point);
  CHECK(point->credentials.run_id == run);
  CHECK(point->credentials.incarnation == 2);
}
