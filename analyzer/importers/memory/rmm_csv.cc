#include "analyzer/importers/memory/rmm_csv.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <optional>
#include <vector>

#include "analyzer/importers/memory/memory_trace.h"
#include "analyzer/importers/whole_file.h"

namespace traintrace {
namespace {

constexpr std::string_view kHeader = "Thread,Time,Action,Pointer,Size,Stream";
constexpr size_t kColumns = 6;
constexpr size_t kMostErrors = 8;
constexpr size_t kMostFailedCalls = 16;
constexpr TimeNs kSecond = 1'000'000'000;
constexpr TimeNs kDay = 86'400 * kSecond;

using Columns = std::array<std::string_view, kColumns>;

std::optional<Columns> columns_of(std::string_view line) {
  Columns columns;
  for (size_t i = 0; i < kColumns; ++i) {
    const size_t comma = line.find(',');
    if ((comma == line.npos) != (i + 1 == kColumns)) {
      return std::nullopt;
    }
    columns[i] = line.substr(0, comma);
    line.remove_prefix(comma == line.npos ? line.size() : comma + 1);
  }
  return columns;
}

std::optional<uint64_t> whole_number(std::string_view text) {
  const bool hex = text.starts_with("0x");
  text.remove_prefix(hex ? 2 : 0);
  uint64_t number = 0;
  const auto [end, problem] =
      std::from_chars(text.data(), text.data() + text.size(), number, hex ? 16 : 10);
  const bool good = problem == std::errc() && end == text.data() + text.size();
  return good ? std::optional(number) : std::nullopt;
}

// "(nil)" and empty ones mean 0.
std::optional<uint64_t> pointer_of(std::string_view text) {
  return text.empty() || text == "(nil)" ? std::optional<uint64_t>(0) : whole_number(text);
}

// Of the day, from 12:34:56:789012 or 12:34:56.789012.
std::optional<TimeNs> time_of(std::string_view text) {
  constexpr size_t kLength = 15;
  if (text.size() != kLength || text[2] != ':' || text[5] != ':' ||
      (text[8] != ':' && text[8] != '.')) {
    return std::nullopt;
  }
  const auto hours = whole_number(text.substr(0, 2));
  const auto minutes = whole_number(text.substr(3, 2));
  const auto seconds = whole_number(text.substr(6, 2));
  const auto micros = whole_number(text.substr(9));
  if (!hours || !minutes || !seconds || !micros || *hours > 23 || *minutes > 59 || *seconds > 60) {
    return std::nullopt;
  }
  return static_cast<TimeNs>((*hours * 60 + *minutes) * 60 + *seconds) * kSecond +
         static_cast<TimeNs>(*micros) * 1000;
}

struct Row {
  enum class Action : uint8_t { kAllocate, kFree, kFailure };
  Action action = Action::kAllocate;
  TimeNs time = 0;
  uint64_t address = 0;
  uint64_t bytes = 0;
  uint64_t stream = 0;
};

std::optional<Row> row_of(std::string_view line) {
  const auto columns = columns_of(line);
  if (!columns) {
    return std::nullopt;
  }
  const auto& [thread, clock, action, pointer, size, stream] = *columns;
  const auto time = time_of(clock);
  const auto address = pointer_of(pointer);
  const auto bytes = whole_number(size);
  const auto on_stream = pointer_of(stream);
  if (!time || !address || !bytes || !on_stream || *bytes > INT64_MAX) {
    return std::nullopt;
  }
  Row row{Row::Action::kAllocate, *time, *address, *bytes, *on_stream};
  if (action == "free" || action == "deallocate") {
    row.action = Row::Action::kFree;
  } else if (action == "allocate failure") {
    row.action = Row::Action::kFailure;
  } else if (action != "allocate") {
    return std::nullopt;
  }
  return row;
}

class RmmLogReader {
 public:
  explicit RmmLogReader(const std::string& file) : memory_(file, "rmm-csv") {}

  ProcessTrace read(std::string_view text, TimeNs written) {
    uint64_t line = 1;
    size_t at = std::min(text.find('\n'), text.size());
    while (at < text.size()) {
      const size_t begin = at + 1;
      at = std::min(text.find('\n', begin), text.size());
      ++line;
      std::string_view content = text.substr(begin, at - begin);
      content.remove_suffix(content.ends_with('\r') ? 1 : 0);
      if (!content.empty() && content != kHeader) {  // appended to by a second run
        read_row(content, line);
      }
    }
    date(written);
    for (const Row& row : rows_) {
      write(row);
    }
    write_tables();
    if (unreadable_ > kMostErrors) {
      memory_.trace.errors.push_back(
          {memory_.trace.source, line,
           std::to_string(unreadable_ - kMostErrors) + " more lines up to this one are like that"});
    }
    memory_.finish();
    return std::move(memory_.trace);
  }

