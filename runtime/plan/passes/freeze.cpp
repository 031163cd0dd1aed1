#include <fnmatch.h>

#include <algorithm>

#include "kernels/base/error.h"
#include "kernels/base/typed_words.h"
#include "runtime/plan/passes/passes.h"

namespace lockstep::runtime {

void freeze_parameters(model::Graph& graph, std::span<const std::string> patterns) {
  std::vector<std::string> names;
  for (const model::Parameter& parameter : graph.parameters())
    names.push_back(graph.value(parameter.value).name);
  for (const std::string& pattern : patterns) {
    bool matches = false;
    for (std::size_t i = 0; i < names.size(); ++i) {
      if (::fnmatch(pattern.c_str(), names[i].c_str(), 0) != 0) continue;
      graph.parameters()[i].frozen = true;
      matches = true;
    }
    if (!matches) throw UsageError("--freeze: " + unknown_name("parameter", pattern, names));
  }
  if (!graph.training || !std::ranges::all_of(graph.parameters(), &model::Parameter::frozen)) return;
  throw UsageError(names.empty()
                       ? "the model has no parameters, so that nothing can learn: give it a layer with some"
                       : "--freeze: no parameter is left to learn; `trainer eval` scores given weights");
}

}  // namespace lockstep::runtime
