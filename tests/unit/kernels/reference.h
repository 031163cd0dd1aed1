#pragma once

#include "kernels/conv2d.h"
#include "kernels/pool2d.h"
#include "tests/unit/kernels/harness.h"

/// Every op once more, as its definition reads, in double precision.
namespace lockstep::kernels::test {

Values conv2d(const Values& x, const Values& w, const Values* b, const Conv2dGeometry& geometry);
Values linear(const Values& x, const Values& w, const Values* b);
Values relu(Values x);
Values max_pool2d(const Values& x, const Pool2dGeometry& geometry);
Values avg_pool2d(const Values& x, const Pool2dGeometry& geometry);

}  // namespace lockstep::kernels::test
