#pragma once

#include <filesystem>

#include "data/files/published.h"
#include "kernels/base/activity.h"
#include "kernels/base/deadline.h"

namespace lockstep::data {

/// The URL of a folder that holds <data set>/<file>, in the place of the sets' own mirrors.
inline constexpr const char* mirror_variable = "LOCKSTEP_DATA_MIRROR";

struct DownloadOptions {
  Seconds silence{30};           ///< that a server may keep
  Activity* activity = nullptr;  ///< is told how far it is
};

/// Fetches into `folder`, which is made, those files of `set` that are not there, packed or unpacked. One
/// process does it, others that want the same wait. A file appears whole, flushed and with the right
/// checksum, or not at all. DeviceError when no mirror gives it, DataError when what one gives is not it;
/// both tell what each mirror answered.
void download(const PublishedSet& set, const std::filesystem::path& folder,
              const DownloadOptions& options = {});

}  // namespace lockstep::data
