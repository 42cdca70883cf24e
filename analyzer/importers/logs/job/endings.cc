#include "analyzer/importers/logs/job/endings.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <iterator>

namespace traintrace {
namespace {

constexpr int kShellsAdd = 128;

struct EndingSignal {
  int number;
  std::string_view name;
  std::string_view word;  // strsignal's
  std::string_view hint;
};
constexpr EndingSignal kEndingSignals[] = {
    {SIGHUP, "SIGHUP", "Hangup", ""},
    {SIGINT, "SIGINT", "Interrupt", ""},
    {SIGQUIT, "SIGQUIT", "Quit", ""},
    {SIGILL, "SIGILL", "Illegal instruction", ""},
    {SIGABRT, "SIGABRT", "Aborted",
     "SIGABRT: the process ended itself, as PyTorch's watchdog does to a rank that waited too "
     "long; "
     "then look at the ranks that it waited for"},
    {SIGBUS, "SIGBUS", "Bus error",
     "SIGBUS: often a full /dev/shm, or a file that was cut while it was mapped"},
    {SIGFPE, "SIGFPE", "Floating point exception", ""},
    {SIGKILL, "SIGKILL", "Killed",
     "SIGKILL comes from outside the process: often the kernel, where the host or the container is "
     "out of memory (its kernel log says so), or the scheduler"},
    {SIGSEGV, "SIGSEGV", "Segmentation fault",
     "SIGSEGV: a crash in native code; a core dump has its stack"},
    {SIGPIPE, "SIGPIPE", "Broken pipe", ""},
    {SIGTERM, "SIGTERM", "Terminated",
     "SIGTERM comes from outside the process: the scheduler, or torchrun of another host"},
};

const EndingSignal* signal_of(int status) {
  const int number = status < 0 ? -status : status - kShellsAdd;
  const auto* const found =
      std::find_if(std::begin(kEndingSignals), std::end(kEndingSignals),
                   [&](const EndingSignal& each) { return each.number == number; });
  return found == std::end(kEndingSignals) ? nullptr : found;
}

}  // namespace

std::string ending_text(int status) {
  const EndingSignal* const signal = signal_of(status);
  if (status > 0) {
    return signal == nullptr ? fmt::format("exit code {}", status)
                             : fmt::format("exit code {}: {}", status, signal->name);
  }
  return signal == nullptr ? fmt::format("ended by signal {}", -status)
                           : fmt::format("ended by {}", signal->name);
}

std::string_view ending_hint(int status) {
  const EndingSignal* const signal = signal_of(status);
  return signal == nullptr ? std::string_view() : signal->hint;
}

int signal_of_word(std::string_view word) {
  const auto* const found = std::find_if(
      std::begin(kEndingSignals), std::end(kEndingSignals),
      [&](const EndingSignal& each) { return each.name == word || each.word == word; });
  return found == std::end(kEndingSignals) ? 0 : found->number;
}

}  // namespace traintrace
