#include "data/files/download.h"

#include <algorithm>
#include <map>

#include "kernels/base/error.h"
#include "kernels/base/hash.h"
#include "tests/support/catch.h"
#include "tests/support/child_process.h"
#include "tests/support/files.h"
#include "tests/support/http_server.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"

using namespace lockstep;
using namespace lockstep::data;
using namespace lockstep::tests;

namespace {

using Answer = HttpServer::Answer;

const std::string small = "labels";
const std::string large(3'000'000, 'x');

PublishedFile published(const std::string& name, const std::string& bytes) {
  return {name, bytes.size(), Sha256().update(bytes).hex()};
}

/// A set of two files at these servers.
PublishedSet set_at(std::vector<std::string> mirrors) {
  return {"letters", std::move(mirrors), {published("images.gz", large), published("labels.gz", small)}};
}

Answer sound(const std::string& path) {
  return {.body = path.ends_with("images.gz") ? large : small};
}

/// The files of `folder`, hidden ones too, but for the lock.
std::vector<std::string> names_in(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  for (const auto& file : std::filesystem::directory_iterator(folder)) {
    const std::string name = file.path().filename().string();
    if (name != ".download.lock") names.push_back(name);
  }
  std::ranges::sort(names);
  return names;
}

/// What a download from this server alone says; nothing is left of `images.gz` then.
template <class Error>
std::string failure(const HttpServer& server) {
  const TemporaryFolder folder;
  const std::string message =
      message_of<Error>([&] { download(set_at({server.url()}), folder / "set", {.silence = Seconds(0.5)}); });
  CHECK(names_in(folder / "set").empty());
  const std::string url = server.url() + "/images.gz: ";
  const std::size_t at = message.find(url);
  const std::string hint = "; try again, put the file into " + (folder / "set").string() +
                           ", or name another server by LOCKSTEP_DATA_MIRROR";
  REQUIRE(message.starts_with("--download letters: "));
  REQUIRE(message.ends_with(hint));
  REQUIRE(at != std::string::npos);
  return message.substr(at + url.size(), message.size() - hint.size() - at - url.size());
}

}  // namespace

TEST_CASE("files that are missing are fetched whole, once") {
  const HttpServer server(sound);
  const TemporaryFolder folder;
  for (int i = 0; i < 2; ++i) download(set_at({server.url() + "/here"}), folder / "deep/set");
  CHECK(contents(folder / "deep/set/images.gz") == large);
  CHECK(contents(folder / "deep/set/labels.gz") == small);
  CHECK(server.requests() == std::map<std::string, int>{{"/here/images.gz", 1}, {"/here/labels.gz", 1}});
}

TEST_CASE("a file that is there, packed or unpacked, is not fetched") {
  const HttpServer server(sound);
  const TemporaryFolder folder;
  write_file(folder / "images", "mine");
  write_file(folder / "labels.gz", "mine too");
  download(set_at({server.url()}), folder.path());
  CHECK(server.requests().empty());
  CHECK(names_in(folder.path()) == std::vector<std::string>{"images", "labels.gz"});
}

TEST_CASE("a redirect is followed, but not out of HTTP") {
  const TemporaryFolder folder;
  write_file(folder / "images.gz", large);
  const HttpServer server([&](const std::string& path) {
    if (path.starts_with("/file")) {
      return Answer{.status = 302, .headers = "Location: file://" + (folder / "images.gz").string() + "\r\n"};
    }
    return path.starts_with("/old") ? Answer{.status = 302, .headers = "Location: /new" + path + "\r\n"}
                                    : sound(path);
  });
  download(set_at({server.url() + "/old"}), folder / "set");
  CHECK(contents(folder / "set/images.gz") == large);
  CHECK_THAT(message_of<DeviceError>([&] { download(set_at({server.url() + "/file"}), folder / "other"); }),
             contains("Protocol"));
  CHECK_THAT(message_of<DeviceError>(
                 [&] { download(set_at({"file://" + folder.path().string()}), folder / "other"); }),
             contains("Protocol"));
  CHECK(names_in(folder / "other").empty());
}

