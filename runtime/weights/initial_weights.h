#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/weights/parameter_io.h"

namespace lockstep::runtime {

/// What of a model weights that were made elsewhere may know otherwise.
struct KnownParts {
  std::vector<std::string> head{};       ///< `model::head_parameters`: their first dimension are the classes
  std::vector<std::string> of_tokens{};  ///< `model::token_parameters`
  std::vector<std::string> classes{};    ///< their names by number; empty: nobody tells
  bool of_text = false;                  ///< tokens are a text's, and another tokenizer may be meant
};

/// Starts a replica from weights that were made elsewhere, as `ParameterIO::load`, except that tensors of the
/// head are drawn anew by `seed` where the file has other classes: as many as another first dimension says,
/// or others by name, or these by other numbers. DataError when it knows another number of tokens, by the
/// first dimension of those of tokens, which are never drawn. Returns a line for each thing that was done
/// beside copying.
std::vector<std::string> start_from(ParameterIO& replica, const WeightsFile& file, const KnownParts& parts,
                                    std::uint64_t seed);

}  // namespace lockstep::runtime
