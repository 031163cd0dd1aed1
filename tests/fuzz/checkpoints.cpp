// What a folder of a checkpoint may hold: by the first byte its manifest, or its state.json.
#include <cstdlib>

#include "kernels/base/error.h"
#include "kernels/base/version.h"
#include "runtime/checkpoint/checkpoint_directory.h"
#include "runtime/checkpoint/run_state.h"
#include "tests/fuzz/input_file.h"

namespace lockstep {
/// CMake makes the file that has it.
std::string_view version() {
  return "0";
}
}  // namespace lockstep

using namespace lockstep;
using namespace lockstep::tests;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes = text_of(data + 1, size - 1);
  if (data[0] % 2 == 1) {
    const auto manifest = input_file("checkpoint/manifest.json", bytes);
    for (const char* file : runtime::checkpoint_files) input_file(std::string("checkpoint/") + file, "x");
    static_cast<void>(runtime::damage_of(manifest.parent_path()));
    return 0;
  }
  runtime::RunState state;
  try {
    state = runtime::read_run_state(input_file("state.json", bytes));
  } catch (const DataError&) {
    return 0;
  }
  if (state.step < 0 || state.samples < 0) std::abort();
  static_cast<void>(runtime::differences(state.settings, state.machine));
  // What was understood is written so that it is understood again.
  static_cast<void>(runtime::read_run_state(input_file("again.json", runtime::to_json(state))));
  return 0;
}
