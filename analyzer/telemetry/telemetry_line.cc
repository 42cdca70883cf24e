#include "analyzer/telemetry/telemetry_line.h"

#include <fmt/format.h>

#include <charconv>

#include "analyzer/text/words.h"

namespace traintrace {
namespace {

// What a time and a reading may be, so that differences and sums of two of them never overflow.
constexpr int64_t kMostValue = int64_t{1} << 62;

std::optional<int64_t> number(std::string_view text) {
  int64_t value = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool is_whole = problem == std::errc() && end == text.data() + text.size();
  return is_whole && value >= 0 && value <= kMostValue ? std::optional(value) : std::nullopt;
}

std::optional<int> device_number(std::string_view text) {
  const std::optional<int64_t> device = number(text);
  return device && *device < kMostTelemetryDevices ? std::optional(static_cast<int>(*device))
                                                   : std::nullopt;
}

// Calls `take` with each KEY=VALUE from `words[first]` on; false: one is none, or `take` said so.
template <class Take>
bool each_pair(const std::vector<std::string>& words, size_t first, const Take& take) {
  for (size_t i = first; i < words.size(); ++i) {
    const size_t equals = words[i].find('=');
    if (equals == std::string::npos ||
        !take(std::string_view(words[i]).substr(0, equals), words[i].substr(equals + 1))) {
      return false;
    }
  }
  return true;
}

using Parsed = std::optional<TelemetryLine>;
using WordList = std::vector<std::string>;

Parsed parse_fact(const WordList& words) {
  return words.size() == 3 ? Parsed(FactLine{words[1], words[2]}) : std::nullopt;
}

Parsed parse_device(const WordList& words) {
  const auto device = words.size() > 1 ? device_number(words[1]) : std::nullopt;
  DeviceLine line{device.value_or(0), "", "", ""};
  const bool is_well = each_pair(words, 2, [&](std::string_view key, std::string value) {
    if (key == "uuid") {
      line.uuid = std::move(value);
    } else if (key == "pci") {
      line.pci = plain_pci(value);
    } else if (key == "name") {
      line.name = std::move(value);
    }
    return true;
  });
  return device && is_well ? Parsed(std::move(line)) : std::nullopt;
}

Parsed parse_read(const WordList& words) {
  const auto device = words.size() > 2 ? device_number(words[1]) : std::nullopt;
  const auto time = words.size() > 2 ? number(words[2]) : std::nullopt;
  ReadLine line{device.value_or(0), time.value_or(0), {}};
  const bool is_well = each_pair(words, 3, [&](std::string_view key, const std::string& text) {
    const std::optional<int64_t> value = number(text);
    if (const auto reading = reading_of(key); reading && value) {
      line.values.emplace_back(*reading, *value);
    }
    return value.has_value();
  });
  return device && time && is_well ? Parsed(std::move(line)) : std::nullopt;
}

Parsed parse_xid(const WordList& words) {
  if (words.size() != 4) {
    return std::nullopt;
  }
  const auto device = device_number(words[1]);
  const auto time = number(words[2]);
  const auto xid = number(words[3]);
  return device && time && xid ? Parsed(XidLine{*device, *time, *xid}) : std::nullopt;
}

template <class Line>
Parsed parse_text(const WordList& words) {
  const auto time = words.size() == 3 ? number(words[1]) : std::nullopt;
  return time ? Parsed(Line{*time, words[2]}) : std::nullopt;
}

struct Form {
  std::string_view word;
  std::string_view expected;
  Parsed (*parse)(const WordList&);
};
constexpr Form kForms[] = {
    {"fact", "fact KEY VALUE", parse_fact},
    {"device", "device NUMBER uuid=UUID pci=ADDRESS name=NAME", parse_device},
    {"read", "read DEVICE TIME READING=NUMBER ..", parse_read},
    {"xid", "xid DEVICE TIME NUMBER", parse_xid},
    {"note", "note TIME TEXT", parse_text<NoteLine>},
    {"end", "end TIME WHY", parse_text<EndLine>},
};

struct Writer {
  std::string operator()(const FactLine& line) const {
    return fmt::format("fact {} {}\n", traintrace::quoted(line.key),
                       traintrace::quoted(line.value));
  }
  std::string operator()(const DeviceLine& line) const {
    std::string text = fmt::format("device {}", line.device);
    for (const auto& [key, value] :
         {std::pair("uuid", line.uuid), std::pair("pci", line.pci), std::pair("name", line.name)}) {
      text += value.empty() ? "" : fmt::format(" {}={}", key, traintrace::quoted(value));
    }
    return text + "\n";
  }
  std::string operator()(const ReadLine& line) const {
    std::string text = fmt::format("read {} {}", line.device, line.time);
    for (const auto& [reading, value] : line.values) {
      fmt::format_to(std::back_inserter(text), " {}={}", spec_of(reading).key, value);
    }
    return text + "\n";
  }
  std::string operator()(const XidLine& line) const {
    return fmt::format("xid {} {} {}\n", line.device, line.time, line.xid);
  }
  std::string operator()(const NoteLine& line) const {
    return fmt::format("note {} {}\n", line.time, traintrace::quoted(line.text));
  }
  std::string operator()(const EndLine& line) const {
    return fmt::format("end {} {}\n", line.time, traintrace::quoted(line.why));
  }
};

}  // namespace

std::string text_of(const TelemetryLine& line) {
  return std::visit(Writer{}, line);
}

std::optional<TelemetryLine> parse_telemetry_line(std::string_view line, std::string& expected) {
  expected = "fact, device, read, xid, note or end";
  const std::optional<WordList> words = split_words(line);
  if (!words || words->empty()) {
    return std::nullopt;
  }
  for (const Form& form : kForms) {
    if (form.word == words->front()) {
      expected = form.expected;
      return form.parse(*words);
    }
  }
  return std::nullopt;
}

std::string plain_pci(std::string_view text) {
  unsigned parts[3] = {};
  constexpr char kEnds[] = {':', ':', '.'};
  for (size_t i = 0; i < 3; ++i) {
    const size_t end = text.find(kEnds[i]);
    const std::string_view digits = text.substr(0, end);
    const auto [stop, problem] =
        std::from_chars(digits.data(), digits.data() + digits.size(), parts[i], 16);
    if (end == text.npos || problem != std::errc() || stop != digits.data() + digits.size()) {
      return "";
    }
    text.remove_prefix(end + 1);
  }
  const bool is_function = text.size() == 1 && text[0] >= '0' && text[0] <= '7';
  return is_function ? fmt::format("{:04x}:{:02x}:{:02x}.{}", parts[0], parts[1], parts[2], text)
                     : "";
}

}  // namespace traintrace
