#include <algorithm>
#include <cstdlib>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "tests/bench/limits/comparison.h"
#include "tests/bench/limits/machine.h"
#include "tests/bench/limits/step.h"
#include "tests/bench/limits/workloads.h"

// What this machine can do, and how near our kernels come to it: see `usage`.
namespace lockstep::bench {
namespace {

using Json = nlohmann::json;

constexpr int missed = 1;  // exit status: a share below what it must be
constexpr int wrong_use = 2;

constexpr const char* usage =
    R"(usage: limits [--json] [--threads N]
       limits --convolutions|--products [--amp off|bf16] [--json] [--threads N] [MODEL ...]
       limits --step [--amp off|bf16] [--json] [--threads N] [MODEL ...]

Without an option: memcpy, products of oneDNN and a chain of pointwise ops, for one thread and for two.
--convolutions, --products: each of a model's step, forward and gradients, in f32 and as --amp bf16 plans it
    (both, unless --amp says one), beside the fastest that oneDNN itself has for it with every layout free. Ends with 1 when one has less than
    {} of the speed of the faster of the two.
--step: by kind, a step's kernels alone beside their limits: products and convolutions as above, others as long
    as memcpy takes for their bytes.
These three take one thread, unless --threads says otherwise.
MODEL: {}; default: those with convolutions, those with products, all.
)";

struct Words {
  bool help = false;
  bool json = false;
  std::optional<bool> bf16;
  std::optional<Table> table;  ///< none: the machine's
  std::optional<int> threads;
  std::vector<std::string> models;
};

std::optional<Words> parse(std::span<char* const> arguments) {
  const std::vector<std::string> known = workloads_of(Table::step);
  Words words;
  for (std::size_t i = 1; i < arguments.size(); ++i) {
    const std::string word = arguments[i];
    const std::string next = i + 1 < arguments.size() ? arguments[i + 1] : "";
    if (word == "--help" || word == "-h") {
      words.help = true;
    } else if (word == "--json") {
      words.json = true;
    } else if (word == "--convolutions") {
      words.table = Table::convolutions;
    } else if (word == "--products") {
      words.table = Table::products;
    } else if (word == "--step") {
      words.table = Table::step;
    } else if (word == "--amp" && words.table && (next == "off" || next == "bf16")) {
      words.bf16 = next == "bf16";
      ++i;
    } else if (word == "--threads" && std::atoi(next.c_str()) > 0) {
      words.threads = std::atoi(next.c_str());
      ++i;
    } else if (words.table && std::ranges::count(known, word) > 0) {
      words.models.push_back(word);
    } else {
      return std::nullopt;
    }
  }
  if (words.table && words.models.empty()) words.models = workloads_of(*words.table);
  return words;
}

/// Prints a table at once, or with --json all of them at the end.
class Report {
 public:
  explicit Report(bool as_json) : as_json_(as_json) {}

  void add(const Json& machine) { as_json_ ? all_.push_back(machine) : print_machine(machine); }
  template <class Measured>
  void add(const Measured& table) {
    as_json_ ? all_.push_back(table.json()) : table.print();
  }
  void end() const {
    if (as_json_) fmt::print("{}\n", all_.dump(2));
  }

 private:
  bool as_json_;
  Json all_ = Json::array();
};

int run(const Words& words) {
  Report report(words.json);
  std::size_t slow = 0;
  if (!words.table) {
    for (const int threads : words.threads ? std::vector{*words.threads} : std::vector{1, 2}) {
      report.add(measure_machine(threads));
    }
  }
  const int threads = words.threads.value_or(1);
  for (const std::string& model : words.models) {
    if (words.table == Table::step) {
      report.add(measure_step(model, words.bf16.value_or(false), threads));
      continue;
    }
    const bool convolutions = words.table == Table::convolutions;
    const ComparisonTable table =
        measure(convolutions ? "convolutions" : "products", convolutions ? convolutions_of : products_of,
                model, words.bf16, threads);
    slow += table.slow();
    report.add(table);
  }
  report.end();
  return slow > 0 ? missed : 0;
}

}  // namespace
}  // namespace lockstep::bench

int main(int argc, char** argv) {
  using namespace lockstep::bench;
  const auto words = parse({argv, static_cast<std::size_t>(argc)});
  if (!words || words->help) {
    fmt::print(words ? stdout : stderr, usage, least_share, fmt::join(workloads_of(Table::step), ", "));
    return words ? 0 : wrong_use;
  }
  return run(*words);
}
