#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "runtime/step/parameter_io.h"

namespace lockstep::runtime {

/// Starts a replica from weights that were made elsewhere, as `ParameterIO::load`, except that tensors of
/// `head` (`model::head_parameters`) which have other classes in the file, so another first dimension, are
/// drawn anew by `seed`. DataError when it knows another number of tokens, by the first dimension of
/// `of_tokens` (`model::token_parameters`). Returns a line for each thing that was done beside copying.
std::vector<std::string> start_from(ParameterIO& replica, const WeightsFile& file,
                                    std::span<const std::string> head, std::span<const std::string> of_tokens,
                                    std::uint64_t seed);

}  // namespace lockstep::runtime
