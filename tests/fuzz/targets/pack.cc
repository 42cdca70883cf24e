// A pack (format/pack.h): read whole, and printed.  Its checksums are made right first, or hardly
// any input would come further than those; an odd last byte leaves them as they are.
#define XXH_INLINE_ALL  // NOLINT(readability-identifier-naming)
#include <sys/mman.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "analyzer/reader/read_trace.h"
#include "analyzer/text/dump_parser.h"
#include "analyzer/text/dump_printer.h"
#include "format/pack.h"

namespace {

using traintrace::format::PackBlock;
using traintrace::format::PackHead;

void make_right(std::vector<uint8_t>& pack) {
  PackHead head;
  if (pack.size() < sizeof head) {
    return;
  }
  std::memcpy(&head, pack.data(), sizeof head);
  head.version = traintrace::format::kPackVersion;
  head.head_bytes = sizeof head;
  head.checksum = XXH3_64bits(&head, offsetof(PackHead, checksum));
  std::memcpy(pack.data(), &head, sizeof head);
  PackBlock block;
  for (size_t at = sizeof head; pack.size() - at >= sizeof block;) {
    std::memcpy(&block, pack.data() + at, sizeof block);
    const size_t left = pack.size() - at - sizeof block;
    block.packed_bytes = static_cast<uint32_t>(std::min<size_t>(block.packed_bytes, left));
    block.checksum = XXH3_64bits(pack.data() + at + sizeof block, block.packed_bytes);
    block.head_checksum = XXH3_64bits(&block, offsetof(PackBlock, head_checksum));
    std::memcpy(pack.data() + at, &block, sizeof block);
    at += sizeof block + block.packed_bytes;
  }
}

}  // namespace

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer's name
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace traintrace;
  static const int descriptor = memfd_create("fuzz", 0);
  static const std::string path = "/proc/self/fd/" + std::to_string(descriptor);
  std::vector<uint8_t> pack(data, data + size);
  if (size == 0 || data[size - 1] % 2 == 0) {
    make_right(pack);
  }
  if (ftruncate(descriptor, 0) != 0 ||
      pwrite(descriptor, pack.data(), size, 0) != static_cast<ssize_t>(size)) {
    return 0;
  }
  Result<ProcessTrace> trace = read_trace(path, {.events = true});
  if (!trace) {
    return 0;
  }
  std::vector<ProcessTrace> processes;
  processes.push_back(std::move(*trace));
  std::string text;
  print_dump(processes, {}, [&](std::string_view part) { text += part; });
  if (!parse_dump(text, "fuzz")) {
    __builtin_trap();
  }
  return 0;
}