  bool found_none() const { return rows_.empty(); }

 private:
  void read_row(std::string_view content, uint64_t line) {
    const auto row = row_of(content);
    if (row) {
      rows_.push_back(*row);
    } else if (++unreadable_; unreadable_ <= kMostErrors) {
      memory_.trace.errors.push_back(
          {memory_.trace.source, line, "expected thread, time, action, pointer, size, stream"});
    }
  }

  // The last row was written with the file's last change; a time that falls has passed midnight.
  void date(TimeNs written) {
    TimeNs days = 0;
    TimeNs before = 0;
    for (Row& row : rows_) {
      days += row.time + kDay / 2 < before ? kDay : 0;
      before = row.time;
      row.time += days;
    }
    const TimeNs midnight = rows_.empty() ? 0 : std::max<TimeNs>(written - rows_.back().time, 1);
    for (Row& row : rows_) {
      row.time += midnight;
      memory_.note_time(row.time);
    }
  }

  void write(const Row& row) {
    switch (row.action) {
      case Row::Action::kAllocate:
        memory_.add("cudaMallocAsync", row.time, -1, 0,
                    {{"address", row.address}, {"bytes", row.bytes}, {"stream", row.stream}});
        if (row.address != 0) {
          live_[row.address] = row;
        }
        break;
      case Row::Action::kFree:
        memory_.add("cudaFreeAsync", row.time, -1, 0,
                    {{"address", row.address}, {"stream", row.stream}});
        unknown_ += row.address != 0 && live_.erase(row.address) == 0 ? 1 : 0;
        break;
      case Row::Action::kFailure:
        fail(row);
        break;
    }
  }

  void fail(const Row& row) {
    constexpr int32_t kOutOfMemory = 2;  // cudaErrorMemoryAllocation
    memory_.add("cudaMallocAsync", row.time, -1, 0, {{"bytes", row.bytes}, {"stream", row.stream}})
        .result = kOutOfMemory;
    std::vector<OutOfMemoryText>& failures = memory_.trace.out_of_memory;
    if (failures.size() == kMostFailedCalls) {
      failures.erase(failures.begin() + kMostFailedCalls / 2);
    }
    OutOfMemoryText& failure = failures.emplace_back();
    failure.number = ++failures_;
    failure.time = row.time;
    failure.bytes = row.bytes;
    failure.call = memory_.call("cudaMallocAsync");
    failure.result = kOutOfMemory;
    failure.device = format::kNoDevice;
  }

  void write_tables() {
    for (const auto& [address, row] : live_) {
      memory_.trace.allocations.push_back({address, row.bytes, row.stream, row.time, 0,
                                           memory_.call("cudaMallocAsync"), format::kNoDevice});
    }
    if (unknown_ != 0) {
      memory_.trace.losses.push_back({"unknown-free", unknown_, "info"});
    }
  }

  MemoryTrace memory_;
  std::vector<Row> rows_;
  std::map<uint64_t, Row> live_;  // by address
  uint64_t unknown_ = 0;
  uint64_t unreadable_ = 0;  // lines
  uint32_t failures_ = 0;
};

}  // namespace

bool looks_like_rmm_csv(std::string_view head) {
  return head.starts_with(kHeader) &&
         (head.size() == kHeader.size() || head[kHeader.size()] == '\n' ||
          head[kHeader.size()] == '\r');
}

Result<ProcessTrace> rmm_csv_trace(std::string_view text, const std::string& file, TimeNs written) {
  if (!looks_like_rmm_csv(text)) {
    return ReadError{file, 0, "expected the header " + std::string(kHeader), true};
  }
  RmmLogReader reader(file);
  ProcessTrace trace = reader.read(text, written);
  if (reader.found_none() && !trace.errors.empty()) {
    ReadError error = trace.errors.front();
    error.message += "; no line is such";
    error.fatal = true;
    return error;
  }
  return trace;
}

Result<ProcessTrace> read_rmm_csv(const std::string& path) {
  const Result<WholeFile> file = read_whole_file(path);
  return file ? rmm_csv_trace(file->bytes(), path, file->modified())
              : Result<ProcessTrace>(file.error());
}

}  // namespace traintrace
