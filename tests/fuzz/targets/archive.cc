// A tar archive, or text packed by gzip or zstd: what is in it is listed, opened and read.
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "analyzer/reader/files/input_file.h"
#include "analyzer/reader/files/tar_file.h"
#include "analyzer/reader/files/text_bytes.h"
#include "analyzer/reader/files/within.h"

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer's name
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace traintrace;
  // Another one each time: what is known of an archive is kept by its name, length and time.
  const int descriptor = memfd_create("fuzz", 0);
  const std::string path = "/proc/self/fd/" + std::to_string(descriptor);
  constexpr size_t kMostText = 1 << 20;
  if (write(descriptor, data, size) == static_cast<ssize_t>(size)) {
    const auto text = text_of_file(path, kMostText);
    if (text && text->size() > kMostText) {
      __builtin_trap();
    }
    const Result<InputFile> file = InputFile::open(path);
    std::optional<ReadError> problem;
    std::vector<std::byte> bytes(4096);
    if (file && is_tar(*file)) {
      for (const TarMember& member : members_of(*file, problem)) {
        const Result<InputFile> inner = open_within(path + "/" + member.name);
        if (inner && inner->read(0, bytes) > inner->bytes()) {
          __builtin_trap();
        }
      }
    }
  }
  close(descriptor);
  return 0;
}
