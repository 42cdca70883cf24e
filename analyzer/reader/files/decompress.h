// What gzip or zstd has packed, as a stream.
#pragma once

#include <functional>
#include <string_view>

#include "analyzer/reader/files/input_file.h"

namespace traintrace {

enum class Packing { kNone, kGzip, kZstd };
constexpr size_t kPackingMagicBytes = 4;
Packing packing_of(std::string_view head);
Packing packing_of(const InputFile& file);

enum class Unpacking {
  kWhole,
  kCut,      // the file ends too early
  kDamaged,  // or needs more than 128 MiB of memory
  kStopped,  // by `take`
};
// Hands on what the file has packed, part by part, until `take` returns false: that is enough.
Unpacking decompress(const InputFile& file, const std::function<bool(std::string_view part)>& take);

}  // namespace traintrace
