// Writes plain data as a pickle, the way PyTorch's own dumps are: those of Flight Recorder have
// protocol 2, snapshots of memory 4.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>

namespace traintrace {

class PickleWriter {
 public:
  explicit PickleWriter(char protocol = 2) : out_({'\x80', protocol}) {}

  void none() { out_ += 'N'; }
  void boolean(bool value) { out_ += value ? '\x88' : '\x89'; }
  void integer(int64_t value);
  void real(double value);
  void text(std::string_view text);  // each different one is written once

  // What is written between begin and end is in it; of a dictionary keys and values by turns.
  void begin_list() { out_ += "]("; }
  void end_list() { out_ += 'e'; }
  void begin_dict() { out_ += "}("; }
  void end_dict() { out_ += 'u'; }
  void begin_tuple() { out_ += '('; }
  void end_tuple() { out_ += 't'; }

  // What was written last can be written again by that number.
  uint32_t remember();
  void recall(uint32_t number);

  void key_text(std::string_view key, std::string_view value) {
    text(key);
    text(value);
  }
  void key_integer(std::string_view key, int64_t value) {
    text(key);
    integer(value);
  }
  void key_boolean(std::string_view key, bool value) {
    text(key);
    boolean(value);
  }
  void key_none(std::string_view key) {
    text(key);
    none();
  }

  std::string finish() { return std::move(out_) + '.'; }

 private:
  void append(uint64_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) {
      out_ += static_cast<char>(value >> (8 * i));
    }
  }

  std::string out_;
  std::unordered_map<std::string, uint32_t> memo_;
  uint32_t remembered_ = 0;
};

}  // namespace traintrace
