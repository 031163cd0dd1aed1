#include "model/zoo/zoo.h"

#include <algorithm>

#include "kernels/base/error.h"
#include "kernels/base/typed_words.h"

namespace lockstep::model {

const std::vector<ZooEntry>& zoo() {
  static const std::vector<ZooEntry> entries{
      linear_entry(),   mlp_entry(),      convnet_entry(),  simplecnn_entry(),
      resnet18_entry(), resnet34_entry(), resnet50_entry(), mobilenet_v3_small_entry(),
      rnn_entry(),      lstm_entry()};
  return entries;
}

std::vector<std::string> model_names(std::span<const ZooEntry> models) {
  std::vector<std::string> names;
  for (const ZooEntry& entry : models) names.push_back(entry.name);
  return names;
}

std::vector<std::string> argument_names(const ZooEntry& entry) {
  std::vector<std::string> names;
  for (const Argument& argument : entry.arguments) {
    names.push_back(std::visit([](const auto& a) { return a.key; }, argument));
  }
  return names;
}

const ZooEntry* find_entry(std::span<const ZooEntry> models, const std::string& name) {
  const auto same = [wanted = folded(name)](const ZooEntry& entry) { return folded(entry.name) == wanted; };
  const auto found = std::ranges::find_if(models, same);
  return found == models.end() ? nullptr : &*found;
}

const ZooEntry& find_model(std::span<const ZooEntry> models, const std::string& name, const ModelArgs& args) {
  const ZooEntry* found = find_entry(models, name);
  if (found == nullptr) {
    throw UsageError(unknown_name("model", name, model_names(models), "`trainer models` lists them"));
  }
  check_arguments(found->name, found->arguments, args);
  return *found;
}

const ZooEntry& find_model(const std::string& name, const ModelArgs& args) {
  return find_model(zoo(), name, args);
}

}  // namespace lockstep::model
