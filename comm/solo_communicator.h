#pragma once

#include <memory>

#include "comm/communicator.h"

namespace lockstep::comm {

/// A group of one: every collective is done at once, and nothing is opened.
std::unique_ptr<Communicator> make_solo_communicator(const World& world);

}  // namespace lockstep::comm
