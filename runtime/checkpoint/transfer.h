#pragma once

#include <filesystem>

#include "comm/communicator.h"

namespace lockstep::runtime {

/// A checkpoint on its way from one rank to others, in pieces, file by file. Collective: one rank sends, each
/// of the others receives or skips.
void send_checkpoint(comm::Communicator& communicator, const std::filesystem::path& checkpoint);

/// Writes the files into `folder`. DataError when what came is not what the manifest says.
void receive_checkpoint(comm::Communicator& communicator, int sender, const std::filesystem::path& folder);

void skip_checkpoint(comm::Communicator& communicator, int sender);

}  // namespace lockstep::runtime
