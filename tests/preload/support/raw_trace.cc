#include "support/raw_trace.h"

#include <unistd.h>
#include <algorithm>

#include <cstring>
#include <fstream>
#include <optional>
#include <set>
#include <sstream>
#include <stdexcept>

#include "support/process.h"

namespace preload {
namespace {

namespace format = traintrace::format;

class RawReader {
 public:
  explicit RawReader(std::string bytes) : bytes_(std::move(bytes)) {}

  RawTrace read() {
    if (read_header()) {
      read_schema();
      read_stats();
      read_table(format::kThreads, trace_.threads);
      read_table(format::kOpenRanges, trace_.open_ranges);
      read_table(format::kCommunicators, trace_.communicators);
      read_table(format::kAllocations, trace_.allocations);
      read_table(format::kTensorBlocks, trace_.tensor_blocks);
      read_table(format::kTensorDevices, trace_.tensor_devices);
      read_table(format::kOutOfMemory, trace_.failures);
      read_table(format::kHeldBlocks, trace_.held_blocks);
      read_table(format::kHostFunctions, trace_.host_functions);
      read_table(format::kStreams, trace_.streams);
      read_definitions();
      read_chunks();
      check_nesting();
    }
    return std::move(trace_);
  }

 private:
  template <class T>
  T at(uint64_t offset) const {
    T value = {};
    if (offset + sizeof value > bytes_.size()) {
      throw std::runtime_error("behind the end of the file");
    }
    std::memcpy(&value, bytes_.data() + offset, sizeof value);
    return value;
  }

  template <class... Parts>
  void problem(const Parts&... parts) {
    std::ostringstream text;
    (text << ... << parts);
    trace_.problems.push_back(text.str());
  }

  format::Section section(format::SectionKind kind) {
    for (uint32_t i = 0; i < trace_.header.section_count; ++i) {
      if (trace_.header.sections[i].kind == kind) {
        format::Section section = trace_.header.sections[i];
        section.bytes = trace_.header.ready_bytes[i];
        return section;
      }
    }
    problem("no section ", kind);
    return {};
  }

  bool read_header() {
    if (bytes_.size() < format::kHeaderBytes) {
      problem("no header");
      return false;
    }
    const auto& header = trace_.header = at<format::FileHeader>(0);
    if (std::memcmp(header.magic, format::kMagic, sizeof header.magic) != 0 || !header.ready) {
      problem("not ready");
      return false;
    }
    for (uint32_t i = 0; i < header.section_count; ++i) {
      const format::Section& section = header.sections[i];
      if (section.kind == format::kChunkStates) {
        continue;
      }
      if (section.offset < format::kHeaderBytes ||
          section.offset + header.ready_bytes[i] > bytes_.size() ||
          header.ready_bytes[i] > section.bytes || section.bytes % section.element_bytes != 0) {
        problem("section ", section.kind, " lies wrong");
        return false;
      }
    }
    return true;
  }

  void read_schema() {
    const format::Section where = section(format::kSchema);
    std::istringstream lines(bytes_.substr(where.offset, where.bytes));
    std::string line;
    while (std::getline(lines, line)) {
      std::istringstream words(line);
      std::string what;
      uint16_t id = 0;
      words >> what >> id;
      if (what == "call") {
        read_call(words, trace_.calls[id]);
      } else if (what == "stat") {
        words >> stat_names_[id];
      }
    }
  }

  static void read_call(std::istream& words, RawCall& call) {
    std::string library;
    words >> call.name >> library >> call.kind;
    for (std::string field; words >> field;) {
      const size_t first = field.find(':');
      const std::string name = field.substr(first + 1, field.rfind(':') - first - 1);
      (field.starts_with("out:") ? call.outs : call.ins).push_back(name);
    }
  }

  void read_stats() {
    const format::Section where = section(format::kStats);
    for (const auto& [index, name] : stat_names_) {
      if (const auto count = at<uint64_t>(where.offset + index * sizeof(uint64_t))) {
        trace_.stats[name] = count;
      }
    }
  }

  template <class Element>
  void read_table(format::SectionKind kind, std::vector<Element>& into) {
    const format::Section where = section(kind);
    if (where.element_bytes != sizeof(Element)) {
      problem("elements of section ", kind, " have ", where.element_bytes, " bytes");
      return;
    }
    for (uint64_t offset = 0; offset < where.bytes; offset += sizeof(Element)) {
      const auto element = at<Element>(where.offset + offset);
      uint64_t first = 0;
      std::memcpy(&first, &element, std::min(sizeof first, sizeof element));
      // What was freed is no element; a block of PyTorch's says when it was (format::freed_at).
      const bool is_freed = (kind == format::kAllocations && first == 1) ||
                            (kind == format::kTensorBlocks && (first & 1) != 0);
      const bool numbered = kind == format::kThreads || kind == format::kCommunicators;
      if (numbered ? static_cast<uint32_t>(first) != 0 : first != 0 && !is_freed) {
        into.push_back(element);
      }
    }
  }

