#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "data/datasets.h"
#include "data/files/unpack_cache.h"
#include "data/pictures/picture.h"

namespace lockstep::data {

/// Of CIFAR-10, which has three channels.
inline constexpr PictureSize cifar_picture_size{32, 32};
inline constexpr std::int64_t cifar10_class_count = 10;

/// CIFAR-10 as its page gives it and as torchvision leaves it. `place`: the folder cifar-10-batches-bin
/// (records of a label and 3072 bytes) or cifar-10-batches-py (pickles of Python 2 with NumPy arrays, read as
/// data), a folder that holds one of them or its archive (cifar-10-binary.tar.gz, cifar-10-python.tar.gz), or
/// an archive. DataError names the file, the offset and what is wrong there.
PictureSetPtr open_cifar10(const std::filesystem::path& place, Split split,
                           const UnpackCache& cache = UnpackCache());

/// Names of its classes from batches.meta.txt or batches.meta beside the batches; empty where that is not
/// there. DataError when it is damaged.
std::vector<std::string> cifar10_class_names(const std::filesystem::path& place,
                                             const UnpackCache& cache = UnpackCache());
/// Whether `place` is, or holds, one of these.
bool holds_cifar10(const std::filesystem::path& place);

}  // namespace lockstep::data
