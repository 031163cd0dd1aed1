#pragma once

#include <functional>
#include <string>

#include "data/dataset.h"
#include "model/layers.h"

/// What is not Lockstep's own, a plugin's or a program's, with errors that say whose they are: what its code
/// throws that is no Error (kernels/base/rethrow.h).
namespace lockstep::runtime {

using Forward = std::function<model::Tensor(model::Tensor batch)>;

/// The same function; its UsageErrors begin with `whose`. An empty one stays so.
Forward with_named_errors(Forward forward, const std::string& whose);

/// The same samples; their DataErrors begin with `whose` and the number of the sample, or the function. Null
/// stays so.
data::DatasetPtr with_named_errors(data::DatasetPtr samples, const std::string& whose);

}  // namespace lockstep::runtime
