#pragma once

#include <string_view>

namespace lockstep {

/// The release, e.g. "0.1.0". Link lockstep::version.
std::string_view version();

/// The commit that was built, "-dirty" when files differed from it; outside a git checkout "sources-" and a
/// hash of what is compiled.
std::string_view commit();

}  // namespace lockstep
