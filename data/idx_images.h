#pragma once

#include <filesystem>

#include "data/dataset.h"
#include "data/datasets.h"
#include "data/unpack_cache.h"

namespace lockstep::data {

/// Fashion-MNIST and MNIST: pixels / 255 as 1x28x28, ten classes.
SampleSpec idx_images_spec();

/// The four files of MNIST's naming (train-images-idx3-ubyte, t10k-labels-idx1-ubyte, ..., plain or .gz) in
/// `folder`. `hint`: what to do when they are not there.
DatasetPtr open_idx_images(const std::filesystem::path& folder, Split split, const std::string& hint,
                           const UnpackCache& cache = UnpackCache());

}  // namespace lockstep::data
