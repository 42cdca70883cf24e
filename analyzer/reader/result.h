// A value, or why there is none.  What the reader and the parsers return instead of throwing.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>

namespace traintrace {

// Something wrong with an input.  Where reading could go on, it is kept beside the value.
struct ReadError {
  std::string file;
  uint64_t offset = 0;  // bytes from the start of a trace, the line (from 1) of a text
  std::string message;  // what was expected there
  bool fatal = false;   // nothing could be used
  bool truncated = false;
  bool not_begun = false;  // nothing is wrong with it: nothing was recorded there yet
  bool internal = false;   // a defect of ours: told as internal.error
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
