#pragma once

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <string>

namespace lockstep::kernels {

/// As nvidia-smi and CUDA_VISIBLE_DEVICES write it: "GPU-8a1f0c2d-...".
inline std::string uuid_text(const cudaUUID_t& uuid) {
  std::string text = "GPU-";
  for (int i = 0; i < 16; ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += fmt::format("{:02x}", static_cast<unsigned char>(uuid.bytes[i]));
  }
  return text;
}

}  // namespace lockstep::kernels
