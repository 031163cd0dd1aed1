#include "runtime/performance/gpu_profile.h"

#include <algorithm>

#include <fmt/format.h>

#include "kernels/base/error.h"
#include "kernels/base/file.h"
#include "kernels/base/json.h"
#include "kernels/base/typed_words.h"

namespace lockstep::runtime {
namespace {

double positive(const Json& members, std::string_view key, double unit) {
  const auto number = members.at(key).get<double>();
  constexpr double most = 1e18;  // fits what counts bytes
  if (number > 0 && number * unit <= most) return number * unit;
  throw JsonError(fmt::format("\"{}\" is {}, must be more than 0 and at most {}", key, number, most / unit));
}

GpuFigures read_figures(const Json& members) {
  constexpr double giga = 1e9;
  constexpr double tera = 1e12;
  return {.memory = positive(members, "memory_gb_per_s", giga),
          .f32 = positive(members, "f32_tflops", tera),
          .tf32 = positive(members, "tf32_tflops", tera),
          .half = positive(members, "half_tflops", tera),
          .nvlink = giga * std::max(0.0, members.at("nvlink_gb_per_s").get<double>()),
          .pcie = positive(members, "pcie_gb_per_s", giga),
          .source = members["source"].get_or(std::string("no source is given"))};
}

GpuFigures figures_of_known(const std::string& device_name) {
  for (const auto& [name, text] : gpu_texts()) {
    const Json known = Json::parse(text);
    if (known.at("deviceName").get<std::string>() == device_name) return read_figures(known.at("figures"));
  }
  throw JsonError(fmt::format(
      "\"figures\" is missing, and \"deviceName\" '{}' is no GPU whose figures are known", device_name));
}

bool is_file(const std::string& given) {
  return given.ends_with(".json") || given.find('/') != std::string::npos;
}

}  // namespace

std::vector<std::string> gpu_names() {
  std::vector<std::string> names;
  for (const auto& [name, text] : gpu_texts()) names.push_back(name);
  return names;
}

GpuProfile read_gpu(const std::string& name, std::string_view text) {
  const Json whole = Json::parse(text);
  Json description = Json::object();
  for (const auto& [key, value] : whole.members()) {
    if (key != "figures") description[key] = value;
  }
  const auto device_name = whole.at("deviceName").get<std::string>();
  GpuProfile gpu{.name = name,
                 .device_name = device_name,
                 .description = description.dump(),
                 .memory_bytes = static_cast<std::size_t>(positive(whole, "totalGlobalMem", 1)),
                 .figures = {}};
  gpu.figures = whole.contains("figures") ? read_figures(whole.at("figures")) : figures_of_known(device_name);
  gpu.figures.multiprocessors = positive(whole, "multiProcessorCount", 1);
  return gpu;
}

GpuProfile find_gpu(const std::string& name_or_file) {
  if (is_file(name_or_file)) {
    const MappedFile file(name_or_file);
    const std::string_view text(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
    try {
      return read_gpu(name_or_file, text);
    } catch (const JsonError& error) {
      throw DataError(
          fmt::format("{}: no description of a GPU: {}; runtime/performance/gpus/h100.json is an example",
                      name_or_file, error.what()));
    }
  }
  const std::vector<std::string> names = gpu_names();
  if (const auto name = same_name(name_or_file, names)) {
    return read_gpu(
        *name, gpu_texts()[static_cast<std::size_t>(std::ranges::find(names, *name) - names.begin())].second);
  }
  throw UsageError(fmt::format("--for: {}; all of them: --for all; another: --for FILE.json",
                               unknown_name("GPU", name_or_file, names)));
}

}  // namespace lockstep::runtime
