#include "analyzer/reader/files/text_bytes.h"

#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "analyzer/reader/files/file_bytes.h"
#include "analyzer/reader/files/input_file.h"

namespace traintrace {
namespace {

constexpr size_t kPart = 64 << 10;

bool is_gzip(std::string_view head) {
  return head.starts_with("\x1f\x8b");
}

bool is_zstd(std::string_view head) {
  return head.starts_with("\x28\xb5\x2f\xfd");
}

// Hands on the file part by part until `take` says that it is enough.
template <class Take>
void for_each_part(const InputFile& file, Take take) {
  std::vector<std::byte> part(kPart);
  size_t got = 1;
  for (uint64_t at = 0; got > 0; at += got) {
    got = file.read(at, part);
    if (got == 0 || !take(std::span(part).first(got))) {
      return;
    }
  }
}

std::string gunzipped(const InputFile& file, size_t most) {
  constexpr int kGzip = 16 + MAX_WBITS;
  std::string text;
  z_stream stream = {};
  if (inflateInit2(&stream, kGzip) != Z_OK) {
    return text;
  }
  std::vector<unsigned char> out(kPart);
  for_each_part(file, [&](std::span<std::byte> part) {
    stream.next_in = reinterpret_cast<unsigned char*>(part.data());
    stream.avail_in = static_cast<unsigned>(part.size());
    int result = Z_OK;
    while (result == Z_OK && text.size() < most && (stream.avail_in > 0 || stream.avail_out == 0)) {
      stream.next_out = out.data();
      stream.avail_out = static_cast<unsigned>(out.size());
      result = inflate(&stream, Z_NO_FLUSH);
      text.append(reinterpret_cast<char*>(out.data()), out.size() - stream.avail_out);
      if (result == Z_STREAM_END && inflateReset(&stream) == Z_OK) {
        result = Z_OK;  // another member may follow
      }
    }
    return result == Z_OK && text.size() < most;
  });
  inflateEnd(&stream);
  return text;
}

std::string unzstd(const InputFile& file, size_t most) {
  std::string text;
  const std::unique_ptr<ZSTD_DStream, size_t (*)(ZSTD_DStream*)> stream(ZSTD_createDStream(),
                                                                        ZSTD_freeDStream);
  constexpr int kMostWindow = 27;
  if (stream == nullptr ||
      ZSTD_isError(ZSTD_DCtx_setParameter(stream.get(), ZSTD_d_windowLogMax, kMostWindow)) != 0) {
    return text;
  }
  std::vector<char> out(kPart);
  for_each_part(file, [&](std::span<std::byte> part) {
    ZSTD_inBuffer from = {part.data(), part.size(), 0};
    while (text.size() < most) {
      ZSTD_outBuffer into = {out.data(), out.size(), 0};
      const size_t result = ZSTD_decompressStream(stream.get(), &into, &from);
      if (ZSTD_isError(result) != 0) {
        return false;
      }
      text.append(out.data(), into.pos);
      if (from.pos == from.size && into.pos < into.size) {
        return true;
      }
    }
    return false;
  });
  return text;
}

}  // namespace

std::optional<std::string> text_of_file(const std::string& path, size_t most) {
  constexpr size_t kMagic = 4;
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";  // before UTF-8
  const std::string head = head_of(path, kMagic);
  if (!is_gzip(head) && !is_zstd(head)) {
    std::optional<std::string> bytes = bytes_of_file(path, most);
    if (bytes && bytes->starts_with(kByteOrderMark)) {
      bytes->erase(0, kByteOrderMark.size());
    }
    return bytes;
  }
  const Result<InputFile> file = InputFile::open(path);
  if (!file) {
    return std::nullopt;
  }
  std::string text = is_gzip(head) ? gunzipped(*file, most) : unzstd(*file, most);
  text.resize(std::min(text.size(), most));
  return text;
}

// "start 1700000000.000000000", then a line about the first process.
bool is_dump_text(const std::string& path) {
  constexpr std::string_view kStart = "start ";
  constexpr size_t kLook = 256;
  const std::string text = text_of_file(path, kLook).value_or("");
  const size_t line = text.find('\n');
  return text.starts_with(kStart) && line != text.npos &&
         text.find_first_not_of("0123456789.", kStart.size()) == line &&
         text.compare(line + 1, 8, "process ") == 0;
}

}  // namespace traintrace
