#include "analyzer/isolation/injected_failure.h"

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <new>
#include <stdexcept>
#include <string_view>
#include <utility>
#include <vector>

namespace traintrace {
namespace {

using Injected = std::vector<std::pair<std::string, std::string>>;  // stage, how

Injected read_environment() {
  Injected injected;
  const char* const text = std::getenv("TT_FAIL_STAGE");
  std::string_view rest = text == nullptr ? "" : text;
  while (!rest.empty()) {
    const std::string_view one = rest.substr(0, rest.find(';'));
    const size_t equals = one.rfind('=');
    if (equals != one.npos) {
      injected.emplace_back(one.substr(0, equals), one.substr(equals + 1));
    }
    rest.remove_prefix(std::min(one.size() + 1, rest.size()));
  }
  return injected;
}

// Not as a handler of a sanitizer would have it: a signal is what kills users' runs.
[[noreturn]] void die_of(int signal) {
  std::signal(signal, SIG_DFL);
  std::raise(signal);
  std::abort();
}

// Comes to an end only by the end of the stack.
int overflow(volatile const int* above) {  // NOLINT(misc-no-recursion)
  volatile int here[4096] = {*above};
  return *above == 0 ? overflow(here) + here[1] : 0;
}

void fail(const std::string& how) {
  if (how == "throw") {
    throw std::out_of_range("injected");
  }
  if (how == "no-memory") {
    throw std::bad_alloc();
  }
  if (how == "wait") {
    for (;;) {
      pause();
    }
  }
  if (how == "overflow") {
    const int top = 0;
    overflow(&top);
  }
  die_of(how == "kill" ? SIGKILL : how == "abort" ? SIGABRT : SIGSEGV);
}

}  // namespace

void fail_as_injected(const std::string& stage) {
  static const Injected& injected = *new Injected(read_environment());
  for (const auto& [name, how] : injected) {
    if (name == stage) {
      fail(how);
    }
  }
}

}  // namespace traintrace
