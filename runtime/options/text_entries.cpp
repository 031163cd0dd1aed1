#include "data/text/windows.h"
#include "runtime/options/entries.h"

namespace lockstep::runtime {
namespace {

using enum Decides;

OptionEntry windows(OptionInfo info) {
  return {std::move(info),
          [](Options& o, const std::string& given) {
            data::WindowRule::parse(given);  // for its errors
            o.windows = given;
          },
          [](const Options& o) { return o.windows; }};
}

/// "characters" is no path.
OptionEntry tokenizer(OptionInfo info) {
  OptionEntry entry = place(std::move(info), &Options::tokenizer);
  entry.keep = [show = entry.show, keep = entry.keep](const Options& o) {
    return o.tokenizer == "characters" ? show(o) : keep(o);
  };
  return entry;
}

}  // namespace

std::vector<OptionEntry> text_data() {
  return {
      windows(
          {"data", "windows", "random|each|documents[=ID]|packed[=ID]",
           "text, tokens: training samples begin anywhere; or each once an epoch; or inside one document, "
           "which token ID parts; or hold whole documents, which do not see each other: gpt2 (random)",
           numbers}),
      text({"data", "token-dtype", "uint16|uint32", "tokens: of files without a header (uint16)", numbers},
           &Options::token_dtype, {"uint16", "uint32"}),
      tokenizer({"data", "tokenizer", "PATH",
                 "of text: tokenizer.json, or the folder of GPT-2's vocab.json and merges.txt (characters)",
                 nothing}),
      place({"data", "target-file", "FILE", "parallel-text: the translations of --data-dir, line by line",
             nothing},
            &Options::target_file),
  };
}

}  // namespace lockstep::runtime
