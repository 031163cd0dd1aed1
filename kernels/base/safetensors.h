#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kernels/base/dtype.h"
#include "kernels/base/shape.h"

namespace lockstep {

class MappedFile;

/// A safetensors file, mapped read-only (format: https://huggingface.co/docs/safetensors). Every field of the
/// header is checked; DataError names the file, the offset and the reason.
class SafetensorsFile {
 public:
  struct Tensor {
    std::string name;
    DType dtype;
    Shape shape;
    std::span<const std::byte> bytes;
  };

  explicit SafetensorsFile(const std::filesystem::path& path);
  ~SafetensorsFile();
  SafetensorsFile(SafetensorsFile&&) noexcept;

  const std::vector<Tensor>& tensors() const { return tensors_; }  ///< in the file's order
  const Tensor* find(const std::string& name) const;
  const std::map<std::string, std::string>& metadata() const { return metadata_; }

 private:
  std::unique_ptr<MappedFile> file_;
  std::vector<Tensor> tensors_;
  std::map<std::string, std::string> metadata_;
};

/// Writes beside `path`, fsyncs, renames: the old file or the whole new one, never a part.
void write_safetensors(const std::filesystem::path& path, std::span<const SafetensorsFile::Tensor> tensors,
                       const std::map<std::string, std::string>& metadata = {});

/// The same for tensors that are not all in memory at once: `bytes_of(i)` is asked for those of tensors[i]
/// when they are written.
void stream_safetensors(const std::filesystem::path& path, std::span<const SafetensorsFile::Tensor> tensors,
                        const std::function<std::span<const std::byte>(std::size_t)>& bytes_of,
                        const std::map<std::string, std::string>& metadata = {});

}  // namespace lockstep
