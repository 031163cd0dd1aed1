#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/base/shape.h"
#include "model/zoo/zoo.h"

namespace lockstep::runtime {

/// Texts of option values to values and back. UsageError says what was wanted, without the option's name.
bool parse_switch(const std::string& text);
Shape parse_shape(const std::string& text);                  ///< "3x224x224" or "3,224,224"
model::ModelArgs parse_model_args(const std::string& text);  ///< "k=v,k=v"
std::pair<double, double> parse_betas(const std::string& text);
std::pair<int, int> parse_port_range(const std::string& text);  ///< "29500-29599"
/// The one of `choices` that is `text` but for case, '-' and '_', or an error with the nearest.
std::string parse_choice(const std::string& text, const std::vector<std::string>& choices);

std::int64_t parse_bytes(const std::string& text);  ///< "5GB" (10^9), "500MiB" (2^20), "1000"

/// Without the white space at its ends that a line of a config file would lose.
std::string trimmed(std::string_view text);

std::string show_real(double value);
std::string show_model_args(const model::ModelArgs& args);

}  // namespace lockstep::runtime