  void read_definitions() {
    const format::Section where = section(format::kDefinitions);
    for (uint64_t offset = 0; offset < where.bytes; offset += where.element_bytes) {
      const auto chunk = at<format::DefinitionChunk>(where.offset + offset);
      if (chunk.ordinal) {
        read_definition_chunk(where.offset + offset + sizeof chunk, chunk.committed,
                              where.element_bytes - sizeof chunk);
      }
    }
  }

  void read_definition_chunk(uint64_t offset, uint64_t bytes, uint64_t room) {
    if (bytes > room) {
      problem("a definition chunk has ", bytes, " bytes");
      return;
    }
    const uint64_t end = offset + bytes;
    while (offset < end) {
      const auto head = at<format::DefinitionHead>(offset);
      if (head.bytes < sizeof head || head.bytes % 8 != 0 || offset + head.bytes > end) {
        problem("a definition of ", head.bytes, " bytes");
        return;
      }
      if (head.kind == format::kFact) {
        const auto fact = at<format::FactDefinition>(offset);
        const uint64_t key = offset + sizeof fact;
        trace_.facts[bytes_.substr(key, fact.key_bytes)] =
            bytes_.substr(key + fact.key_bytes, fact.value_bytes);
      } else if (head.kind == format::kRangeName) {
        read_range_name(offset);
      }
      offset += head.bytes;
    }
  }

  void read_range_name(uint64_t offset) {
    const auto range = at<format::RangeNameDefinition>(offset);
    const std::string domain = bytes_.substr(offset + sizeof range, range.domain_bytes);
    const std::string name =
        bytes_.substr(offset + sizeof range + range.domain_bytes, range.name_bytes);
    const std::string whole = domain.empty() ? name : domain + "/" + name;
    if (range.id == 0 || !trace_.range_names.emplace(range.id, whole).second) {
      problem("range ", range.id, " is defined twice");
    }
  }

  struct Chunk {
    format::EventChunk head;
    uint64_t offset;
  };

  void read_chunks() {
    const format::Section where = section(format::kEvents);
    std::vector<Chunk> chunks;
    std::set<uint64_t> ordinals;
    for (uint64_t offset = where.offset; offset < where.offset + where.bytes;
         offset += where.element_bytes) {
      const auto head = at<format::EventChunk>(offset);
      if (!head.ordinal) {
        continue;
      }
      if (head.committed > where.element_bytes - sizeof head) {
        problem("an event chunk of ", head.committed, " bytes");
      } else if (!ordinals.insert(head.ordinal).second) {
        problem("ordinal ", head.ordinal, " twice");
      } else {
        chunks.push_back({head, offset + sizeof head});
      }
    }
    std::sort(chunks.begin(), chunks.end(),
              [](const Chunk& a, const Chunk& b) { return a.head.ordinal < b.head.ordinal; });
    for (const Chunk& chunk : chunks) {
      read_chunk(chunk);
    }
  }

  void read_chunk(const Chunk& chunk) {
    const uint32_t thread = chunk.head.thread;
    if (!thread) {
      problem("a chunk of no thread");
    }
    const auto next = next_event_.find(thread);
    if (next != next_event_.end() && chunk.head.first_event != next->second) {
      if (chunk.head.first_event < next->second || !trace_.stats.contains("ring-overwritten")) {
        problem("thread ", thread, ": events ", next->second, " to ", chunk.head.first_event,
                " are missing");
      }
      behind_gap_.insert(thread);
    }
    uint64_t events = chunk.head.first_event;
    const uint64_t end = chunk.offset + chunk.head.committed;
    for (uint64_t offset = chunk.offset; offset < end; ++events) {
      const auto head = at<format::RecordHead>(offset);
      if (head.words < 2 || offset + head.words * 8UL > end) {
        problem("a record of ", int{head.words}, " words");
        return;
      }
      read_record(thread, head, offset);
      offset += head.words * 8UL;
    }
    next_event_[thread] = events;
  }

  void read_record(uint32_t thread, const format::RecordHead& head, uint64_t offset) {
    RawRecord record;
    record.thread = thread;
    record.type = static_cast<format::RecordType>(head.type);
    record.call = head.call;
    record.device = head.device;
    record.stack = head.stack;
    record.ticks = at<uint64_t>(offset + 8);
    const bool enter = head.type == format::kEnter;
    record.caller = enter ? at<uint64_t>(offset + 16) : 0;
    for (uint64_t word = enter ? 3 : 2; word < head.words; ++word) {
      record.values.push_back(at<uint64_t>(offset + 8 * word));
    }
    check_record(record);
    if (behind_gap_.erase(thread)) {
      gaps_.insert(trace_.records.size());
    }
    trace_.records.push_back(std::move(record));
  }

