#include "runtime/output/report.h"

#include <cmath>

#include <nlohmann/json.hpp>

namespace lockstep::runtime {
namespace {

/// JSON has no NaN: a number that is none becomes null.
nlohmann::ordered_json number(double value) {
  return std::isfinite(value) ? nlohmann::ordered_json(value) : nlohmann::ordered_json(nullptr);
}

}  // namespace

std::string to_json(const Summary& s) {
  nlohmann::ordered_json json{
      {"version", s.version},
      {"world_size", s.world_size},
      {"device", s.device},
      {"instruction_set", s.instruction_set},
      {"threads", s.threads},
      {"backend", s.backend},
      {"model", s.model},
      {"dataset", s.dataset},
      {"parameters", s.parameters},
      {"steps", s.steps},
      {"samples", s.samples},
      {"stopped", s.stopped},
      {"final_loss", number(s.final_loss)},
  };
  if (s.eval) {
    json["eval"] = {{"loss", number(s.eval->loss)}, {"samples", s.eval->samples}};
    if (s.eval->classes) json["eval"]["accuracy"] = s.eval->accuracy;
  }
  json["samples_per_s"] = number(s.samples_per_s);
  json["step_ms"] = {{"median", s.step_ms_median}, {"p95", s.step_ms_p95}};
  json["comm_ms"] = s.comm_ms;
  json["exposed_comm_ms"] = s.exposed_comm_ms;
  json["skew_ms"] = s.skew_ms;
  json["data_wait_ms"] = s.data_wait_ms;
  json["startup_ms"] = s.startup_ms;
  json["peak_memory_bytes"] = s.peak_memory_bytes;
  json["plan_bytes"] = s.plan_bytes;
  json["device_bytes_used"] = s.device_bytes_used;
  json["weights_sha256"] = s.weights_sha256;
  return json.dump(2) + "\n";
}

}  // namespace lockstep::runtime
