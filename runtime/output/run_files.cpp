#include "runtime/output/run_files.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <fstream>

#include <fmt/format.h>

#include "kernels/base/error.h"
#include "kernels/base/file.h"
#include "kernels/base/json.h"
#include "kernels/base/uninterrupted.h"

namespace lockstep::runtime {
namespace {

/// The whole lines that belong to `part`, without the last line if a killed run left it incomplete.
std::string lines_of(const LoggedPart& part, const std::filesystem::path& log) {
  if (part.step == 0) return {};  // another run's, or GPUs that were read before the first step
  std::ifstream file(log);
  std::string kept;
  for (std::string line; std::getline(file, line) && !file.eof();) {
    const Json json = Json::parse_or_null(line);
    const std::int64_t step = json["step"].get_or(part.step + 1);
    const bool comes_again = step == part.step && part.evaluates && json.contains("eval");
    if (step <= part.step && !comes_again) kept += line + "\n";
  }
  return kept;
}

std::filesystem::path prepared_log(const std::filesystem::path& log, const LoggedPart& part) {
  if (std::filesystem::exists(log)) write_file_atomically(log, lines_of(part, log));
  return log;
}

Json to_json(int rank, const GpuReadings& gpu) {
  Json json{{"rank", rank}};
  if (gpu.utilization) json["utilization"] = *gpu.utilization;
  if (gpu.memory_bytes) json["memory_bytes"] = *gpu.memory_bytes;
  if (gpu.watts) json["power_w"] = *gpu.watts;
  if (gpu.celsius) json["temperature_c"] = *gpu.celsius;
  if (gpu.sm_megahertz) json["sm_clock_mhz"] = *gpu.sm_megahertz;
  if (gpu.memory_megahertz) json["memory_clock_mhz"] = *gpu.memory_megahertz;
  if (gpu.throttle_reasons) json["throttle_reasons"] = *gpu.throttle_reasons;
  return json;
}

double seconds_since_1970() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace

Json to_json(const Evaluation& e) {
  Json json{{"loss", e.loss}, {"samples", e.samples}};
  if (e.classes) json["accuracy"] = e.accuracy;
  if (e.top5) json["top5"] = *e.top5;
  return json;
}

std::string to_json(const Summary& s) {
  Json json{
      {"version", s.version},
      {"world_size", s.world_size},
      {"device", s.device},
      {"instruction_set", s.instruction_set},
      {"threads", s.threads},
      {"backend", s.backend},
      {"model", s.model},
      {"dataset", s.dataset},
      {"data_device", s.data_device},
      {"parameters", s.parameters},
      {"steps", s.steps},
      {"samples", s.samples},
      {"stopped", s.stopped},
      {"final_loss", s.final_loss},
      {"amp", s.amp},
      {"conv_precision", s.conv_precision},
  };
  if (s.applied_updates) json["applied_updates"] = *s.applied_updates;
  if (s.grad_scale) json["grad_scale"] = *s.grad_scale;
  if (s.eval) json["eval"] = to_json(*s.eval);
  json["samples_per_s"] = s.samples_per_s;
  json["step_ms"] = {{"median", s.step_ms_median}, {"p95", s.step_ms_p95}};
  json["comm_ms"] = s.comm_ms;
  json["exposed_comm_ms"] = s.exposed_comm_ms;
  json["skew_ms"] = s.skew_ms;
  json["data_wait_ms"] = s.data_wait_ms;
  json["startup_ms"] = s.startup_ms;
  json["peak_memory_bytes"] = s.peak_memory_bytes;
  json["plan_bytes"] = s.plan_bytes;
  json["device_bytes_used"] = s.device_bytes_used;
  json["pinned_bytes"] = s.pinned_bytes;
  json["weights_sha256"] = s.weights_sha256;
  return json.dump(2) + "\n";
}

RunFiles::RunFiles(std::filesystem::path path, const LoggedPart& part)
    : path_(std::move(path)), log_(uninterrupted([log = prepared_log(path_ / "log.jsonl", part)] {
        return ::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0644);
      })) {
  if (log_.get() < 0) {
    throw DeviceError(
        fmt::format("{}: cannot be written: {}", (path_ / "log.jsonl").string(), errno_message(errno)));
  }
}

void RunFiles::write_config(const std::string& ini) const {
  write_file_atomically(path_ / "config.ini", ini);
}

void RunFiles::log_step(const Progress& p) const {
  Json json{{"time", seconds_since_1970()},
            {"step", p.step},
            {"epoch", p.epoch},
            {"loss", p.loss},
            {"samples_per_s", p.samples_per_s},
            {"step_ms", p.step_ms},
            {"exposed_comm_ms", p.exposed_comm_ms},
            {"data_wait_ms", p.data_wait_ms}};
  if (p.learning_rate) json["lr"] = *p.learning_rate;
  if (p.gradient_norm) json["grad_norm"] = *p.gradient_norm;
  if (p.grad_scale) json["grad_scale"] = *p.grad_scale;
  append(json.dump());
}

void RunFiles::log_evaluation(std::int64_t step, std::int64_t epoch, const Evaluation& e) const {
  Json json{{"time", seconds_since_1970()}, {"step", step}, {"epoch", epoch}};
  json["eval"] = to_json(e);
  append(json.dump());
}

void RunFiles::log_gpus(std::int64_t step, const std::map<int, GpuReadings>& gpus) const {
  Json json{{"time", seconds_since_1970()}, {"step", step}, {"gpus", Json::array()}};
  for (const auto& [rank, readings] : gpus) json["gpus"].push_back(to_json(rank, readings));
  append(json.dump());
}

void RunFiles::write_summary(const Summary& summary) const {
  write_file_atomically(path_ / "summary.json", to_json(summary));
}

void RunFiles::remove_summary() const {
  std::filesystem::remove(path_ / "summary.json");
}

/// One write per line, so that a reader of a running log never sees half a line.
void RunFiles::append(const std::string& line) const {
  const std::string whole = line + "\n";
  const ssize_t written = uninterrupted([&] { return ::write(log_.get(), whole.data(), whole.size()); });
  if (written != static_cast<ssize_t>(whole.size())) {
    const int error = written < 0 ? errno : ENOSPC;
    throw DeviceError(fmt::format("{}: cannot be written: {}; {}", (path_ / "log.jsonl").string(),
                                  errno_message(error),
                                  error == EFBIG ? hint_of_too_large : "make room and start again"));
  }
}

}  // namespace lockstep::runtime
