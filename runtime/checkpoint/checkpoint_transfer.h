#pragma once

#include <filesystem>

#include "comm/communicator.h"
#include "kernels/base/activity.h"

namespace lockstep::runtime {

/// Collective: one rank sends a checkpoint in pieces, file by file; each of the others receives or skips it.
void send_checkpoint(comm::Communicator& communicator, const std::filesystem::path& checkpoint,
                     Activity* activity);

/// Writes the files into `folder`. DataError when they do not match the manifest.
void receive_checkpoint(comm::Communicator& communicator, int sender, const std::filesystem::path& folder,
                        Activity* activity);

void skip_checkpoint(comm::Communicator& communicator, int sender);

/// From folder to folder on this rank's disks.
void copy_checkpoint(const std::filesystem::path& from, const std::filesystem::path& to, Activity* activity);

}  // namespace lockstep::runtime
