// A child that waits inside the kernel for a file server that is gone: nothing else ends it.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>

namespace traintrace {

// Looked at now and then, from its parent.
class SilenceWatch {
 public:
  explicit SilenceWatch(pid_t child) : child_(child) {}

  // The file that it waits for, once neither it nor any of its threads has got anywhere for
  // kPatience; "" where the kernel does not say which.
  std::optional<std::string> silent_file();

  static constexpr std::chrono::seconds kPatience{30};

 private:
  std::string progress() const;

  pid_t child_;
  std::string last_;
  std::chrono::steady_clock::time_point since_ = std::chrono::steady_clock::now();
};

// That this stage of an earlier attempt waited so, and is left out.
bool was_silent(const std::string& stage);

// That there was a file of an earlier attempt that did not answer: each is asked before it is read
// from then on (reader/silent_inputs.h).
bool is_anything_silent();

// "does not answer for 30 s: is its file server gone?"
extern const char* const kIsSilent;

}  // namespace traintrace
