#include "runtime/output/lines.h"

#include <fmt/format.h>

namespace lockstep::runtime {
namespace {

const char* plural(int count) {
  return count > 1 ? "s" : "";
}

}  // namespace

std::string opening_line(const Opening& opening) {
  return fmt::format(
      "{}: {} parameters, {} rank{} x {} thread{}, batch {} per rank, {:.1f} MiB planned per rank",
      opening.model, opening.parameters, opening.world_size, plural(opening.world_size), opening.threads,
      plural(opening.threads), opening.batch_size, static_cast<double>(opening.planned_bytes) / (1 << 20));
}

std::string resumption_line(std::int64_t step, std::int64_t epoch, const std::filesystem::path& checkpoint) {
  return fmt::format("goes on after step {} (epoch {}) from {}", step, epoch + 1, checkpoint.string());
}

std::string fresh_start_line(const std::filesystem::path& run) {
  return fmt::format("no checkpoint in {}: begins at the beginning", run.string());
}

std::string evaluation_line(std::int64_t epoch, const Evaluation& evaluation) {
  const std::string accuracy =
      evaluation.classes ? fmt::format(", accuracy {:.4f}", evaluation.accuracy) : std::string();
  return fmt::format("epoch {}: test loss {:.4f}{} ({} samples)", epoch + 1, evaluation.loss, accuracy,
                     evaluation.samples);
}

std::string nothing_left_line(const Summary& summary, const std::filesystem::path& run) {
  return fmt::format("nothing is left to do after {} steps, {}", summary.steps, run.string());
}

std::string ending_line(const Summary& summary, const std::filesystem::path& run) {
  return fmt::format("{} after {} steps, {:.0f} samples/s, {}", summary.stopped ? "stopped" : "done",
                     summary.steps, summary.samples_per_s, run.string());
}

std::string saved_line(const std::filesystem::path& checkpoint, const std::filesystem::path& run) {
  return fmt::format("saved {}; go on with --resume auto --run-dir {}", checkpoint.string(), run.string());
}

}  // namespace lockstep::runtime
