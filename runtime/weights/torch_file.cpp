#include "runtime/weights/torch_file.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>

#include <fmt/format.h>

#include "kernels/base/error.h"
#include "kernels/base/pickle.h"

namespace lockstep::runtime {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view rebuild_tensor = "torch._utils._rebuild_tensor_v2";
constexpr std::string_view rebuild_parameter = "torch._utils._rebuild_parameter";

struct StorageClass {
  std::string_view name;
  DType dtype;
};
constexpr std::array storage_classes{
    StorageClass{"torch.FloatStorage", DType::f32},     StorageClass{"torch.DoubleStorage", DType::f64},
    StorageClass{"torch.BFloat16Storage", DType::bf16}, StorageClass{"torch.HalfStorage", DType::f16},
    StorageClass{"torch.LongStorage", DType::i64},      StorageClass{"torch.IntStorage", DType::i32},
    StorageClass{"torch.ByteStorage", DType::u8},       StorageClass{"torch.BoolStorage", DType::u8}};

/// What training scripts keep beside their weights: options, schedules, records. It is passed over.
constexpr std::array<std::string_view, 23> beside_weights{"argparse.Namespace",
                                                          "types.SimpleNamespace",
                                                          "collections.Counter",
                                                          "collections.defaultdict",
                                                          "__builtin__.set",
                                                          "builtins.set",
                                                          "__builtin__.list",
                                                          "__builtin__.dict",
                                                          "pathlib.PosixPath",
                                                          "_codecs.encode",
                                                          "numpy.dtype",
                                                          "numpy.core.multiarray.scalar",
                                                          "numpy._core.multiarray.scalar",
                                                          "torch.device",
                                                          "torch.float32",
                                                          "torch.float64",
                                                          "torch.float16",
                                                          "torch.bfloat16",
                                                          "torch.int64",
                                                          "torch.int32",
                                                          "torch.uint8",
                                                          "torch.int8",
                                                          "torch.bool"};

std::vector<std::string_view> allowed_globals() {
  std::vector<std::string_view> names{rebuild_tensor, rebuild_parameter, "collections.OrderedDict",
                                      "torch.Size"};
  for (const StorageClass& each : storage_classes) names.push_back(each.name);
  names.insert(names.end(), beside_weights.begin(), beside_weights.end());
  return names;
}

/// A tensor as the pickle describes it: a window into a storage. Sizes and strides in elements.
struct View {
  std::string key;  ///< of the storage
  DType dtype = DType::f32;
  std::int64_t offset = 0;
  std::vector<std::int64_t> sizes;
  std::vector<std::int64_t> strides;

  bool is_contiguous() const {
    std::int64_t step = 1;
    for (std::size_t axis = sizes.size(); axis-- > 0; step *= sizes[axis]) {
      if (sizes[axis] != 1 && strides[axis] != step) return false;
    }
    return true;
  }
};

/// Reads descriptions of tensors out of a pickle.
class StateDict {
 public:
  explicit StateDict(const Pickle& pickle) : pickle_(pickle) {}

  /// Names and values of the dictionary that holds the tensors.
  const PicklePairs& pairs() const {
    const PickleValue* dictionary = &pickle_.root();
    for (const char* key : {"state_dict", "model", "model_state_dict"}) {
      const PickleValue* inner = find(pickle_.root(), key);
      if (inner != nullptr && pairs_of(*inner) != nullptr) dictionary = inner;
      if (dictionary == inner) break;
    }
    if (const PicklePairs* pairs = pairs_of(*dictionary)) return *pairs;
    pickle_.fail(*dictionary, "no state dict is here: save one by torch.save(model.state_dict(), FILE)");
  }

  /// None for what is no tensor.
  std::optional<View> view_in(const PickleValue& value) const {
    const bool is_parameter = is_made_by(value, rebuild_parameter);
    const PickleValue& tensor = is_parameter ? *arguments(value, 1)[0] : value;
    if (!is_made_by(tensor, rebuild_tensor)) return std::nullopt;
    const PickleItems& parts = arguments(tensor, 4);
    View view = storage(*parts[0]);
    view.offset = integer(*parts[1]);
    view.sizes = integers(*parts[2]);
    view.strides = integers(*parts[3]);
    if (view.sizes.size() != view.strides.size())
      pickle_.fail(value, "a tensor has fewer strides than dimensions");
    return view;
  }

