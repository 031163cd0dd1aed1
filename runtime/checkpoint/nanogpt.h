#pragma once

#include <filesystem>

#include "runtime/options/options.h"
#include "runtime/weights/weights_file.h"

namespace lockstep::runtime {

/// Where `file` is one that nanoGPT's train.py saved (ckpt.pt): sets model gpt2 and its arguments as the file
/// says, `dropout` only where it `trains`. Does nothing elsewhere. UsageError names an argument that was
/// typed otherwise.
void take_nanogpt_arguments(Options& options, const std::filesystem::path& file, bool trains);

/// Of gpt2: matrices of nn.Linear, as nanoGPT has them, become those of Hugging Face's Conv1D, and biases
/// that were trained without (nanoGPT's bias=False) zeros.
void use_conv1d_layout(WeightsFile& file);

}  // namespace lockstep::runtime
