// A plugin whose functions throw what is no Error of Lockstep's.
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>

#include "kernels/base/error.h"
#include "runtime/plugin/plugin.h"

using namespace lockstep;

namespace {

/// Sample 3 cannot be read. Its note is what `open` was told to do to pictures.
struct Points : data::Dataset {
  explicit Points(const data::DatasetOptions& options)
      : lists(options.transform + " | " + options.eval_transform) {}
  std::int64_t size() const override { return 8; }
  const data::SampleSpec& spec() const override { return sample; }
  void get(std::int64_t index, std::int64_t, std::span<std::byte> input,
           std::span<std::byte> target) const override {
    if (index == 3) throw std::runtime_error("no row 3");
    std::memset(input.data(), 0, input.size());
    std::memset(target.data(), 0, target.size());
  }
  std::string note() const override { return lists; }

  std::string lists;
  data::SampleSpec sample{.input_shape = {2}, .num_classes = 2};
};

data::DatasetPtr open_points(const data::DatasetOptions& options, data::Split) {
  return std::make_shared<Points>(options);
}

data::DatasetPtr open_nothing(const data::DatasetOptions&, data::Split) {
  throw std::runtime_error("no such table");
}

std::vector<std::string> no_names(const data::DatasetOptions&) {
  throw std::runtime_error("no list of names");
}

std::string no_note(const data::DatasetOptions&) {
  throw std::runtime_error("no note");
}

Shape no_states(const model::ModelArgs&) {
  throw std::runtime_error("no states");
}

data::SampleSpec sample_spec(const data::DatasetOptions& options) {
  return Points(options).spec();
}

model::InputSpec wants(const model::ModelArgs&) {
  return {.shape = {2}, .num_classes = 2, .target_shape = {}};
}

model::Model make_throwing(const model::ModelArgs&, const model::InputSpec&) {
  return {.name = "throwing",
          .forward = [](model::Tensor) -> model::Tensor { throw std::runtime_error("no layers"); }};
}

model::Model make_hollow(const model::ModelArgs&, const model::InputSpec&) {
  return {.name = "hollow", .forward = {}};
}

model::Model make_nothing(const model::ModelArgs&, const model::InputSpec&) {
  throw 42;
}

model::Tensor one_layer(model::Tensor x) {
  return model::linear(x, "fc", 2);
}

/// Without a fault.
model::Model make_smoothed(const model::ModelArgs&, const model::InputSpec&) {
  return {.name = "smoothed", .forward = one_layer, .label_smoothing = 0.25F};
}

void add_model(runtime::Registry& registry, const char* name,
               model::Model (*make)(const model::ModelArgs&, const model::InputSpec&)) {
  registry.add_model({.name = name, .what = "", .arguments = {}, .wants = wants, .make = make});
}

void add_to(runtime::Registry& registry) {
  const char* const variable = std::getenv("FAULTY_PLUGIN_THROWS");
  const std::string thrown = variable == nullptr ? "" : variable;
  if (thrown == "exception") throw std::runtime_error("no licence");
  if (thrown == "number") throw 42;
  if (thrown == "data error") throw DataError("table.txt: offset 0: is empty");
  add_model(registry, "throwing", make_throwing);
  add_model(registry, "hollow", make_hollow);
  add_model(registry, "unmade", make_nothing);
  add_model(registry, "smoothed", make_smoothed);
  registry.add_dataset({.name = "points",
                        .what = "",
                        .open = open_points,
                        .spec = sample_spec,
                        .transforms = data::TransformLists{"flip", "none"}});
  registry.add_dataset({.name = "closed", .what = "", .open = open_nothing, .spec = sample_spec});
  const data::DatasetEntry points{.name = "", .what = "", .open = open_points, .spec = sample_spec};
  data::DatasetEntry unnamed = points;
  unnamed.name = "unnamed";
  unnamed.class_names = no_names;
  registry.add_dataset(unnamed);
  data::DatasetEntry wordless = points;
  wordless.name = "wordless";
  wordless.token_names = no_names;
  registry.add_dataset(wordless);
  data::DatasetEntry unnoted = points;
  unnoted.name = "unnoted";
  unnoted.note = no_note;
  registry.add_dataset(unnoted);
  registry.add_model({.name = "stateful",
                      .what = "",
                      .arguments = {},
                      .wants = wants,
                      .make = make_smoothed,
                      .states = no_states});
}

}  // namespace

LOCKSTEP_PLUGIN("faulty", add_to)
