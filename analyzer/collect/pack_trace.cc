#include "analyzer/collect/pack_trace.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <span>
#include <utility>
#include <vector>

#include "analyzer/reader/files/trace_memory.h"
#include "analyzer/reader/sections/event_chunks.h"
#include "analyzer/reader/sections/layout.h"
#include "analyzer/reader/this_machine.h"
#include "analyzer/reader/trace_clock.h"
#include "format/pack_name.h"
#include "format/pack_writer.h"
#include "format/segments.h"

namespace traintrace {
namespace {

namespace fs = std::filesystem;
using format::PackMember;
using format::PackWriter;
using format::Section;

constexpr size_t kPage = 4096;

// A process that runs goes on writing: a page counts once it was read twice the same, as the
// keeper's copies do it.
size_t read_still(const TraceBytes& file, uint64_t offset, std::span<std::byte> into) {
  constexpr int kMostReadings = 8;
  const size_t got = file.read(offset, into);
  std::vector<std::byte> again(kPage);
  for (size_t at = 0; at < got; at += kPage) {
    const std::span<std::byte> page = into.subspan(at, std::min(kPage, got - at));
    const std::span<std::byte> other = std::span(again).first(page.size());
    for (int i = 0; i < kMostReadings; ++i) {
      file.read(offset + at, other);
      if (std::memcmp(page.data(), other.data(), page.size()) == 0) {
        break;
      }
      std::copy(other.begin(), other.end(), page.begin());
    }
  }
  return got;
}

class TracePacker {
 public:
  TracePacker(const TraceBytes& file, const Layout& layout, bool running, PackWriter& writer)
      : file_(file), layout_(layout), clock_(layout.header), running_(running), writer_(writer) {}

  uint64_t bytes() const {
    uint64_t end = format::kHeaderBytes;
    for (const Section& section : layout_.sections) {
      end = std::max(end, section.offset + section.bytes);
    }
    return end;
  }

  // False: writing failed.
  bool pack(const RingPart& ring) {
    std::vector<Section> sections = layout_.sections;
    std::sort(sections.begin(), sections.end(),
              [](const Section& a, const Section& b) { return a.offset < b.offset; });
    bool good = pack_bytes(0, format::kHeaderBytes);
    for (const Section& section : sections) {
      good = good && (section.kind == format::kEvents ? pack_events(section, ring)
                                                      : pack_bytes(section.offset, section.bytes));
    }
    return good;
  }

 private:
  bool pack_bytes(uint64_t offset, uint64_t bytes) {
    std::vector<std::byte> block(std::min<uint64_t>(bytes, format::kMostBlockBytes));
    for (uint64_t at = 0; at < bytes;) {
      const auto part = std::span(block).first(std::min<uint64_t>(block.size(), bytes - at));
      const size_t got =
          running_ ? read_still(file_, offset + at, part) : file_.read(offset + at, part);
      if (got == 0) {
        return true;  // the file ends there
      }
      if (!add(offset + at, part.first(got))) {
        return false;
      }
      at += got;
    }
    return true;
  }

  bool add(uint64_t offset, std::span<const std::byte> bytes) {
    return writer_.add(format::kPackTrace, offset, bytes.data(),
                       static_cast<uint32_t>(bytes.size()));
  }

  // A chunk as it was at one moment, as readers see it; those that are left out read as unused.
  bool pack_events(const Section& section, const RingPart& ring) {
    if (ring.last && *ring.last == 0) {
      return true;
    }
    std::vector<ChunkPlace> chunks = find_chunks(file_, section);
    std::erase_if(chunks, [](const ChunkPlace& chunk) {
      return chunk.element_bytes > format::kMostBlockBytes;
    });
    std::sort(chunks.begin(), chunks.end(),
              [](const ChunkPlace& a, const ChunkPlace& b) { return a.offset < b.offset; });
    const TimeNs since = ring.last ? newest_in(chunks) - *ring.last : 0;
    std::vector<std::byte> block;
    uint64_t begin = 0;
    const auto flush = [&] {
      const bool good = block.empty() || add(begin, block);
      block.clear();
      return good;
    };
    for (const ChunkPlace& place : chunks) {
      const std::optional<Chunk> chunk = read_chunk(file_, place, buffer_);
      if (!chunk || (ring.last && newest_in(*chunk) < since)) {
        continue;
      }
      const bool follows = place.offset == begin + block.size() &&
                           block.size() + place.element_bytes <= format::kMostBlockBytes;
      if (!follows && !flush()) {
        return false;
      }
      begin = block.empty() ? place.offset : begin;
      append(*chunk, place.element_bytes, block);
    }
    return flush();
  }

  static void append(const Chunk& chunk, size_t element_bytes, std::vector<std::byte>& block) {
    format::EventChunk head = chunk.head;
    head.committed = static_cast<uint32_t>(chunk.words.size_bytes());
    const size_t at = block.size();
    block.resize(at + element_bytes);
    std::memcpy(block.data() + at, &head, sizeof head);
    std::memcpy(block.data() + at + sizeof head, chunk.words.data(), chunk.words.size_bytes());
  }

  TimeNs newest_in(const Chunk& chunk) const {
    uint64_t ticks = 0;
    size_t at = 0;
    for (auto head = record_at(chunk.words, at); head; head = record_at(chunk.words, at)) {
      ticks = std::max(ticks, chunk.words[at + 1]);
      at += head->words;
    }
    return clock_.ns(ticks);
  }

