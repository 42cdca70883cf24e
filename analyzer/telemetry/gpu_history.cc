#include "analyzer/telemetry/gpu_history.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <tuple>

#include "analyzer/reader/files/input_file.h"
#include "analyzer/reader/files/read_stage.h"
#include "analyzer/reader/files/text_bytes.h"
#include "analyzer/telemetry/telemetry_line.h"

namespace traintrace {
namespace {

// A file of ours has half of that by default; of damaged ones nobody would read more.
constexpr size_t kMostTelemetryBytes = size_t{256} << 20;
constexpr size_t kMostXidsRead = 1 << 16;
constexpr size_t kMostNotesRead = 256;

auto identity_of(const GpuHistory& gpu) {
  return std::tie(gpu.host, gpu.uuid, gpu.pci);
}

// One file, whose devices have numbers.
class HistoryBuilder {
 public:
  void operator()(FactLine line) {
    if (line.key == "host") {
      host_ = std::move(line.value);
    }
  }
  void operator()(DeviceLine line) {
    GpuHistory& gpu = gpus_[static_cast<size_t>(line.device)];
    gpu.uuid = std::move(line.uuid);
    gpu.pci = std::move(line.pci);
    gpu.name = std::move(line.name);
  }
  void operator()(const ReadLine& line) {
    GpuHistory& gpu = gpus_[static_cast<size_t>(line.device)];
    gpu.first = gpu.first == 0 ? line.time : std::min(gpu.first, line.time);
    gpu.last = std::max(gpu.last, line.time);
    for (const auto& [reading, value] : line.values) {
      gpu.points[static_cast<size_t>(reading)].push_back({line.time, value});
    }
  }
  void operator()(const XidLine& line) {
    std::vector<XidEvent>& xids = gpus_[static_cast<size_t>(line.device)].xids;
    if (xids.size() < kMostXidsRead) {
      xids.push_back({line.time, line.xid});
    }
  }
  void operator()(NoteLine line) {
    if (notes_.size() < kMostNotesRead) {
      notes_.push_back(std::move(line.text));
    }
  }
  void operator()(const EndLine&) {}

  TelemetryRecord finish() {
    TelemetryRecord record;
    for (GpuHistory& gpu : gpus_) {
      if (!gpu.uuid.empty() || !gpu.pci.empty()) {  // else it can be joined with nothing
        gpu.host = host_;
        record.gpus.push_back(std::move(gpu));
      }
    }
    for (const std::string& note : notes_) {
      record.notes.push_back(fmt::format("{}: {}", host_, note));
    }
    return record;
  }

 private:
  std::string host_;
  std::array<GpuHistory, kMostTelemetryDevices> gpus_;
  std::vector<std::string> notes_;
};

void append(GpuHistory& to, GpuHistory&& from) {
  to.first = to.first == 0 || (from.first != 0 && from.first < to.first) ? from.first : to.first;
  to.last = std::max(to.last, from.last);
  to.name = to.name.empty() ? std::move(from.name) : to.name;
  for (size_t i = 0; i < kReadings; ++i) {
    to.points[i].insert(to.points[i].end(), from.points[i].begin(), from.points[i].end());
  }
  to.xids.insert(to.xids.end(), from.xids.begin(), from.xids.end());
}

// A file that was begun anew repeats what stood in the one before.
void put_in_order(GpuHistory& gpu) {
  const auto by_time = [](const auto& a, const auto& b) { return a.time < b.time; };
  for (std::vector<TelemetryPoint>& points : gpu.points) {
    std::stable_sort(points.begin(), points.end(), by_time);
  }
  std::stable_sort(gpu.xids.begin(), gpu.xids.end(), by_time);
  gpu.xids.erase(std::unique(gpu.xids.begin(), gpu.xids.end(),
                             [](const XidEvent& a, const XidEvent& b) {
                               return a.time == b.time && a.xid == b.xid;
                             }),
                 gpu.xids.end());
}

// The kernel's log knows GPUs by their bus ids only.
void unite_by_bus_id(std::vector<GpuHistory>& gpus) {
  for (GpuHistory& gpu : gpus) {
    const auto same = std::find_if(gpus.begin(), gpus.end(), [&](const GpuHistory& other) {
      return gpu.uuid.empty() && !other.uuid.empty() && other.host == gpu.host &&
             other.pci == gpu.pci;
    });
    if (same != gpus.end()) {
      append(*same, std::move(gpu));
      gpu = GpuHistory();
    }
  }
  std::erase_if(gpus, [](const GpuHistory& gpu) { return gpu.uuid.empty() && gpu.pci.empty(); });
}

TelemetryRecord merged(std::vector<TelemetryRecord> records) {
  TelemetryRecord all;
  for (TelemetryRecord& record : records) {
    std::move(record.gpus.begin(), record.gpus.end(), std::back_inserter(all.gpus));
    std::move(record.notes.begin(), record.notes.end(), std::back_inserter(all.notes));
  }
  std::stable_sort(all.gpus.begin(), all.gpus.end(), [](const GpuHistory& a, const GpuHistory& b) {
    return identity_of(a) < identity_of(b);
  });
  std::vector<GpuHistory> gpus;
  for (GpuHistory& gpu : all.gpus) {
    if (!gpus.empty() && identity_of(gpus.back()) == identity_of(gpu)) {
      append(gpus.back(), std::move(gpu));
    } else {
      gpus.push_back(std::move(gpu));
    }
  }
  unite_by_bus_id(gpus);
  std::for_each(gpus.begin(), gpus.end(), put_in_order);
  all.gpus = std::move(gpus);
  std::sort(all.notes.begin(), all.notes.end());
  all.notes.erase(std::unique(all.notes.begin(), all.notes.end()), all.notes.end());
  return all;
}

// Calls `take` with each value in the span and how long it held, in ns; the last one may have held
// for 0.  A point before the span holds into it.
template <class Take>
void each_in_span(const std::vector<TelemetryPoint>& points, TimeNs from, TimeNs to,
                  const Take& take) {
  auto point = std::upper_bound(points.begin(), points.end(), from,
                                [](TimeNs time, const TelemetryPoint& p) { return time < p.time; });
  point = point == points.begin() ? point : point - 1;
  for (; point != points.end() && point->time <= to; ++point) {
    const auto next = point + 1;
    const TimeNs until = next == points.end() ? to : std::min(to, next->time);
    take(point->value, until - std::max(from, point->time));
  }
}

}  // namespace

bool is_telemetry(const std::string& path) {
  return head_of(path, kTelemetryMagic.size()) == kTelemetryMagic;
}

TelemetryRecord parse_telemetry(std::string_view text, const std::string& file,
                                std::vector<ReadError>& errors) {
  HistoryBuilder builder;
  bool told = false;
  uint64_t number = 0;
  for (size_t end = text.find('\n'); end != text.npos; end = text.find('\n')) {
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end + 1);
    ++number;
    std::string expected = fmt::format("`{}`", kTelemetryMagic);
    std::optional<TelemetryLine> parsed;
    if (number > 1) {
      parsed = parse_telemetry_line(line, expected);
    }
    if (parsed) {
      std::visit([&](auto& each) { builder(std::move(each)); }, *parsed);
    } else if (!told && (number > 1 || line != kTelemetryMagic)) {
      told = true;
      errors.push_back({file, number, "expected " + expected});
    }
  }
  std::vector<TelemetryRecord> records;
  records.push_back(builder.finish());
  return merged(std::move(records));
}

