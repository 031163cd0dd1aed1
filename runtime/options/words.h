#pragma once

#include <span>

#include "kernels/base/typed_words.h"

namespace lockstep::runtime {

/// What people who come from PyTorch type, and what it is called here, by what it names.
std::span<const FieldWord> option_words();
std::span<const FieldWord> command_words();
std::span<const FieldWord> dataset_words();
std::span<const FieldWord> model_words();
std::span<const FieldWord> schedule_words();
std::span<const FieldWord> device_words();
std::span<const FieldWord> backend_words();
std::span<const FieldWord> model_argument_words();

}  // namespace lockstep::runtime
