#include <fmt/format.h>

#include <charconv>
#include <map>
#include <vector>

#include "analyzer/importers/logs/dcgm_fields.h"
#include "analyzer/importers/logs/gpu_logs.h"
#include "analyzer/importers/logs/log_lines.h"
#include "analyzer/importers/logs/log_time.h"

namespace traintrace {
namespace {

std::vector<std::string_view> dmon_words(std::string_view line) {
  constexpr std::string_view kBlanks = " \t\r";
  std::vector<std::string_view> words;
  for (size_t begin = line.find_first_not_of(kBlanks); begin != line.npos;) {
    const size_t end = std::min(line.find_first_of(kBlanks, begin), line.size());
    words.push_back(line.substr(begin, end - begin));
    begin = line.find_first_not_of(kBlanks, end);
  }
  return words;
}

std::optional<int> dmon_number(std::string_view text) {
  constexpr int kMost = 10'000;
  int number = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
  return problem == std::errc() && end == text.data() + text.size() && number >= 0 && number < kMost
             ? std::optional(number)
             : std::nullopt;
}

// What follows `name` in a cell of discovery's table: "|        | Device UUID: GPU-..  |"
std::string cell_after(std::string_view line, std::string_view name) {
  const size_t found = line.find(name);
  if (found == line.npos) {
    return "";
  }
  line.remove_prefix(found + name.size());
  line = line.substr(0, line.rfind('|'));
  const size_t end = line.find_last_not_of(' ');
  return end == line.npos ? "" : std::string(line.substr(0, end + 1));
}

class DmonReader {
 public:
  DmonReader(const std::string& file, const std::string& host) : file_(file) {
    text_ = std::string(kTelemetryMagic) + "\n" + text_of(FactLine{"source", "dcgmi-dmon"});
    text_ += host.empty() ? "" : text_of(FactLine{"host", host});
  }

  // Nothing: it is well.
  std::optional<ReadError> take(std::string_view line, uint64_t number) {
    number_ = number;
    std::string_view rest = line;
    const std::optional<int64_t> time = take_iso_time(rest);
    line = time ? rest : line;
    const std::vector<std::string_view> words = dmon_words(line);
    if (words.empty() || words[0] == "ID" || words[0] == "dmon") {  // "dmon was stopped .."
      return std::nullopt;
    }
    if (words[0].starts_with('|') || words[0].starts_with('+') || words.back() == "found.") {
      take_discovery(line, words);
      return std::nullopt;
    }
    if (words[0] == "#Entity" || (words[0] == "#" && words.size() > 1 && words[1] == "Entity")) {
      columns_.assign(words.begin() + (words[0] == "#" ? 2 : 1), words.end());
      return std::nullopt;
    }
    const bool is_row = words.size() > 1 && dmon_number(words[1]).has_value();
    if (columns_.empty() || !is_row) {
      return wrong(kHeaderExpected);
    }
    return words[0] == "GPU" ? take_row(words, time) : std::nullopt;  // else an instance, a CPU
  }

  Result<std::string> finish() && {
    if (columns_.empty()) {
      return wrong(kHeaderExpected);
    }
    return std::move(text_);
  }

 private:
  struct Gpu {
    DeviceLine line;
    bool is_written = false;
    DcgmXids xids;
  };

  static constexpr std::string_view kHeaderExpected =
      "lines of dcgmi dmon, #Entity and then GPU 0 .., after those of dcgmi discovery -l";

  ReadError wrong(std::string_view expected) const {
    return {file_, number_, fmt::format("expected {}", expected), true};
  }

  void take_discovery(std::string_view line, const std::vector<std::string_view>& words) {
    if (words.back() == "found.") {
      about_gpus_ = words.size() == 3 && words[1].starts_with("GPU");
    }
    if (!about_gpus_ || words.size() < 2) {
      return;
    }
    if (const auto id = dmon_number(words[1])) {
      gpu_ = *id;
      gpus_[gpu_].line.name = cell_after(line, "Name: ");
    } else if (const std::string uuid = cell_after(line, "Device UUID: "); !uuid.empty()) {
      gpus_[gpu_].line.uuid = uuid;
    } else if (const std::string pci = cell_after(line, "PCI Bus ID: "); !pci.empty()) {
      gpus_[gpu_].line.pci = plain_pci(pci);
    }
  }

  std::optional<ReadError> take_row(const std::vector<std::string_view>& words,
                                    std::optional<int64_t> time) {
    if (!time) {
      return wrong(
          "a time before it such as 2026-11-26T05:10:00+00:00: dcgmi dmon .. | ts '%FT%.T%z'");
    }
    if (words.size() != columns_.size() + 2) {
      return wrong(fmt::format("{} values, as in the header", columns_.size()));
    }
    const auto known = gpus_.find(*dmon_number(words[1]));
    if (known == gpus_.end() || known->second.line.uuid.empty()) {
      return wrong(fmt::format(
          "the UUID of GPU {} in the lines before: dcgmi discovery -l first, into the same file",
          words[1]));
    }
    Gpu& gpu = known->second;
    if (!gpu.is_written && devices_ == kMostTelemetryDevices) {
      return wrong("fewer GPUs");
    }
    if (!gpu.is_written) {
      gpu.is_written = true;
      gpu.line.device = devices_++;
      text_ += text_of(gpu.line);
    }
    return take_values(words, *time, gpu);
  }

  std::optional<ReadError> take_values(const std::vector<std::string_view>& words, int64_t time,
                                       Gpu& gpu) {
    ReadLine read = {gpu.line.device, time, {}};
    std::optional<int64_t> xid;
    for (size_t i = 0; i < columns_.size(); ++i) {
      const DcgmField* const field = dcgm_field_of_column(columns_[i]);
      const bool is_xid = columns_[i] == kDcgmXidColumn;
      if (field == nullptr && !is_xid) {
        continue;
      }
      const DcgmValue value = dcgm_value(words[i + 2]);
      const auto reading =
          field != nullptr && value.value ? dcgm_reading(*field, *value.value) : std::nullopt;
      if (!value.is_number || (field != nullptr && value.value && !reading)) {
        return wrong(fmt::format("a number for {}", columns_[i]));
      }
      if (is_xid) {
        xid = gpu.xids.take(value.value);
      } else if (reading) {
        read.values.emplace_back(field->reading, *reading);
      }
    }
    text_ += text_of(read);
    text_ += xid ? text_of(XidLine{gpu.line.device, time, *xid}) : "";
    return std::nullopt;
  }

  std::string file_;
  std::string text_;
  uint64_t number_ = 1;
  bool about_gpus_ = false;  // the table that is being read
  int gpu_ = 0;              // its row
  std::map<int, Gpu> gpus_;  // by DCGM's number
  int devices_ = 0;          // of them in the text
  std::vector<std::string> columns_;
};

}  // namespace

Result<std::string> telemetry_of_dcgmi_dmon(std::string_view text, const std::string& file,
                                            const std::string& host) {
  return read_lines(text, file, DmonReader(file, host));
}

}  // namespace traintrace
