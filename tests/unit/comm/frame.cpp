#include "comm/net/frame.h"

#include <set>
#include <vector>

#include "comm/net/addresses.h"
#include "comm/world/world.h"
#include "tests/support/catch.h"

using namespace lockstep;
using namespace lockstep::comm;

TEST_CASE("ports derive from the run id unless MASTER_PORT is ours", "[net]") {
  World world;
  world.run_id = "0123456789abcdef";
  world.master_port = 29500;
  const std::vector<int> derived = store_ports(world);
  CHECK(derived.size() == 8);
  CHECK(derived == store_ports(world));
  for (const int port : derived) CHECK((port >= 20000 && port < 32000));
  world.run_id = "0123456789abcdee";
  CHECK(derived != store_ports(world));
  world.master_port_is_ours = true;
  CHECK(store_ports(world) == std::vector<int>{29500});
}

TEST_CASE("frames survive any cut", "[net]") {
  const std::string bytes = encode({Frame::Type::hello, FieldWriter().text("run").take()}) +
                            encode({Frame::Type::set, FieldWriter().text("k").text("v").take()});
  FrameReader reader;
  std::vector<Frame> frames;
  for (const char byte : bytes) {
    reader.append({&byte, 1});
    Frame frame;
    if (reader.next(frame) == FrameReader::Status::complete) frames.push_back(frame);
  }
  REQUIRE(frames.size() == 2);
  CHECK(frames[0].type == Frame::Type::hello);
  CHECK(frames[1].type == Frame::Type::set);
  FieldReader fields(frames[1].payload);
  CHECK(fields.text() == "k");
  CHECK(fields.text() == "v");
  CHECK(fields.at_end());
  CHECK_FALSE(fields.text());
}
