#include "analyzer/reader/files/decompress.h"

#include <zlib.h>
#include <zstd.h>

#include <memory>
#include <optional>
#include <vector>

namespace traintrace {
namespace {

constexpr size_t kPart = 64 << 10;

using Take = std::function<bool(std::string_view)>;

// Of all parts of the file, by `unpack`: nothing as long as it goes on.
template <class Unpack>
std::optional<Unpacking> for_each_part(const InputFile& file, const Unpack& unpack) {
  std::vector<std::byte> part(kPart);
  for (uint64_t at = 0;;) {
    const size_t got = file.read(at, part);
    if (got == 0) {
      return std::nullopt;
    }
    if (const std::optional<Unpacking> end = unpack(std::span(part).first(got))) {
      return end;
    }
    at += got;
  }
}

class Gzip {
 public:
  Gzip() : is_ready_(inflateInit2(&stream_, 16 + MAX_WBITS) == Z_OK) {}
  ~Gzip() {
    if (is_ready_) {
      inflateEnd(&stream_);
    }
  }
  Gzip(const Gzip&) = delete;
  Gzip& operator=(const Gzip&) = delete;

  Unpacking run(const InputFile& file, const Take& take) {
    if (!is_ready_) {
      return Unpacking::kDamaged;
    }
    const auto end =
        for_each_part(file, [&](std::span<std::byte> part) { return unpack(part, take); });
    return end.value_or(between_members_ ? Unpacking::kWhole : Unpacking::kCut);
  }

 private:
  std::optional<Unpacking> unpack(std::span<std::byte> part, const Take& take) {
    stream_.next_in = reinterpret_cast<unsigned char*>(part.data());
    stream_.avail_in = static_cast<unsigned>(part.size());
    do {
      stream_.next_out = out_.data();
      stream_.avail_out = static_cast<unsigned>(out_.size());
      const int result = inflate(&stream_, Z_NO_FLUSH);
      const size_t size = out_.size() - stream_.avail_out;
      if (result != Z_OK && result != Z_STREAM_END && result != Z_BUF_ERROR) {
        // What follows the last member and is none, zeros as a rule, is no damage.
        return between_members_ ? Unpacking::kWhole : Unpacking::kDamaged;
      }
      if (size > 0 && !take({reinterpret_cast<const char*>(out_.data()), size})) {
        return Unpacking::kStopped;
      }
      between_members_ = result == Z_STREAM_END || (between_members_ && result == Z_BUF_ERROR);
      if (result == Z_STREAM_END && inflateReset(&stream_) != Z_OK) {
        return Unpacking::kDamaged;
      }
    } while (stream_.avail_in > 0 || stream_.avail_out == 0);
    return std::nullopt;
  }

  z_stream stream_ = {};
  bool is_ready_;
  bool between_members_ = false;
  std::vector<unsigned char> out_ = std::vector<unsigned char>(kPart);
};

Unpacking unzstd(const InputFile& file, const Take& take) {
  constexpr int kMostWindow = 27;
  const std::unique_ptr<ZSTD_DStream, size_t (*)(ZSTD_DStream*)> stream(ZSTD_createDStream(),
                                                                        ZSTD_freeDStream);
  if (stream == nullptr ||
      ZSTD_isError(ZSTD_DCtx_setParameter(stream.get(), ZSTD_d_windowLogMax, kMostWindow)) != 0) {
    return Unpacking::kDamaged;
  }
  std::vector<char> out(kPart);
  size_t left_of_frame = 1;
  const auto end = for_each_part(file, [&](std::span<std::byte> part) -> std::optional<Unpacking> {
    ZSTD_inBuffer from = {part.data(), part.size(), 0};
    while (true) {
      ZSTD_outBuffer into = {out.data(), out.size(), 0};
      const size_t before = from.pos;
      const size_t result = ZSTD_decompressStream(stream.get(), &into, &from);
      if (ZSTD_isError(result) != 0) {
        return Unpacking::kDamaged;
      }
      // After a frame that fills `out` exactly it asks for the head of another one.
      if (from.pos != before || into.pos > 0) {
        left_of_frame = result;
      }
      if (into.pos > 0 && !take({out.data(), into.pos})) {
        return Unpacking::kStopped;
      }
      if (from.pos == from.size && into.pos < into.size) {
        return std::nullopt;
      }
    }
  });
  return end.value_or(left_of_frame == 0 ? Unpacking::kWhole : Unpacking::kCut);
}

}  // namespace

Packing packing_of(std::string_view head) {
  return head.starts_with("\x1f\x8b")           ? Packing::kGzip
         : head.starts_with("\x28\xb5\x2f\xfd") ? Packing::kZstd
                                                : Packing::kNone;
}

Packing packing_of(const InputFile& file) {
  char head[kPackingMagicBytes];
  const size_t got = file.read(0, std::as_writable_bytes(std::span(head)));
  return packing_of(std::string_view(head, got));
}

Unpacking decompress(const InputFile& file, const Take& take) {
  switch (packing_of(file)) {
    case Packing::kGzip:
      return Gzip().run(file, take);
    case Packing::kZstd:
      return unzstd(file, take);
    case Packing::kNone:
      break;
  }
  return Unpacking::kDamaged;
}

}  // namespace traintrace
