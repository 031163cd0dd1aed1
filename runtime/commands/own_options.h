#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <boost/program_options.hpp>

namespace lockstep::runtime {

/// What a command that takes no operands was told by options of its own. '-' and '_' are the same in their
/// names. UsageError has the word that does not fit, and `usage`.
boost::program_options::variables_map parse_own_options(
    const std::vector<std::string>& arguments, const boost::program_options::options_description& options,
    std::string_view usage);

}  // namespace lockstep::runtime