  void check_record(const RawRecord& record) {
    uint64_t& last = last_ticks_[record.thread];
    if (record.ticks < last) {
      problem("thread ", record.thread, " goes back in time by ", last - record.ticks);
    }
    last = record.ticks;
    if (record.type == format::kNote) {
      return;
    }
    const auto call = trace_.calls.find(record.call);
    if (call == trace_.calls.end()) {
      problem("unknown call ", record.call);
    } else if (record.type == format::kMoment) {
      if (record.values.empty() || record.values.size() > call->second.ins.size()) {
        problem(call->second.name, " with ", record.values.size(), " values");
      }
    } else if (record.type == format::kEnter
                   ? record.values.size() != call->second.ins.size()
                   : record.values.size() != (record.result() ? 0 : call->second.outs.size())) {
      problem(call->second.name, " with ", record.values.size(), " values");
    }
  }

  // Within one thread calls are open inside each other.
  void check_nesting() {
    std::map<uint32_t, std::vector<uint16_t>> open;
    size_t index = 0;
    for (const RawRecord& record : trace_.records) {
      std::vector<uint16_t>& calls = open[record.thread];
      if (gaps_.contains(index++)) {
        calls.clear();
      }
      if (record.type == format::kEnter) {
        calls.push_back(record.call);
      } else if (record.type == format::kLeave && !calls.empty()) {
        if (calls.back() != record.call) {
          problem("thread ", record.thread, " leaves ", trace_.name_of(record), " inside ",
                  trace_.calls[calls.back()].name);
        }
        calls.pop_back();
      } else if (record.type == format::kLeave && !trace_.stats.count("ring-overwritten")) {
        problem("thread ", record.thread, " leaves ", trace_.name_of(record),
                " that it never entered");
      }
    }
  }

  std::string bytes_;
  RawTrace trace_;
  std::map<uint16_t, std::string> stat_names_;
  std::map<uint32_t, uint64_t> next_event_;
  std::map<uint32_t, uint64_t> last_ticks_;
  // Chunks are reused oldest first, but for a thread that is put aside while it takes one: then
  // what is missing is not only at the start.
  std::set<uint32_t> behind_gap_;  // threads
  std::set<size_t> gaps_;          // records that do not follow the one before
};

}  // namespace

const std::string& RawTrace::name_of(const RawRecord& record) const {
  static const std::string& unknown = *new std::string("?");
  const auto call = calls.find(record.call);
  return call == calls.end() ? unknown : call->second.name;
}

std::vector<RawRecord> RawTrace::of(const std::string& call, format::RecordType type) const {
  std::vector<RawRecord> found;
  std::copy_if(
      records.begin(), records.end(), std::back_inserter(found),
      [&](const RawRecord& record) { return record.type == type && name_of(record) == call; });
  return found;
}

uint64_t RawTrace::entered(const std::string& call) const {
  return of(call, format::kEnter).size();
}

uint64_t RawTrace::left(const std::string& call) const {
  return of(call, format::kLeave).size();
}

uint64_t RawTrace::value(const RawRecord& record, const std::string& field) const {
  const RawCall& call = calls.at(record.call);
  const auto& names = record.type == format::kLeave ? call.outs : call.ins;
  const auto found = std::find(names.begin(), names.end(), field);
  if (found == names.end()) {
    throw std::runtime_error(call.name + " has no " + field);
  }
  return record.values.at(static_cast<size_t>(found - names.begin()));
}

namespace {

std::optional<format::FileHeader> header_at(const std::string& path) {
  format::FileHeader header = {};
  std::ifstream file(path, std::ios::binary);
  file.read(reinterpret_cast<char*>(&header), sizeof header);
  return file && std::memcmp(header.magic, format::kMagic, sizeof header.magic) == 0
             ? std::optional(header)
             : std::nullopt;
}

// Not a zombie either.
bool is_alive(int pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string stat;
  std::getline(file, stat);
  const size_t name_end = stat.rfind(')');
  return name_end != stat.npos && stat.size() > name_end + 2 && stat[name_end + 2] != 'Z' &&
         stat[name_end + 2] != 'X';
}

std::string memory_of(const format::FileHeader& header) {
  return header.memory_path[0] ? std::string(header.memory_path)
                               : "/proc/" + std::to_string(header.keeper_pid) + "/fd/" +
                                     std::to_string(header.keeper_descriptor);
}

}  // namespace

void wait_for_final(const std::string& path) {
  constexpr int kMostRounds = 3000;
  for (int round = 0; round < kMostRounds; ++round) {
    const auto header = header_at(path);
    if (header && (header->copy_state != format::kPartial || is_alive(header->pid))) {
      return;
    }
    usleep(10'000);
  }
}

RawTrace read_raw(const std::string& path) {
  wait_for_final(path);
  const auto header = header_at(path);
  const bool is_live = header && header->copy_state == format::kPartial;
  return RawReader(read_whole(is_live ? memory_of(*header) : path)).read();
}

}  // namespace preload