  TimeNs newest_in(const std::vector<ChunkPlace>& places) {
    TimeNs newest = 0;
    for (const ChunkPlace& place : places) {
      const std::optional<Chunk> chunk = read_chunk(file_, place, buffer_);
      newest = chunk ? std::max(newest, newest_in(*chunk)) : newest;
    }
    return newest;
  }

  const TraceBytes& file_;
  const Layout& layout_;
  TraceClock clock_;
  bool running_;
  PackWriter& writer_;
  std::vector<uint64_t> buffer_;
};

// The file under its first name, removed unless it gets its own.
class NewFile {
 public:
  NewFile(const std::string& folder, std::string stem, uint64_t armed_ticks)
      : path_(fs::path(folder) / (stem + format::kPackSuffix)),
        stem_(std::move(stem)),
        first_("." + stem_ + "." + std::to_string(armed_ticks) + "." + std::to_string(getpid()) +
               ".part"),
        folder_(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
    if (folder_ < 0) {
      return;  // as errno says
    }
    unlinkat(folder_, first_.c_str(), 0);
    descriptor_ =
        openat(folder_, first_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  }
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;
  ~NewFile() {
    if (descriptor_ >= 0) {
      close(descriptor_);
    }
    if (!named_) {
      unlinkat(folder_, first_.c_str(), 0);
    }
    if (folder_ >= 0) {
      close(folder_);
    }
  }

  int descriptor() const { return descriptor_; }
  const std::string& path() const { return path_; }

  // What a file server says only when the file is closed counts, too.
  bool name(const format::PackHead& head) {
    const bool synced = fsync(descriptor_) == 0 || errno == EINVAL || errno == EROFS;
    const bool closed = close(descriptor_) == 0;
    descriptor_ = -1;
    char name[format::kMostPackName];
    if (synced && closed) {
      errno = format::name_pack(folder_, first_.c_str(), stem_.c_str(), head, name);
      named_ = errno == 0;
    }
    if (named_) {
      path_ = fs::path(path_).replace_filename(name);
    }
    return named_;
  }

 private:
  std::string path_;
  std::string stem_;
  std::string first_;
  int folder_;
  int descriptor_ = -1;
  bool named_ = false;
};

ReadError cannot_write(const std::string& path) {
  return {path, 0, std::string("cannot be written: ") + std::strerror(errno), true};
}

// What lies beside the trace under the same name; nothing: there is none, or it is not asked for.
std::optional<TraceBytes> beside(const std::string& trace, const char* suffix, bool wanted) {
  Result<TraceBytes> file = TraceBytes::open(fs::path(trace).replace_extension(suffix).string());
  return wanted && file && file->bytes() > 0 ? std::optional(std::move(*file)) : std::nullopt;
}

bool pack_file(const std::optional<TraceBytes>& file, PackMember member, PackWriter& writer) {
  std::vector<std::byte> block(format::kMostBlockBytes);
  for (uint64_t at = 0; file && at < file->bytes();) {
    const size_t wanted = std::min<uint64_t>(block.size(), file->bytes() - at);
    const size_t got = file->read(at, std::span(block).first(wanted));
    if (got == 0 || !writer.add(member, at, block.data(), static_cast<uint32_t>(got))) {
      return got == 0;
    }
    at += got;
  }
  return true;
}

uint64_t now_ns() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
}

}  // namespace

Result<Packed> pack_trace(const std::string& trace, const std::string& folder,
                          const RingPart& ring) {
  const Result<TraceBytes> file = open_newest(trace);
  std::vector<ReadError> problems;
  const Result<Layout> layout = file ? read_layout(*file, problems) : file.error();
  if (!layout) {
    return layout.error();
  }
  const format::FileHeader& header = layout->header;
  const std::optional<bool> running = is_running(header);
  const auto segments = beside(trace, format::kSegmentsSuffix, !ring.last);
  const auto threads = beside(trace, format::kThreadsSuffix, true);
  PackWriter writer;
  TracePacker packer(*file, *layout, running == true, writer);
  format::PackHead head = {};
  head.member_bytes[format::kPackTrace] = packer.bytes();
  head.member_bytes[format::kPackSegments] = segments ? segments->bytes() : 0;
  head.member_bytes[format::kPackThreads] = threads ? threads->bytes() : 0;
  head.collected_realtime_ns = now_ns();
  std::copy(std::begin(header.boot_id), std::end(header.boot_id), head.boot_id);
  head.start_time = header.start_time;
  head.pid = header.pid;
  head.armed_ticks = header.armed_ticks;
  head.flags = running == true    ? format::kPackRunning
               : running == false ? format::kPackGone
                                  : uint32_t{0};
  NewFile pack(folder, fs::path(trace).stem().string(), header.armed_ticks);
  if (pack.descriptor() < 0 || !writer.begin(pack.descriptor(), head) || !packer.pack(ring) ||
      !pack_file(segments, format::kPackSegments, writer) ||
      !pack_file(threads, format::kPackThreads, writer) || !writer.end() || !pack.name(head)) {
    return cannot_write(pack.path());
  }
  return Packed{pack.path(),
                std::string(header.host, std::find(header.host, std::end(header.host), '\0')),
                writer.bytes()};
}

}  // namespace traintrace
