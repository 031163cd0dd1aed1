#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <string>

#include "tests/structure/check.h"
#include "tests/support/catch.h"

using lockstep::structure::SourceFile;

namespace {

bool calls_vendors(const std::string& path) {
  return path.starts_with("kernels/cuda/") || path.starts_with("comm/nccl/") ||
         path.starts_with("kernels/base/nvml");
}

/// Functions of the vendors' libraries that the text calls, or looks up by their names.
std::set<std::string> vendor_calls(const std::string& text) {
  static const std::regex comment("//[^\n]*");
  static const std::regex call(R"(\b((?:cuda|cublasLt|cudnn|nccl|nvml)[A-Z]\w*)(?=\s*\(|"))");
  const std::string code = std::regex_replace(text, comment, "");
  std::set<std::string> names;
  for (auto at = std::sregex_iterator(code.begin(), code.end(), call); at != std::sregex_iterator(); ++at)
    if (!std::string((*at)[1]).ends_with("_t")) names.insert((*at)[1]);  // not a type
  return names;
}

bool stands_in(const std::string& list, const std::string& name) {
  return std::regex_search(list, std::regex("\\b" + name + "\\b"));
}

}  // namespace

TEST_CASE("every function of the vendors' libraries that we call stands in the list of what proves it") {
  std::ifstream readme(std::filesystem::path(LOCKSTEP_SOURCE_DIR) / "kernels/cuda/README.md");
  const std::string list{std::istreambuf_iterator<char>(readme), {}};
  std::set<std::string> names;
  for (const SourceFile& file : lockstep::structure::read_sources(LOCKSTEP_SOURCE_DIR)) {
    if (calls_vendors(file.path)) names.merge(vendor_calls(file.text));
  }
  CHECK(names.size() > 80);
  for (const std::string& name : names) {
    if (!stands_in(list, name)) FAIL_CHECK("kernels/cuda/README.md does not say what proves " << name);
  }
}

TEST_CASE("calls of the vendors' libraries are told from types and comments") {
  CHECK(vendor_calls("check(cudaFree(p), \"x\"); require(library, \"ncclAbort\", a);") ==
        std::set<std::string>{"cudaFree", "ncclAbort"});
  CHECK(vendor_calls("cudaError_t (*call)(); // cudaMalloc(\nlockstep::cuda_devices();").empty());
  CHECK_FALSE(stands_in("| cudaFreeHost |", "cudaFree"));
}
