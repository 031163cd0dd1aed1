#include "comm/rendezvous/rendezvous.h"

#include <grp.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <condition_variable>
#include <csignal>
#include <future>
#include <mutex>

#include <fmt/format.h>

#include "comm/rendezvous/meeting_file.h"
#include "comm/rendezvous/run_secret.h"
#include "kernels/base/error.h"
#include "tests/support/catch.h"
#include "tests/support/files.h"
#include "tests/support/message_of.h"
#include "tests/support/skip.h"
#include "tests/support/temporary_folder.h"
#include "tests/unit/comm/ranks.h"

using namespace lockstep;
using namespace lockstep::comm;
using namespace lockstep::comm::testing;

namespace {

Deadline soon() {
  return Deadline::in(Seconds(10));
}

/// Two nodes of one rank each.
World world_of(int rank, const std::string& run_id, const std::string& source = "torchrun") {
  World world = local_world(0, 1, run_id);
  world.rank = world.node_rank = rank;
  world.size = world.node_count = 2;
  world.master_addr = "127.0.0.1";
  world.source = source;
  return world;
}

std::filesystem::path secret_file(const tests::TemporaryFolder& folder, const std::string& text,
                                  mode_t mode = 0600) {
  const auto path = folder / "token";
  tests::write_file(path, text);
  ::chmod(path.c_str(), mode);
  return path;
}

Environment with_token(const std::string& token) {
  return [token](const char* name) -> std::optional<std::string> {
    return std::string(name) == token_variable ? std::optional(token) : std::nullopt;
  };
}

const Environment empty_environment = [](const char*) -> std::optional<std::string> { return {}; };

/// Both ranks meet and read what the other wrote.
void greet_each_other(Rendezvous& met, int rank) {
  met.store.set(rank == 0 ? "zero" : "one", "here", soon());
  met.store.wait(rank == 0 ? "one" : "zero", soon());
  // Rank 0 has the server, so it leaves last: what it waits for is sent after rank 1's last reply.
  if (rank == 0) met.store.wait("rank 1 is done", soon());
  if (rank == 1) met.store.set("rank 1 is done", "", soon());
  if (rank == 1 && met.server) throw std::runtime_error("rank 1 has a server");
  if (met.own_address.empty()) throw std::runtime_error("no own address");
}

/// The other rank in a process of its own.
void meet_in_two_processes(const CommOptions& options, const std::string& run_id) {
  RankProcess other([&] {
    Rendezvous met = open_rendezvous(world_of(1, run_id), options, soon());
    greet_each_other(met, 1);
  });
  Rendezvous met = open_rendezvous(world_of(0, run_id), options, soon());
  greet_each_other(met, 0);
  CHECK(other.outcome().empty());
}

}  // namespace

TEST_CASE("the secret comes from --token-file, then LOCKSTEP_TOKEN", "[rendezvous]") {
  const tests::TemporaryFolder folder;
  CommOptions options;
  CHECK_FALSE(given_secret(options, empty_environment));
  CHECK(given_secret(options, with_token("the secret in the variable")) == "the secret in the variable");
  options.token_file = secret_file(folder, "the secret in the file\n");
  CHECK(given_secret(options, with_token("the secret in the variable")) == "the secret in the file");
  options.insecure = true;
  CHECK_THROWS_AS(given_secret(options, empty_environment), UsageError);
  options.token_file.clear();
  CHECK(given_secret(options, with_token("the secret in the variable")) == "");
}

TEST_CASE("a secret's file that is none is refused with the hint", "[rendezvous]") {
  const tests::TemporaryFolder folder;
  const auto message = [](const std::filesystem::path& path) {
    CommOptions options;
    options.token_file = path;
    return tests::message_of<UsageError>([&] { given_secret(options, empty_environment); });
  };
  CHECK_THAT(message(folder / "none"), tests::contains("no such file"));
  CHECK_THAT(message(secret_file(folder, "secret", 0640)), tests::contains("chmod 600"));
  CHECK_THAT(message(secret_file(folder, "secret", 0604)), tests::contains("chmod 600"));
  for (const char* weak : {" \n", "15 bytes long..\n"}) {
    CHECK_THAT(message(secret_file(folder, weak)),
               tests::contains("needs 16") && tests::contains("openssl rand -hex 32"));
  }
  CHECK_THAT(message(secret_file(folder, std::string(5000, 'x'))), tests::contains("4096"));
  CHECK_THAT(message(folder.path()), tests::contains("no regular file"));
}

