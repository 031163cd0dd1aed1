#pragma once

#include "data/text/token_file.h"

namespace lockstep::data {

/// Whether these bytes begin as NumPy's format does (numpy/lib/format.py).
bool is_numpy(std::span<const std::byte> bytes);

/// An array of one dimension, uint16, uint32, int32, int64 or uint64, as `np.save` writes it: the magic
/// number
/// "\x93NUMPY", two bytes of version, the header's length (u16, from version 2 on u32), and as text a dict
/// with 'descr', 'fortran_order' and 'shape'. DataError names the file, the offset and what is wrong there.
void read_numpy(TokenFile& file);

}  // namespace lockstep::data
