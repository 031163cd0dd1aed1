// A zoo without models, and no data sets: what options name is not what their fuzzers are about.
#include "data/datasets.h"
#include "data/text/packed_windows.h"
#include "model/zoo/zoo.h"

namespace lockstep::model {
const std::vector<ZooEntry>& zoo() {
  static const std::vector<ZooEntry> none;
  return none;
}
const ZooEntry* find_entry(std::span<const ZooEntry>, const std::string&) {
  return nullptr;
}
std::vector<std::string> argument_names(const ZooEntry&) {
  return {};
}
std::vector<std::string> model_names(std::span<const ZooEntry>) {
  return {};
}
}  // namespace lockstep::model

namespace lockstep::data {
const std::vector<DatasetEntry>& datasets() {
  static const std::vector<DatasetEntry> none;
  return none;
}
std::optional<std::string> dataset_at(const std::string&, bool) {
  return std::nullopt;
}
std::vector<std::string> dataset_names(std::span<const DatasetEntry>) {
  return {};
}
// clang 14 does not compile its file.
DatasetPtr make_packed_windows(std::vector<TokenPiece>, const WindowRule&, const SampleSpec&, std::uint64_t) {
  return nullptr;
}
}  // namespace lockstep::data
