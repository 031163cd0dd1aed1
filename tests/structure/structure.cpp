#include "tests/structure/check.h"
#include "tests/support/catch.h"

using lockstep::structure::folders_without_readme;
using lockstep::structure::read_sources;
using lockstep::structure::violations;

namespace {

const std::filesystem::path root = LOCKSTEP_SOURCE_DIR;

std::size_t faults(const std::string& path, const std::string& text) {
  return violations({path, text}).size();
}

}  // namespace

TEST_CASE("every file of ours keeps the rules of the house") {
  const auto files = read_sources(root);
  REQUIRE(files.size() > 150);
  for (const auto& file : files) {
    for (const auto& violation : violations(file)) FAIL_CHECK(violation);
  }
}

TEST_CASE("every top-level folder opens with a README.md") {
  for (const auto& folder : folders_without_readme(root)) FAIL_CHECK(folder << "/README.md is missing");
}

TEST_CASE("includes run downward only") {
  CHECK(faults("runtime/run/trainer.cpp", "#include \"comm/store/client.h\"\n") == 0);
  CHECK(faults("launcher/launch.cpp", "#include \"comm/world/find_world.h\"\n") == 0);
  CHECK(faults("kernels/base/error.cpp", "#include \"kernels/device.h\"\n") == 1);
  CHECK(faults("kernels/cpu/linear.cpp", "#include \"model/graph.h\"\n") == 1);
  CHECK(faults("data/loader.cpp", "  # include \"comm/communicator.h\"\n") == 1);
  CHECK(faults("comm/store/server.cpp", "#include \"comm/communicator.h\"\n") == 1);
  CHECK(faults("launcher/launch.cpp", "#include \"comm/communicator.h\"\n") == 1);
  CHECK(faults("model/graph.cpp", "#include \"tests/support/catch.h\"\n") == 1);
}

TEST_CASE("subfolders have an order, too") {
  CHECK(faults("runtime/run/trainer.cpp", "#include \"runtime/plan/plan.h\"\n") == 0);
  CHECK(faults("runtime/plan/plan.cpp", "#include \"runtime/run/trainer.h\"\n") == 1);
  CHECK(faults("runtime/step/memory.cpp", "#include \"runtime/weights/parameter_io.h\"\n") == 1);
  CHECK(faults("comm/tcp/link.cpp", "#include \"comm/net/tcp.h\"\n") == 0);
  CHECK(faults("comm/net/tcp.cpp", "#include \"comm/tcp/link.h\"\n") == 1);
}

TEST_CASE("retired names do not come back") {
  CHECK(faults("comm/store/server.cpp", "Doorman doorman;\n") == 1);
  CHECK(faults("comm/store/server.cpp", "int amend = recommend(mended);\n") == 0);
}

TEST_CASE("our headers are included with quotes, from the repository root") {
  CHECK(faults("data/loader.cpp", "#include \"loader.h\"\n") == 1);
  CHECK(faults("data/loader.cpp", "#include \"../data/loader.h\"\n") == 1);
  CHECK(faults("data/loader.cpp", "#include <data/loader.h>\n") == 1);
  CHECK(faults("data/loader.cpp", "#include <thread>\n") == 0);
  CHECK(faults("data/loader.cpp", "#include LOADER\n") == 1);
}

TEST_CASE("vendors' headers stay in their folders") {
  CHECK(faults("kernels/cpu/linear.cpp", "#include <dnnl.hpp>\n") == 0);
  CHECK(faults("kernels/base/shape.cpp", "#include <dnnl.hpp>\n") == 1);
  CHECK(faults("runtime/step/executor.cpp", "#include <cuda_runtime.h>\n") == 1);
}

TEST_CASE("the list of ops is seen by few files") {
  CHECK(faults("kernels/dispatch.cpp", "#include \"kernels/spec.h\"\n") == 0);
  CHECK(faults("model/op.cpp", "#include \"kernels/spec.h\"\n") == 1);
  CHECK(faults("kernels/cpu/pool2d.cpp", "#include \"kernels/backend.h\"\n") == 1);
  CHECK(faults("model/graph.cpp", "#include \"kernels/ops.def\"\n") == 1);
}

TEST_CASE("conditional compilation stays in the folders that differ between machines") {
  CHECK(faults("comm/nccl/nccl.cpp", "#if NCCL_VERSION_CODE > 22700\n#endif\n") == 0);
  CHECK(faults("runtime/step/executor.cpp", "#ifdef LOCKSTEP_CUDA\n#endif\n") == 1);
  CHECK(faults("runtime/step/executor.cpp", "  #  if defined(LOCKSTEP_CUDA)\n#endif\n") == 1);
}

TEST_CASE("headers have #pragma once and no file is too long") {
  CHECK(faults("data/loader.h", "#pragma once\n") == 0);
  CHECK(faults("data/loader.h", "class Loader;\n") == 1);
  std::string lines;
  for (int i = 0; i < 300; ++i) lines += '\n';
  CHECK(faults("data/loader.cpp", lines) == 0);
  CHECK(faults("deploy/quickstart", lines + '\n') == 1);
}
