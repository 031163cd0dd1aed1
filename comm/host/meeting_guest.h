#pragma once

#include <string>

#include "comm/host/meeting.h"

namespace lockstep::comm {

/// The part of every rank but the first: connects as soon as rank 0 listens, and returns when all are there.
LocalGroup join_meeting(const World& world, const std::string& socket_name, Deadline deadline);

}  // namespace lockstep::comm
