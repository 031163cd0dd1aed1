#include "data/files/published.h"

#include <algorithm>
#include <array>

namespace lockstep::data {
namespace {

PublishedSet idx_set(std::string name, std::vector<std::string> mirrors, std::vector<PublishedFile> files) {
  constexpr std::array names{"train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz",
                             "t10k-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz"};
  for (std::size_t i = 0; i < names.size(); ++i) files[i].name = names[i];
  return {std::move(name), std::move(mirrors), std::move(files)};
}

/// Places and MD5 sums are torchvision's; the SHA-256 sums are of the files with those MD5 sums.
std::vector<PublishedSet> make_sets() {
  return {
      idx_set("fashion-mnist",
              {"http://fashion-mnist.s3-website.eu-central-1.amazonaws.com",
               "https://github.com/zalandoresearch/fashion-mnist/raw/master/data/fashion"},
              {{"", 26421880, "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84"},
               {"", 29515, "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845"},
               {"", 4422102, "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073"},
               {"", 5148, "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5"}}),
      idx_set("mnist",
              {"https://ossci-datasets.s3.amazonaws.com/mnist",
               "https://storage.googleapis.com/cvdf-datasets/mnist"},
              {{"", 9912422, "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609"},
               {"", 28881, "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c"},
               {"", 1648877, "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6"},
               {"", 4542, "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6"}}),
      {"cifar10",
       {"https://www.cs.toronto.edu/~kriz"},
       {{"cifar-10-python.tar.gz", 170498071,
         "6d958be074577803d12ecdefd02955f39262c83c16fe9348329d7fe0b5c001ce"}}},
  };
}

}  // namespace

const PublishedSet* find_published(const std::string& dataset) {
  static const std::vector<PublishedSet> sets = make_sets();
  const auto found = std::ranges::find(sets, dataset, &PublishedSet::name);
  return found == sets.end() ? nullptr : &*found;
}

}  // namespace lockstep::data
