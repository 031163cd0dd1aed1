#include "runtime/checkpoint/model_argument.h"

#include <fmt/format.h>

#include "kernels/base/error.h"

namespace lockstep::runtime {

void set_model_argument(Options& options, const std::string& argument, const std::string& value,
                        const std::filesystem::path& file) {
  const auto [typed, is_new] = options.model_args.try_emplace(argument, value);
  if (is_new) options.model_arg_files[argument] = file;
  if (is_new || typed->second == value) return;
  throw UsageError(fmt::format("--model-args {}={}: {} says {}; leave it out", argument, typed->second,
                               file.string(), value));
}

}  // namespace lockstep::runtime