TEST_CASE("a secret that Kubernetes mounts for the pod's group is taken", "[rendezvous]") {
  if (geteuid() != 0) return tests::skip("only root can give files away");
  constexpr gid_t own_group = 4321;
  constexpr uid_t nobody = 65534;
  const auto outcome = [&](gid_t group, mode_t mode, uid_t owner = 0) {
    const tests::TemporaryFolder folder;
    std::filesystem::permissions(folder.path(), std::filesystem::perms(0755));
    const auto path = secret_file(folder, "the secret of the pod", mode);
    REQUIRE(chown(path.c_str(), owner, group) == 0);
    RankProcess pod([&] {
      if (setgroups(1, &own_group) != 0 || setgid(nobody) != 0 || setuid(nobody) != 0) {
        throw std::runtime_error("cannot become another user");
      }
      CommOptions options;
      options.token_file = path;
      if (given_secret(options, empty_environment) != "the secret of the pod")
        throw std::runtime_error("other");
    });
    return pod.outcome();
  };
  CHECK(outcome(own_group, 0440) == "");
  CHECK(outcome(own_group, 0640) == "");
  CHECK_THAT(outcome(own_group, 0660), tests::contains("chmod 600"));  // others could have put it there
  CHECK_THAT(outcome(own_group, 0444), tests::contains("chmod 600"));
  CHECK_THAT(outcome(own_group, 0440, nobody), tests::contains("chmod 600"));
  CHECK_THAT(outcome(own_group + 1, 0440), tests::contains("Permission denied"));
}

TEST_CASE("a meeting point survives its text", "[rendezvous]") {
  const MeetingPoint point{"fe80::1%eth0", 29500, {"run", "secret", 3}};
  const auto read = parse_meeting_point(to_text(point));
  REQUIRE(read);
  CHECK(to_text(*read) == to_text(point));
  CHECK(parse_meeting_point("a\n1\nr\ns\n0\n"));
  for (const char* text : {"", "none\n", "a\n0\nr\ns\n0\n", "a\nb\nr\ns\n0\n", "a\n1\nr\ns\n",
                           "a\n1\nr\ns\n0", "a\n1\nr\ns\nt\n", "a\n1\nr\ns\n0\nt\n"}) {
    CHECK_FALSE(parse_meeting_point(text));
  }
}

TEST_CASE("two processes meet by address and token", "[rendezvous]") {
  const tests::TemporaryFolder folder;
  CommOptions options;
  options.token_file = secret_file(folder, "the secret of the test");
  meet_in_two_processes(options, fresh_run_id());
}

TEST_CASE("each start of a run has an incarnation of its own, which all ranks learn", "[rendezvous]") {
  const tests::TemporaryFolder folder;
  CommOptions options;
  options.token_file = secret_file(folder, "the secret of the test");
  const std::string run_id = fresh_run_id();
  const auto start = [&] {
    std::array<std::uint64_t, 2> incarnations{};
    const auto errors = run_threads(2, [&](int rank) {
      Rendezvous met = open_rendezvous(world_of(rank, run_id), options, soon());
      incarnations[static_cast<std::size_t>(rank)] = met.incarnation;
      greet_each_other(met, rank);
    });
    CHECK(errors == std::vector<std::string>(2));
    CHECK(incarnations[0] == incarnations[1]);
    return incarnations[0];
  };
  CHECK(start() != start());
}

TEST_CASE("a meeting file of a start that lives is left alone", "[rendezvous]") {
  const tests::TemporaryFolder folder;
  CommOptions options;
  options.run_dir = folder / "run";
  const World world = world_of(0, fresh_run_id());
  const Rendezvous first = open_rendezvous(world, options, soon());
  const std::string before = tests::contents(MeetingFile::in(options.run_dir));
  const std::string message = tests::message_of<UsageError>([&] { open_rendezvous(world, options, soon()); });
  CHECK_THAT(message, tests::contains(fmt::format("rank 0 (pid {} on ", getpid())));
  CHECK(tests::contents(MeetingFile::in(options.run_dir)) == before);
  CHECK(tests::files_in(options.run_dir) == 1);
}

