#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "kernels/base/dtype.h"
#include "kernels/base/export.h"
#include "kernels/base/shape.h"
#include "kernels/gather_rows.h"
#include "kernels/pictures.h"
#include "kernels/token_windows.h"

namespace lockstep {
class Activity;
}

namespace lockstep::data {

/// Classes that a data set may have.
inline constexpr std::int64_t most_classes = std::int64_t{1} << 24;

/// PyTorch's ignore_index: a class that does not count.
inline constexpr std::int64_t no_class = -100;
/// Behind the last token of a sequence that is shorter than others.
inline constexpr std::int64_t padding_token = -1;

/// What one sample looks like, without the batch dimension. Tokens are i64 (T), as model::InputSpec has them.
struct SampleSpec {
  DType input_dtype = DType::f32;
  Shape input_shape{};
  DType target_dtype = DType::i64;
  Shape target_shape{};          ///< of classes: rank 0 for one a sample, {T} for one a token
  std::int64_t num_classes = 0;  ///< 0: the targets are no classes
  std::int64_t vocab_size = 0;   ///< tokens are 0 to vocab_size - 1, or padding; 0: the inputs are no tokens
  /// So many tokens of a row are the source, those behind them the target's input. 0: one sequence.
  std::int64_t source_length = 0;
  /// States before the first step of a recurrent model, f32: h, or h and c, by layer (1 or 2, layers,
  /// hidden). Rank 0: samples have none.
  Shape states_shape{};
  /// A row holds documents behind each other: its tokens, and then as many positions of them, each in its
  /// document; both -1 for padding.
  bool packed = false;
  /// Of pictures: what makes an input of their bytes, see Dataset::as_bytes.
  std::optional<kernels::PicturesToFloats> pictures{};
  /// Of windows of tokens that a device keeps: what makes inputs and targets of them. A sample is then a
  /// kernels::KeptSample, without a target of its own, and `num_classes` and `vocab_size` are of what is
  /// made.
  std::optional<kernels::GatherWindows> windows{};
  /// The same of whole samples.
  std::optional<kernels::GatherRows> rows{};

  std::size_t input_bytes() const { return bytes_of(input_dtype, input_shape); }
  std::size_t target_bytes() const { return bytes_of(target_dtype, target_shape); }
  std::size_t states_bytes() const {
    return states_shape.rank() == 0 ? 0 : bytes_of(DType::f32, states_shape);
  }
  /// Samples only say which part of what a device keeps they are.
  bool names_kept() const { return windows || rows || (pictures && pictures->has_store()); }
  /// Of an item that the device keeps: a picture, a token, a sample.
  std::size_t kept_bytes() const {
    if (windows) return static_cast<std::size_t>(windows->width);
    return static_cast<std::size_t>(rows ? rows->stored_bytes() : pictures->stored_bytes());
  }
};

/// Samples by index. `get` is called from several threads at once and depends on its arguments alone.
class LOCKSTEP_API Dataset {
 public:
  virtual ~Dataset() = default;
  virtual std::int64_t size() const = 0;
  virtual const SampleSpec& spec() const = 0;
  /// Writes sample `index` into buffers of exactly spec().input_bytes() and target_bytes().
  virtual void get(std::int64_t index, std::int64_t epoch, std::span<std::byte> input,
                   std::span<std::byte> target) const = 0;
  /// Writes the states of sample `index` into a buffer of exactly spec().states_bytes(), where that is not 0.
  virtual void get_states(std::int64_t /*index*/, std::span<std::byte> /*states*/) const {}
  /// Targets of sample `index` that count: 1, or as many of its tokens' classes as are not -100, for which
  /// the default reads the sample. The loader asks for it where a step has several batches, before it reads
  /// those that follow the first.
  virtual std::int64_t valid_targets(std::int64_t index, std::int64_t epoch) const;
  /// Of a data set whose rows of tokens end in padding: so many numbers at the beginning of row `index` hold
  /// all its tokens and the targets that count. Batches are cut to such lengths. 0, of each sample: rows stay
  /// whole.
  virtual std::int64_t length(std::int64_t /*index*/) const { return 0; }
  /// The same samples, whose inputs are not yet what `spec().pictures` makes of them: u8 rows of that op. A
  /// GPU is given a quarter of the bytes, and the host has less to do. It outlives this data set. Null: there
  /// is no such form.
  virtual std::shared_ptr<const Dataset> as_bytes() const { return nullptr; }
  /// The same samples for a device that keeps what they are made of, pictures, tokens or the samples
  /// themselves: inputs say which part of it. The first item of the set is number `first` there. It outlives
  /// this data set. Null: what is kept would not do.
  virtual std::shared_ptr<const Dataset> as_kept(std::int64_t /*first*/) const { return nullptr; }
  /// Of what `as_kept` gives: how many items the device keeps.
  virtual std::int64_t kept() const { return 0; }
  /// As many of them as `items` has room for, from the set's item `first` on.
  virtual void read_kept(std::int64_t /*first*/, std::span<std::byte> /*items*/) const {}
  /// The number by which a user finds sample `index` in what it was read from: of its line, from 0, where
  /// lines without a sample lie between.
  virtual std::int64_t place_of(std::int64_t index) const { return index; }
  /// What a user should know of how its samples are made, in a line; empty: nothing.
  virtual std::string note() const { return {}; }
  /// What is lost as its samples are made, in a line; empty: nothing.
  virtual std::string warning() const { return {}; }
  using TakeBytes = std::function<void(std::span<const std::byte>)>;
  /// Calls `take` with pieces of what samples are made of, the same at each call: bytes in memory or in
  /// mapped files, and labels. By default with none.
  virtual void each_content(const TakeBytes& /*take*/) const {}
  /// Calls `take` with what files hold of sample `index`, where samples are made of that by work, as of
  /// pictures. By default not.
  virtual void read_file(std::int64_t /*index*/, const TakeBytes& /*take*/) const {}
};

/// The same of a sample that has been read.
std::int64_t valid_targets_in(const SampleSpec& spec, std::span<const std::byte> input,
                              std::span<const std::byte> target);
/// Tokens of a row that has been read, up to its padding: where it is a source and a target, of the target.
std::int64_t tokens_in(const SampleSpec& spec, std::span<const std::byte> input);

/// A digest of the samples' description, their number and the contents of some: another one when the data
/// changed, but for changes that miss all of those.
std::string fingerprint_of(const Dataset& dataset, Activity* activity = nullptr);

/// A digest of what `each_content` gives: of a small set all of it, of a large one blocks that are spread
/// over it; of more than 256 pieces, such as files, the sizes of all and a block of some. Empty where it
/// gives nothing.
std::string content_digest_of(const Dataset& dataset, Activity* activity = nullptr);

/// A digest of what `read_file` gives of 64 samples: of each its size and up to 64 KiB. `fingerprint_of`
/// has time for few large samples. Empty where it gives nothing.
std::string file_digest_of(const Dataset& dataset, Activity* activity = nullptr);

using DatasetPtr = std::shared_ptr<const Dataset>;

}  // namespace lockstep::data
