#pragma once

#include "data/dataset.h"
#include "data/datasets.h"
#include "data/pictures/picture.h"
#include "data/pictures/transforms.h"

namespace lockstep::data {

/// The samples of a set of pictures: the split's list of transforms, applied with the options' seed, to each;
/// a class as target. What --corrupt-samples says is done with pictures that cannot be read: `fail` throws
/// their DataError; `skip` takes the next good one in their place, warns once of each, and counts them.
/// UsageError when the transforms do not give all pictures one size.
DatasetPtr with_transform(PictureSetPtr pictures, const DatasetOptions& options, Split split);

/// What samples look like when all pictures have `picture_size`, or none that is known.
SampleSpec picture_spec(const Transform& transform, std::optional<PictureSize> picture_size, int channels,
                        std::int64_t num_classes);

}  // namespace lockstep::data
