// --download, from a server of the test's own. Debian's package has Fashion-MNIST's files as published but
// for gzip's header, which lost the time and the name: with these put back they have the published sums.
#include "tests/support/http_server.h"
#include "tests/support/training.h"

namespace lockstep::tests {
namespace {

using Answer = HttpServer::Answer;

std::string published_file(const std::string& name) {
  const std::string packaged = contents("/usr/share/datasets/fashion-mnist/" + name);
  REQUIRE(packaged.size() > 10);
  const std::uint32_t time = name.starts_with("train") ? 1504176606 : 1504176627;
  std::string header("\x1f\x8b\x08\x08", 4);
  for (int shift = 0; shift < 32; shift += 8) header += static_cast<char>(time >> shift);
  return header + std::string("\0\x03", 2) + name.substr(0, name.size() - 3) + '\0' + packaged.substr(10);
}

HttpServer::Answers fashion_mnist() {
  std::map<std::string, std::string> files;
  for (const std::string split : {"train", "t10k"}) {
    for (const std::string kind : {"-images-idx3-ubyte.gz", "-labels-idx1-ubyte.gz"})
      files["/fashion-mnist/" + split + kind] = published_file(split + kind);
  }
  return [files](const std::string& path) { return Answer{.body = files.at(path)}; };
}

/// A step on data from `server`, which go into `folder`/data.
Words run_from(const HttpServer& server, const TemporaryFolder& folder, int ranks) {
  return Words{"/usr/bin/env", "LOCKSTEP_DATA_MIRROR=" + server.url(),
               "XDG_CACHE_HOME=" + (folder / "cache").string()} +
         trainer_words(ranks, {"--model=mlp", "--dataset=fashion-mnist", "--download", "--max-steps=1",
                               "--threads=1", "--eval-every=0", "--data-dir", (folder / "data").string(),
                               "--run-dir", (folder / "run").string()});
}

TEST_CASE("the ranks of a node fetch a data set once, and the next run fetches nothing") {
  const HttpServer server(fashion_mnist());
  const TemporaryFolder folder;
  for (int i = 0; i < 2; ++i) {
    std::filesystem::remove_all(folder / "run");
    Program run(run_from(server, folder, 2));
    const int code = run.wait_for_end();
    INFO(run.output());
    CHECK(code == 0);
  }
  const std::string at = "/fashion-mnist/";
  CHECK(server.requests() == std::map<std::string, int>{{at + "t10k-images-idx3-ubyte.gz", 1},
                                                        {at + "t10k-labels-idx1-ubyte.gz", 1},
                                                        {at + "train-images-idx3-ubyte.gz", 1},
                                                        {at + "train-labels-idx1-ubyte.gz", 1}});
}

TEST_CASE("a server without the files ends a run with 4, one with other files with 3") {
  const auto ends = [](const HttpServer::Answers& answers, int code, const std::string& reason) {
    const HttpServer server(answers);
    const TemporaryFolder folder;
    Program run(run_from(server, folder, 1));
    CHECK(run.wait_for_end() == code);
    CHECK_THAT(run.output(), contains("--download fashion-mnist: " + server.url() +
                                      "/fashion-mnist/train-images-idx3-ubyte.gz: " + reason));
    CHECK(std::ranges::count(run.output(), '\n') == 1);
    CHECK_FALSE(std::filesystem::exists(folder / "data/train-images-idx3-ubyte.gz"));
  };
  ends([](auto&) { return Answer{.status = 404}; }, 4, "the server answered 404; try again");
  ends([](auto&) { return Answer{.body = "an error page"}; }, 3, "13 of 26421880 bytes with SHA-256 ");
}

TEST_CASE("--download of what cannot be fetched is refused with what can") {
  Program run(trainer_words(1, {"--model=mlp", "--dataset=synthetic", "--download"}));
  CHECK(run.wait_for_end() == 2);
  CHECK_THAT(run.output(), contains("--download: synthetic is not among the data sets that can be fetched: "
                                    "fashion-mnist, mnist, cifar10"));
}

TEST_CASE("without --download nothing of libcurl is loaded") {
  Program ldd({"/usr/bin/ldd", TRAINER_PROGRAM});
  CHECK(ldd.wait_for_end() == 0);
  CHECK_THAT(ldd.output(), !contains("libcurl"));
}

}  // namespace
}  // namespace lockstep::tests
