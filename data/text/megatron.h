#pragma once

#include "data/text/token_file.h"

namespace lockstep::data {

/// FILE.bin and FILE.idx of Megatron-LM (megatron/core/datasets/indexed_dataset.py): the index has the magic
/// number "MMIDIDX\0\0", u64 version 1, u8 code of the dtype, u64 numbers of sequences and of documents, then
/// i32 sizes of sequences in tokens, i64 offsets of sequences in bytes, i64 numbers of the sequence with
/// which each document begins, and the number of all sequences. DataError names the file and the offset.
TokenFile open_megatron(const std::filesystem::path& bin, const std::filesystem::path& idx);

}  // namespace lockstep::data