TelemetryRecord read_telemetry(std::span<const std::string> paths, std::vector<ReadError>& errors) {
  std::vector<TelemetryRecord> records;
  records.reserve(paths.size());
  for (const std::string& path : paths) {
    read_stage(path, errors, [&] {
      const std::optional<std::string> text = text_of_file(path, kMostTelemetryBytes);
      if (text) {
        records.push_back(parse_telemetry(*text, path, errors));
      } else {
        errors.push_back({path, 0, "cannot be read", true});
      }
    });
  }
  return merged(std::move(records));
}

std::optional<std::pair<TimeNs, TimeNs>> read_between(const GpuHistory& gpu, TimeNs from,
                                                      TimeNs to) {
  TimeNs before = 0;
  TimeNs after = std::numeric_limits<TimeNs>::max();
  TimeNs last = 0;
  for (const std::vector<TelemetryPoint>& points : gpu.points) {
    const auto later = [](TimeNs time, const TelemetryPoint& p) { return time < p.time; };
    const auto begin = std::upper_bound(points.begin(), points.end(), from, later);
    const auto end = std::upper_bound(begin, points.end(), to, later);
    before = begin == points.begin() ? before : std::max(before, (begin - 1)->time);
    after = begin == points.end() ? after : std::min(after, begin->time);
    last = end == points.begin() ? last : std::max(last, (end - 1)->time);
  }
  const TimeNs first = before != 0 ? before : after;
  return first < last ? std::optional(std::pair(first, last)) : std::nullopt;
}

std::optional<int64_t> growth(const GpuHistory& gpu, GpuReading reading, TimeNs from, TimeNs to) {
  std::optional<int64_t> before;
  std::optional<int64_t> grown;
  each_in_span(gpu.of(reading), from, to, [&](int64_t value, TimeNs) {
    const int64_t more = before && value > *before ? value - *before : 0;
    const int64_t so_far = grown.value_or(0);
    grown = so_far > std::numeric_limits<int64_t>::max() - more ? so_far : so_far + more;
    before = value;
  });
  return grown;
}

std::optional<int64_t> least(const GpuHistory& gpu, GpuReading reading, TimeNs from, TimeNs to) {
  std::optional<int64_t> found;
  each_in_span(gpu.of(reading), from, to,
               [&](int64_t value, TimeNs) { found = std::min(found.value_or(value), value); });
  return found;
}

std::optional<int64_t> most(const GpuHistory& gpu, GpuReading reading, TimeNs from, TimeNs to) {
  std::optional<int64_t> found;
  each_in_span(gpu.of(reading), from, to,
               [&](int64_t value, TimeNs) { found = std::max(found.value_or(value), value); });
  return found;
}

std::optional<double> mean(const GpuHistory& gpu, GpuReading reading, TimeNs from, TimeNs to) {
  double sum = 0;
  double time = 0;
  each_in_span(gpu.of(reading), from, to, [&](int64_t value, TimeNs ns) {
    sum += static_cast<double>(value) * static_cast<double>(ns);
    time += static_cast<double>(ns);
  });
  return time > 0 ? std::optional(sum / time) : std::nullopt;
}

std::optional<double> share_of_bits(const GpuHistory& gpu, int64_t bits, TimeNs from, TimeNs to) {
  double set = 0;
  double time = 0;
  each_in_span(gpu.of(GpuReading::kReasons), from, to, [&](int64_t value, TimeNs ns) {
    set += (value & bits) != 0 ? static_cast<double>(ns) : 0;
    time += static_cast<double>(ns);
  });
  return time > 0 ? std::optional(set / time) : std::nullopt;
}

}  // namespace traintrace
