#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "data/datasets.h"
#include "data/pictures/picture.h"

namespace lockstep::data {

/// JPEG and PNG pictures in a folder for each class, as torchvision's ImageFolder reads them: classes are the
/// folders' names in byte order, samples are all pictures below them, class by class, in byte order of their
/// folders and names; links are followed. A `root` that is split (`split_folder`) has the classes of `train`.
/// Where weights know their classes by name, these are `known`, in their order, and a folder need not be
/// there for each. DataError names the folder and what is wrong: no classes, a class without pictures, a
/// class that is not known, or whose name is no UTF-8. `activity`, which may be null, advances class by
/// class.
PictureSetPtr open_image_folder(const std::filesystem::path& root, Split split,
                                const std::vector<std::string>& known = {}, Activity* activity = nullptr);

/// Its classes, without looking for pictures.
std::vector<std::string> image_folder_classes(const std::filesystem::path& root);

}  // namespace lockstep::data