  Shape shape_of(const View& view, const PickleValue& value) const {
    try {
      Shape shape(view.sizes);
      static_cast<void>(shape.elements());  // refuses what is too large
      return shape;
    } catch (const UsageError& error) {
      pickle_.fail(value, error.what());
    }
  }

 private:
  static const PicklePairs* pairs_of(const PickleValue& value) {
    if (const auto* dict = std::get_if<PickleDict>(&value.content)) return &dict->pairs;
    if (is_made_by(value, "collections.OrderedDict")) return &std::get<PickleObject>(value.content).pairs;
    return nullptr;
  }

  const PickleItems& arguments(const PickleValue& value, std::size_t least) const {
    const auto& object = pickle_.as<PickleObject>(value, "no call is here");
    return items(*object.arguments, least);
  }

  const PickleItems& items(const PickleValue& value, std::size_t least) const {
    const PickleItems& items = pickle_.as<PickleTuple>(value, "no tuple is here").items;
    if (items.size() < least)
      pickle_.fail(value, fmt::format("{} values, {} belong here", items.size(), least));
    return items;
  }

  std::int64_t integer(const PickleValue& value) const {
    const auto number = pickle_.as<std::int64_t>(value, "no whole number is here");
    if (number < 0 || number > most_elements)
      pickle_.fail(value, fmt::format("the size {} is out of range", number));
    return number;
  }

  std::vector<std::int64_t> integers(const PickleValue& value) const {
    std::vector<std::int64_t> numbers;
    for (const PickleValue* item : items(value, 0)) numbers.push_back(integer(*item));
    return numbers;
  }

  /// ("storage", class, key, location, elements).
  View storage(const PickleValue& value) const {
    const PickleItems& parts = items(*pickle_.as<PicklePersistent>(value, "a tensor without storage").id, 3);
    const auto& type = pickle_.as<PickleGlobal>(*parts[1], "a storage without a class");
    const std::string name = fmt::format("{}.{}", type.module, type.name);
    const auto found = std::ranges::find(storage_classes, name, &StorageClass::name);
    if (found == storage_classes.end()) pickle_.fail(*parts[1], name + " is no storage");
    return {.key = std::string(text_of(*parts[2])), .dtype = found->dtype, .sizes = {}, .strides = {}};
  }

  static constexpr std::int64_t most_elements = std::int64_t{1} << 40;

