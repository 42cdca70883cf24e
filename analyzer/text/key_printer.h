// Writes the keys of text/records.h; those that have their default are left out.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "analyzer/reader/process_trace.h"
#include "analyzer/text/values.h"
#include "analyzer/text/words.h"

namespace traintrace {

class KeyPrinter {
 public:
  KeyPrinter(std::string& out, const ProcessTrace& trace, TimeNs start)
      : out_(out), trace_(trace), start_(start) {}

  template <class Number>
  void number(std::string_view key, Number value, Number absent) {
    if (value == absent) {
      return;
    }
    name(key);
    if (value < Number{0}) {
      out_ += '-';
    }
    append_unsigned(
        out_, value < Number{0} ? -static_cast<uint64_t>(value) : static_cast<uint64_t>(value));
  }
  void number(std::string_view key, uint64_t value, int absent) {
    number<uint64_t>(key, value, static_cast<uint64_t>(absent));
  }
  void number(std::string_view key, uint32_t value, int absent) {
    number<uint64_t>(key, value, static_cast<uint64_t>(absent));
  }
  void number(std::string_view key, uint8_t value, uint8_t absent) {
    number<uint64_t>(key, value, absent);
  }
  void hex(std::string_view key, uint64_t value) {
    if (value != 0) {
      name(key);
      append_hex(out_, value);
    }
  }
  void time(std::string_view key, TimeNs value) {
    if (value != 0) {
      name(key);
      append_time(out_, value, start_);
    }
  }
  void text(std::string_view key, const std::string& value) {
    if (!value.empty()) {
      name(key);
      out_ += quoted(value);
    }
  }
  void letter(std::string_view key, char value, char absent) {
    if (value != absent) {
      text(key, std::string(1, value));
    }
  }
  void yes_no(std::string_view key, const std::optional<bool>& value) {
    if (value) {
      name(key);
      out_ += *value ? "yes" : "no";
    }
  }
  template <class Enum, size_t N>
  void choice(std::string_view key, Enum value, const char* const (&names)[N], Enum absent) {
    if (value != absent && static_cast<size_t>(value) < N) {
      name(key);
      out_ += names[static_cast<size_t>(value)];
    }
  }
  // A bit without a name is written as a number.
  template <size_t N>
  void flags(std::string_view key, uint32_t value, const char* const (&names)[N]) {
    if (value == 0) {
      return;
    }
    name(key);
    const size_t begin = out_.size();
    for (uint32_t bit = 0; bit < 32; ++bit) {
      if ((value >> bit & 1) == 0) {
        continue;
      }
      out_ += out_.size() > begin ? "+" : "";
      if (bit < N) {
        out_ += names[bit];
      } else {
        append_hex(out_, uint64_t{1} << bit);
      }
    }
  }
  void stack(uint32_t id) {
    if (id != 0) {
      out_ += " @";
      append_unsigned(out_, id);
    }
  }
  void call(std::string_view key, const std::optional<uint32_t>& value) {
    if (value && *value < trace_.calls.size()) {
      text(key, trace_.calls[*value].name);
    }
  }
  void data_type(std::string_view key, int value) {
    if (value >= 0) {
      name(key);
      out_ += data_type_name(value);
    }
  }
  void reduction(std::string_view key, int value) {
    if (value >= 0) {
      name(key);
      out_ += reduction_name(value);
    }
  }

 private:
  void name(std::string_view key) {
    out_ += ' ';
    out_ += key;
    out_ += '=';
  }

  std::string& out_;
  const ProcessTrace& trace_;
  TimeNs start_;
};

}  // namespace traintrace
