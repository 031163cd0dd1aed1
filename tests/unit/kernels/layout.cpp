#include "kernels/layout.h"

#include "kernels/cpu/onednn.h"
#include "tests/support/catch.h"

using namespace lockstep;
using namespace lockstep::kernels;
using Tag = dnnl::memory::format_tag;

namespace {

void check_round_trip(const Shape& shape, Tag tag, std::int64_t groups = 1) {
  dnnl::memory::dims dims(shape.begin(), shape.end());
  if (groups > 1) {
    dims[0] /= groups;
    dims.insert(dims.begin(), groups);
  }
  const dnnl::memory::desc desc(dims, dnnl::memory::data_type::f32, tag);
  const auto layout = onednn::layout_of(desc, shape, groups);
  REQUIRE(layout);
  INFO(layout->str());
  CHECK(static_cast<std::size_t>(layout->span()) * sizeof(float) == desc.get_size());
  const auto back = onednn::descriptor(shape, *layout, DType::f32, groups);
  REQUIRE(back);
  CHECK(*back == desc);
}

}  // namespace

TEST_CASE("layouts go to oneDNN and back") {
  check_round_trip({5}, Tag::a);
  check_round_trip({2, 3}, Tag::ab);
  check_round_trip({2, 3}, Tag::ba);
  check_round_trip({33, 17}, Tag::AB16b16a);
  check_round_trip({2, 17, 3, 5}, Tag::nchw);
  check_round_trip({2, 17, 3, 5}, Tag::nhwc);
  check_round_trip({2, 17, 3, 5}, Tag::nChw16c);
  check_round_trip({2, 17, 3, 5}, Tag::nChw8c);
  check_round_trip({33, 17, 3, 3}, Tag::OIhw16i16o);
  check_round_trip({33, 3, 3, 3}, Tag::Ohwi16o);
  check_round_trip({32, 16, 3, 3}, Tag::gOIhw16i16o, 2);
  check_round_trip({17, 1, 3, 3}, Tag::Goihw16g, 17);
  check_round_trip({6, 3, 3, 3}, Tag::goihw, 2);
  check_round_trip({4, 2, 3, 3}, Tag::goihw, 4);
}

TEST_CASE("a group that needs padding has no portable layout") {
  const auto layout_of = [](const Shape& shape, std::int64_t groups) {
    const dnnl::memory::dims dims{groups, shape[0] / groups, shape[1], shape[2], shape[3]};
    const dnnl::memory::desc desc(dims, dnnl::memory::data_type::f32, Tag::gOIhw8i8o);
    return onednn::layout_of(desc, shape, groups);
  };
  CHECK(!layout_of({6, 3, 3, 3}, 2));
  CHECK(!layout_of({4, 2, 3, 3}, 4));
}
