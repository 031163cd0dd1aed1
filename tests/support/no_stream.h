#pragma once

#include "kernels/stream.h"

namespace lockstep::tests {

/// For communicators of the host, which need no stream.
struct NoStream : kernels::Stream {
  void synchronize() override {}
  void record(kernels::Event&) override {}
  void wait(kernels::Event&) override {}
};

}  // namespace lockstep::tests