TEST_CASE("what is not the published file is refused with its sum") {
  std::string other = large;
  other[1'000'000] = 'y';
  CHECK(failure<DataError>(HttpServer([&](auto&) { return Answer{.body = other}; })) ==
        "3000000 of 3000000 bytes with SHA-256 " + Sha256().update(other).hex() + ", not " +
            Sha256().update(large).hex());
  CHECK(failure<DataError>(HttpServer([&](auto&) { return Answer{.body = large + "x"}; })) ==
        "more than the 3000000 bytes of the published file");
  CHECK_THAT(failure<DataError>(HttpServer([&](auto&) { return Answer{.body = "short"}; })),
             contains("5 of 3000000 bytes with SHA-256 "));
}

TEST_CASE("a server that refuses, stops in the middle or keeps silent is told") {
  CHECK(failure<DeviceError>(HttpServer([](auto&) { return Answer{.status = 404}; })) ==
        "the server answered 404");
  CHECK_THAT(failure<DeviceError>(HttpServer(
                 [](auto&) { return Answer{.body = large.substr(0, 1'000'000), .missing = 2'000'000}; })),
             contains("after 1000000 of 3000000 bytes"));
  const auto before = Clock::now();
  CHECK(failure<DeviceError>(HttpServer([](auto&) {
          return Answer{.body = large.substr(0, 1'000'000), .missing = 2'000'000, .stays_open = true};
        })) == "no byte for 0.5 s, after 1000000 of 3000000");
  CHECK(Clock::now() - before < std::chrono::seconds(10));
}

TEST_CASE("the next mirror is asked when one fails") {
  const HttpServer gone([](auto&) { return Answer{.status = 503}; });
  const HttpServer server(sound);
  const TemporaryFolder folder;
  download(set_at({gone.url(), server.url()}), folder.path());
  CHECK(contents(folder / "images.gz") == large);
  CHECK(gone.requests() == server.requests());
}

TEST_CASE("parts that a killed process left are removed") {
  const HttpServer server(sound);
  const TemporaryFolder folder;
  write_file(folder / ".images.gz.0123456789abcdef.tmp", "part");
  write_file(folder / ".other.tmp", "not ours");
  download(set_at({server.url()}), folder.path());
  CHECK(names_in(folder.path()) == std::vector<std::string>{".other.tmp", "images.gz", "labels.gz"});
}

TEST_CASE("of several processes at once one fetches, and the others wait for it") {
  int started[2];
  REQUIRE(::pipe(started) == 0);
  const HttpServer server([&](const std::string& path) {
    Answer answer = sound(path);
    // The file is under way when all have begun.
    answer.before_body = [&] {
      char begun[3];
      for (std::size_t got = 0; path.ends_with("images.gz") && got < 3;) {
        const ssize_t more = ::read(started[0], begun, 3 - got);
        if (more <= 0) return;
        got += static_cast<std::size_t>(more);
      }
    };
    return answer;
  });
  const TemporaryFolder folder;
  std::vector<std::unique_ptr<ChildProcess>> children;
  for (int i = 0; i < 3; ++i) {
    children.push_back(std::make_unique<ChildProcess>([&] {
      if (::write(started[1], "s", 1) != 1) return 1;
      download(set_at({server.url()}), folder / "set");
      return contents(folder / "set/images.gz") == large ? 0 : 2;
    }));
  }
  for (auto& child : children) CHECK(child->wait() == 0);
  CHECK(server.requests() == std::map<std::string, int>{{"/images.gz", 1}, {"/labels.gz", 1}});
  ::close(started[0]);
  ::close(started[1]);
}

TEST_CASE("what --download fetches has sums and places") {
  for (const char* name : {"fashion-mnist", "mnist", "cifar10"}) {
    const PublishedSet* set = find_published(name);
    REQUIRE(set != nullptr);
    CHECK_FALSE(set->mirrors.empty());
    for (const PublishedFile& file : set->files) CHECK(file.sha256.size() == 64);
  }
  CHECK(find_published("synthetic") == nullptr);
}