  const Pickle& pickle_;
};

std::map<std::string, std::string> scalars_in(const PickleValue* dictionary) {
  std::map<std::string, std::string> scalars;
  const auto* dict = dictionary == nullptr ? nullptr : std::get_if<PickleDict>(&dictionary->content);
  if (dict == nullptr) return scalars;
  for (const auto& [key, value] : dict->pairs) {
    const std::string name(text_of(*key));
    if (const auto* is = std::get_if<bool>(&value->content)) {
      scalars[name] = *is ? "true" : "false";
    } else if (const auto* integer = std::get_if<std::int64_t>(&value->content)) {
      scalars[name] = fmt::format("{}", *integer);
    } else if (const auto* real = std::get_if<double>(&value->content)) {
      scalars[name] = fmt::format("{}", *real);
    }
  }
  return scalars;
}

/// The elements in row-major order. Every index was checked against the storage.
std::vector<std::byte> gather(const View& view, const Shape& shape, std::span<const std::byte> storage) {
  const std::size_t size = size_of(view.dtype);
  std::vector<std::byte> elements(bytes_of(view.dtype, shape));
  std::vector<std::int64_t> index(view.sizes.size(), 0);
  for (std::size_t at = 0; at < elements.size(); at += size) {
    std::int64_t from = view.offset;
    for (std::size_t axis = 0; axis < index.size(); ++axis) from += index[axis] * view.strides[axis];
    std::memcpy(elements.data() + at, storage.data() + static_cast<std::size_t>(from) * size, size);
    for (std::size_t axis = index.size(); axis-- > 0 && ++index[axis] == view.sizes[axis];) index[axis] = 0;
  }
  return elements;
}

/// Elements of its storage that a view needs.
std::uint64_t reach(const View& view) {
  std::uint64_t last = static_cast<std::uint64_t>(view.offset);
  for (std::size_t axis = 0; axis < view.sizes.size(); ++axis) {
    if (view.sizes[axis] == 0) return 0;
    std::uint64_t step = 0;
    const bool overflows = __builtin_mul_overflow(static_cast<std::uint64_t>(view.sizes[axis] - 1),
                                                  static_cast<std::uint64_t>(view.strides[axis]), &step) ||
                           __builtin_add_overflow(last, step, &last);
    if (overflows) return std::uint64_t(-1) / sizeof(double);
  }
  return last + 1;
}

const data::ZipFile::Entry& entry_of(const data::ZipFile& zip, const std::string& name) {
  if (const auto* entry = zip.find(name)) return *entry;
  throw DataError(
      fmt::format("{}: has no entry {}: is it no checkpoint of torch.save?", zip.path().string(), name));
}

/// PyTorch names the folder in the archive after the file that it wrote first.
std::string folder_of(const data::ZipFile& zip) {
  for (const auto& entry : zip.entries()) {
    if (fs::path(entry.name).filename() == "data.pkl") return fs::path(entry.name).parent_path().string();
  }
  throw DataError(
      fmt::format("{}: has no entry data.pkl: is it no checkpoint of torch.save?", zip.path().string()));
}

}  // namespace

TorchFile::TorchFile(const fs::path& path) : zip_(path) {
  const std::string folder = folder_of(zip_);
  if (const auto* order = zip_.find(folder + "/byteorder")) {
    const auto text = zip_.contents(*order);
    const bool little = text.size() == 6 && std::memcmp(text.data(), "little", 6) == 0;
    if (!little) throw DataError(fmt::format("{}: was written on a big-endian machine", path.string()));
  }
  const auto& entry = entry_of(zip_, folder + "/data.pkl");
  const Pickle pickle(path.string() + ": " + entry.name, zip_.contents(entry), allowed_globals());
  const StateDict state_dict(pickle);
  model_args_ = scalars_in(find(pickle.root(), "model_args"));
  for (const auto& [key, value] : state_dict.pairs()) {
    const auto view = state_dict.view_in(*value);
    if (!view) continue;
    const auto& storage = entry_of(zip_, folder + "/data/" + view->key);
    const std::span<const std::byte> bytes = zip_.contents(storage);
    const std::size_t size = size_of(view->dtype);
    if (reach(*view) > bytes.size() / size) {
      pickle.fail(*value, fmt::format("'{}' reaches element {} of {}, which has {}", text_of(*key),
                                      reach(*view), storage.name, bytes.size() / size));
    }
    WeightsTensor tensor{.name = std::string(text_of(*key)),
                         .dtype = view->dtype,
                         .shape = state_dict.shape_of(*view, *value),
                         .bytes = {},
                         .file = path};
    if (static_cast<std::uint64_t>(tensor.shape.elements()) > bytes.size() / size) {
      pickle.fail(*value, fmt::format("'{}' repeats its storage: save it by contiguous()", tensor.name));
    }
    if (tensor.shape.elements() == 0) {
      tensor.bytes = {};
    } else if (view->is_contiguous()) {
      tensor.bytes =
          bytes.subspan(static_cast<std::size_t>(view->offset) * size, bytes_of(tensor.dtype, tensor.shape));
    } else {
      tensor.bytes = copies_.emplace_back(gather(*view, tensor.shape, bytes));
    }
    tensors_.push_back(std::move(tensor));
  }
  if (tensors_.empty()) {
    throw DataError(fmt::format(
        "{}: {}: holds no tensors by name, itself or under 'state_dict', 'model' or 'model_state_dict'",
        path.string(), entry.name));
  }
}

}  // namespace lockstep::runtime