TEST_CASE("a claim lasts as long as its connection", "[rendezvous]") {
  const Credentials credentials{fresh_run_id(), "the secret of the test"};
  const StoreServer server("127.0.0.1", {0}, credentials);
  const auto connect = [&] {
    return StoreClient::connect("127.0.0.1", {server.port()}, credentials, soon());
  };
  StoreClient other = connect();
  {
    StoreClient first = connect();
    CHECK_FALSE(first.claim("rank/1", "rank 1 (pid 5)", soon()));
    CHECK(other.claim("rank/1", "rank 1 (pid 6)", soon()) == "rank 1 (pid 5)");
    CHECK(other.get("rank/1", soon()) == "rank 1 (pid 5)");
    first.say_goodbye(soon());
  }
  // The server may see the end of that connection after this request.
  while (other.claim("rank/1", "rank 1 (pid 6)", soon()) == "rank 1 (pid 5)") {
  }
  CHECK(other.get("rank/1", soon()) == "rank 1 (pid 6)");
}

TEST_CASE("a rank that dies is lost by its name", "[rendezvous]") {
  const tests::TemporaryFolder folder;
  CommOptions options;
  options.token_file = secret_file(folder, "the secret of the test");
  const std::string run_id = fresh_run_id();
  std::promise<std::string> lost;
  Rendezvous met = open_rendezvous(world_of(0, run_id), options, soon());
  met.server->on_lost([&](const std::string& name, const std::string&) { lost.set_value(name); });
  const RankProcess other([&] {
    World of_launch = world_of(1, run_id);
    of_launch.start_ns = 1;
    const Rendezvous theirs = open_rendezvous(of_launch, options, soon());
    raise(SIGKILL);
  });
  std::future<std::string> name = lost.get_future();
  const bool came = name.wait_until(soon().when()) == std::future_status::ready;
  met.server->on_lost({});
  REQUIRE(came);
  CHECK_THAT(name.get(), tests::contains(fmt::format("rank 1 (pid {} on ", other.pid())));
}

TEST_CASE("two processes meet through RUN/meeting, past an old one", "[rendezvous]") {
  const tests::TemporaryFolder folder;
  CommOptions options;
  options.run_dir = folder / "run";
  const std::string run_id = fresh_run_id();
  {
    // What a killed start of the same run left behind: nobody listens there any more.
    const MeetingFile old(options.run_dir, {"127.0.0.1", 1, {run_id, "old secret"}}, Seconds(10));
    std::filesystem::copy(MeetingFile::in(options.run_dir), folder / "kept");
    struct stat status {};
    ::stat(MeetingFile::in(options.run_dir).c_str(), &status);
    CHECK((status.st_mode & 0777) == 0600);
  }
  std::filesystem::rename(folder / "kept", MeetingFile::in(options.run_dir));
  ::chmod(MeetingFile::in(options.run_dir).c_str(), 0600);
  meet_in_two_processes(options, run_id);
  CHECK(tests::files_in(options.run_dir) == 0);
}

TEST_CASE("under Open MPI ranks meet by a broadcast, whose disks need not be shared", "[rendezvous]") {
  const std::string run_id = fresh_run_id();
  std::mutex mutex;
  std::condition_variable changed;
  std::optional<std::string> sent;
  const tests::TemporaryFolder folder;
  const Broadcast broadcast = [&](std::string_view text) {
    std::unique_lock lock(mutex);
    if (!text.empty()) sent = text;
    changed.notify_all();
    changed.wait_until(lock, soon().when(), [&] { return sent.has_value(); });
    return sent.value_or("");
  };
  const auto errors = run_threads(2, [&](int rank) {
    CommOptions options;
    options.run_dir = folder / std::to_string(rank);
    Rendezvous met = open_rendezvous(world_of(rank, run_id, "openmpi"), options, soon(), broadcast);
    greet_each_other(met, rank);
  });
  CHECK(errors == std::vector<std::string>(2));
}

TEST_CASE("without a common secret one line says what to do", "[rendezvous]") {
  const std::string message = tests::message_of<UsageError>(
      [] { open_rendezvous(world_of(0, fresh_run_id()), {}, Deadline::in(Seconds(1))); });
  for (const char* hint : {"--token-file", "LOCKSTEP_TOKEN", "--run-dir", "--insecure"}) {
    CHECK_THAT(message, tests::contains(hint));
  }
}

TEST_CASE("--insecure is a choice that works", "[rendezvous]") {
  CommOptions options;
  options.insecure = true;
  meet_in_two_processes(options, fresh_run_id());
}
