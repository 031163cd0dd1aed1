#pragma once

#include <deque>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "data/files/zip.h"
#include "runtime/weights/weights_file.h"

namespace lockstep::runtime {

/// The tensors of a state dict that torch.save has written (PyTorch 1.6 or later): of the file's own, or of
/// the one under its key 'state_dict', 'model' or 'model_state_dict'. Nothing in the file is executed.
/// DataError names the file, the place in it, and what is wrong.
class TorchFile {
 public:
  explicit TorchFile(const std::filesystem::path& path);

  const std::vector<WeightsTensor>& tensors() const { return tensors_; }
  /// Numbers and truth values of the dictionary `model_args` beside `model`, as nanoGPT's train.py saves it.
  const std::map<std::string, std::string>& model_args() const { return model_args_; }

 private:
  data::ZipFile zip_;
  std::deque<std::vector<std::byte>> copies_;  ///< of tensors that do not lie contiguous in the file
  std::vector<WeightsTensor> tensors_;
  std::map<std::string, std::string> model_args_;
};

}  // namespace lockstep::runtime
