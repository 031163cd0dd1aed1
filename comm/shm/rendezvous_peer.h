#pragma once

#include "comm/shm/local_rendezvous.h"

namespace lockstep::comm {

/// The part of every rank but the leader: connects as soon as that listens, and returns when all are there.
LocalGroup join_meeting(const NodeMembers& members, Deadline deadline);

}  // namespace lockstep::comm
