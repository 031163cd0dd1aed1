// Name servers that never answer: whoever resolves a name ends in time, and tells which.
#include <arpa/inet.h>
#include <fcntl.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <cstring>

#include "tests/support/child_process.h"
#include "tests/support/skip.h"
#include "tests/support/training.h"
#include "tests/support/unused_port.h"

namespace lockstep::tests {
namespace {

bool bring_up_loopback() {
  ifreq request{};
  std::strcpy(request.ifr_name, "lo");
  request.ifr_flags = IFF_UP;
  const int any_socket = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  return ::ioctl(any_socket, SIOCSIFFLAGS, &request) == 0;
}

/// Takes queries; stays open in the program that this process becomes.
bool open_silent_name_server() {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(53);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const int server = ::socket(AF_INET, SOCK_DGRAM, 0);
  return ::bind(server, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
}

bool replace_file(const std::filesystem::path& file, const std::filesystem::path& by) {
  return ::mount(by.c_str(), file.c_str(), nullptr, MS_BIND, nullptr) == 0;
}

struct End {
  int code;
  std::string output;
  Seconds took;
};

/// Of a program on a machine of its own, whose name server is silent.
End end_without_names(const Words& words) {
  const TemporaryFolder folder;
  write_file(folder / "resolv.conf", "nameserver 127.0.0.1\noptions timeout:5 attempts:6\n");
  write_file(folder / "nsswitch.conf", "hosts: files dns\n");
  const auto start = Clock::now();
  ChildProcess child([&] {
    const bool is_ready = have_own_mounts() && ::unshare(CLONE_NEWNET) == 0 && bring_up_loopback() &&
                          replace_file("/etc/resolv.conf", folder / "resolv.conf") &&
                          replace_file("/etc/nsswitch.conf", folder / "nsswitch.conf") &&
                          open_silent_name_server();
    if (!is_ready) return not_allowed;
    const int output = ::open((folder / "output").c_str(), O_CREAT | O_WRONLY, 0600);
    ::dup2(output, STDOUT_FILENO);
    ::dup2(output, STDERR_FILENO);
    std::vector<char*> argv;
    for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
    argv.push_back(nullptr);
    ::execv(argv[0], argv.data());
    return 127;
  });
  const int code = child.wait();
  return {code, contents(folder / "output"), Clock::now() - start};
}

constexpr const char* says_which = "cannot resolve training.example: the name servers do not answer";

TEST_CASE("launch does not wait for silent name servers", "[fault]") {
  const End end = end_without_names({LAUNCH_PROGRAM, "--master-addr=training.example", "true"});
  if (end.code == not_allowed) return skip("a network namespace of one's own needs root");
  CAPTURE(end.output, end.took.count());
  CHECK(end.code == 2);
  CHECK_THAT(end.output, contains(says_which));
  CHECK(end.took < Seconds(15));
}

TEST_CASE("a rank waits for silent name servers no longer than --timeout", "[fault]") {
  const int rank = GENERATE(0, 1);
  const TemporaryFolder folder;
  const End end = end_without_names(
      {"/usr/bin/env", "LOCKSTEP_TOKEN=the secret of this test", "RANK=" + std::to_string(rank),
       "WORLD_SIZE=2", "LOCAL_RANK=0", "LOCAL_WORLD_SIZE=1", "MASTER_ADDR=training.example",
       "MASTER_PORT=" + std::to_string(unused_port()), TRAINER_PROGRAM, "--model=mlp", "--dataset=synthetic",
       "--timeout=1", "--run-dir=" + (folder / "run").string()});
  if (end.code == not_allowed) return skip("a network namespace of one's own needs root");
  CAPTURE(rank, end.output, end.took.count());
  CHECK(end.code == 5);
  CHECK_THAT(end.output, contains(says_which));
  if (rank == 0) CHECK_THAT(end.output, contains("rank 1 of 2 did not join"));
  CHECK(end.took < Seconds(7));
}

}  // namespace
}  // namespace lockstep::tests
