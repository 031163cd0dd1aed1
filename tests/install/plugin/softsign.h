#pragma once

#include "model/layers.h"

/// y = x / (1 + slope |x|), an op of the plugin.
lockstep::model::Tensor softsign(lockstep::model::Tensor x, double slope);
