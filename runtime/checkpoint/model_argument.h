#pragma once

#include <filesystem>
#include <string>

#include "runtime/options/options.h"

namespace lockstep::runtime {

/// An argument of the model, as `file` beside weights, or of them, tells it. UsageError where another value
/// was typed.
void set_model_argument(Options& options, const std::string& argument, const std::string& value,
                        const std::filesystem::path& file);

}  // namespace lockstep::runtime
