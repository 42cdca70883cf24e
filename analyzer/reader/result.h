// A value, or why there is none.  What the reader and the parsers return instead of throwing.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>

namespace traintrace {

// A trace that lies on the disk of another host, as its pointer says.
struct ElsewhereTrace {
  std::string host;
  std::string path;
  std::string boot;            // boot_text() of its kernel; empty: not said, as in older pointers
  uint64_t pid_namespace = 0;  // the same
  int rank = -1;               // as its launcher numbered it; -1: not said, also in older pointers
  int world_size = -1;         // the same
  uint64_t run_key = 0;        // equal for the processes of one job; 0: not said
};

// Something wrong with an input.  Where reading could go on, it is kept beside the value.
struct ReadError {
  std::string file;
  uint64_t offset = 0;  // bytes from the start of a trace, the line (from 1) of a text
  std::string message;  // what was expected there
  bool fatal = false;   // nothing could be used
  bool truncated = false;
  bool not_begun = false;  // nothing is wrong with it: nothing was recorded there yet
  bool internal = false;   // a defect of ours: told as internal.error
  std::optional<ElsewhereTrace> elsewhere = std::nullopt;  // nothing is wrong: it is not here
  bool forbidden = false;  // nothing is wrong: whoever asks may not read it
};

template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : content_(std::move(value)) {}
  Result(ReadError error) : content_(std::move(error)) {}

  explicit operator bool() const { return content_.index() == 0; }
  T& operator*() { return std::get<0>(content_); }
  const T& operator*() const { return std::get<0>(content_); }
  T* operator->() { return &std::get<0>(content_); }
  const T* operator->() const { return &std::get<0>(content_); }
  const ReadError& error() const { return std::get<1>(content_); }

 private:
  std::variant<T, ReadError> content_;
};

}  // namespace traintrace
