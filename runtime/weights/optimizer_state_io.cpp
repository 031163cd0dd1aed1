// The optimizer's state, in this rank's arenas and in files.
#include <algorithm>
#include <optional>

#include "runtime/weights/parameter_io.h"

namespace lockstep::runtime {

std::vector<ParameterIO::ParameterSlot> ParameterIO::optimizer_slots() const {
  const std::vector<std::string> states = model::state_names(plan_.request.optimizer);
  std::vector<ParameterSlot> slots;
  for (const model::Parameter& parameter : plan_.graph.parameters()) {
    if (parameter.frozen) continue;
    const std::string& name = plan_.graph.value(parameter.value).name;
    const auto add = [&](const std::string& in_file, void* data, std::optional<std::size_t> gathered = {}) {
      slots.push_back({.name = in_file,
                       .value = parameter.value,
                       .file_shape = parameter.file_shape,
                       .data = data,
                       .file_transposed = parameter.file_transposed,
                       .gathered_state = gathered});
    };
    for (std::size_t i = 0; i < states.size(); ++i) {
      const std::string in_file = name + "." + states[i];
      shards_updates(plan_.arena) ? add(in_file, memory_.gradient(name), i)
                                  : add(in_file, memory_.optimizer_state(i, name));
    }
    if (memory_.average(name) != nullptr) add(name + ".raw", memory_.parameter(name));
  }
  return slots;
}

void ParameterIO::load_optimizer_state(const std::filesystem::path& file) {
  std::vector<ParameterSlot> slots = optimizer_slots();
  std::ranges::stable_sort(slots, {}, &ParameterSlot::gathered_state);
  load(WeightsFile(file), slots);
}

void ParameterIO::optimizer_state(comm::Communicator& communicator, std::vector<NamedTensor>* into) const {
  const std::vector<ParameterSlot> slots = optimizer_slots();
  if (into != nullptr) into->resize(slots.size());
  const auto stream = device_.make_stream();
  const auto read_all = [&](std::optional<std::size_t> gathered) {
    for (std::size_t i = 0; into != nullptr && i < slots.size(); ++i) {
      if (slots[i].gathered_state == gathered) read(slots[i], (*into)[i], *stream);
    }
  };
  read_all(std::nullopt);
  if (!shards_updates(plan_.arena)) return;
  for (std::size_t state = 0; state < model::state_names(plan_.request.optimizer).size(); ++state) {
    memory_.gather_optimizer_state(state, plan_.arena.buckets, communicator, *stream);
    read_all(state);
  }
}

}  // namespace lockstep::runtime
