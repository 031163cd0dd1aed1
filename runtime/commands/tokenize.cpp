#include <fmt/format.h>

#include "data/text/tokenizer.h"
#include "runtime/commands/commands.h"
#include "runtime/commands/own_options.h"

namespace lockstep::runtime {
namespace {

namespace po = boost::program_options;

data::TokenizeRequest parse(const std::vector<std::string>& arguments) {
  po::options_description description;
  description.add_options()("input", po::value<std::string>()->required());
  description.add_options()("output", po::value<std::string>()->required());
  description.add_options()("tokenizer", po::value<std::string>()->default_value("characters"));
  const po::variables_map given = parse_own_options(arguments, description, tokenize_usage);
  const auto text = [&](const char* name) { return given[name].as<std::string>(); };
  return {.input = text("input"),
          .output = text("output"),
          .tokenizer = text("tokenizer") == "characters" ? std::string() : text("tokenizer")};
}

}  // namespace

int tokenize_command(const std::vector<std::string>& arguments) {
  for (const data::TokenizedFile& file : data::tokenize_files(parse(arguments))) {
    fmt::print("{}: {} tokens of a vocabulary of {}\n", file.path.string(), file.tokens, file.vocab_size);
  }
  return 0;
}

}  // namespace lockstep::runtime
