#include <fmt/format.h>

#include "kernels/base/error.h"
#include "model/layers.h"

namespace lockstep::model {

Tensor rows_of_positions(Tensor x, Tensor table) {
  const Graph& graph = x.graph();
  const auto name = [&]() -> const std::string& { return table.graph().given(table.id()).name; };
  if (x.shape().rank() < 2 || table.shape().rank() != 2) {
    throw UsageError(
        fmt::format("the table '{}' of positions is {} and its input {}: a table (positions, D) "
                    "and an input (N, T, ...) are wanted",
                    name(), table.shape().str(), x.shape().str()));
  }
  if (graph.decodes()) return embedding(Tensor(x.graph(), graph.decoding->positions), table);
  const std::int64_t length = x.shape()[1];
  const std::int64_t positions = table.shape()[0];
  if (length == positions) return table;
  if (length > positions) {
    throw UsageError(
        fmt::format("{} tokens, but the table '{}' has {} positions", length, name(), positions));
  }
  return split(table, {length, positions - length}, 0).front();
}

}  // namespace lockstep::model
