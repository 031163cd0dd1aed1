#include <fmt/format.h>
#include <boost/program_options.hpp>

#include "data/text/tokenizer.h"
#include "kernels/base/error.h"
#include "runtime/commands/commands.h"

namespace lockstep::runtime {
namespace {

namespace po = boost::program_options;

data::TokenizeRequest parse(const std::vector<std::string>& arguments) {
  po::options_description description;
  description.add_options()("input", po::value<std::string>()->required());
  description.add_options()("output", po::value<std::string>()->required());
  description.add_options()("tokenizer", po::value<std::string>()->default_value("characters"));
  constexpr int style = po::command_line_style::default_style & ~po::command_line_style::allow_guessing;
  po::variables_map given;
  try {
    po::store(po::command_line_parser(arguments).options(description).style(style).run(), given);
    po::notify(given);
  } catch (const po::error& error) {
    throw UsageError(
        fmt::format("{}; trainer datasets tokenize --input FILE.txt|DIR --output FILE.bin|DIR "
                    "[--tokenizer PATH|characters]",
                    error.what()));
  }
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
