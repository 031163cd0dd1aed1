#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>

#include "runtime/output/report.h"

namespace lockstep::runtime {

// What a run says of itself, beside its progress: a line each.

struct Opening {
  std::string model;
  std::int64_t parameters = 0;
  int world_size = 1;
  int threads = 1;
  std::int64_t batch_size = 0;    ///< per rank
  std::size_t planned_bytes = 0;  ///< per rank
};

std::string opening_line(const Opening& opening);
/// `epoch`: counted from 0, here and below.
std::string resumption_line(std::int64_t step, std::int64_t epoch, const std::filesystem::path& checkpoint);
/// A run that was to go on and has nothing to go on from.
std::string fresh_start_line(const std::filesystem::path& run);
std::string evaluation_line(std::int64_t epoch, const Evaluation& evaluation);
std::string nothing_left_line(const Summary& summary, const std::filesystem::path& run);
std::string ending_line(const Summary& summary, const std::filesystem::path& run);
/// Of a stopped run: how to go on.
std::string saved_line(const std::filesystem::path& checkpoint, const std::filesystem::path& run);

}  // namespace lockstep::runtime
