#include "analyzer/importers/logs/nccl_log_line.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <system_error>

namespace traintrace {
namespace {

std::optional<int> whole_number(std::string_view text) {
  int number = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
  return problem == std::errc() && end == text.data() + text.size() ? std::optional(number)
                                                                    : std::nullopt;
}

std::optional<int> positive(std::string_view text) {
  const std::optional<int> number = whole_number(text);
  return number && *number > 0 ? number : std::nullopt;
}

// The last part that `separator` sets apart; `from` keeps the rest.
std::string_view cut_last(std::string_view& from, char separator) {
  const size_t at = from.rfind(separator);
  const std::string_view last = at == from.npos ? from : from.substr(at + 1);
  from = at == from.npos ? std::string_view() : from.substr(0, at);
  return last;
}

void cut_blanks(std::string_view& text) {
  text.remove_suffix(text.size() - (text.find_last_not_of(' ') + 1));
}

// "HOST:PID:TID", of torchrun "[default0]:HOST:PID:TID".
bool take_process(std::string_view word, NcclLogLine& line) {
  const std::optional<int> thread = positive(cut_last(word, ':'));
  const std::string_view rest = word;
  const std::optional<int> pid = positive(cut_last(word, ':'));
  if (!thread || !pid || rest.find(':') == rest.npos) {
    return false;
  }
  line.host = cut_last(word, ':');
  line.pid = *pid;
  line.thread = *thread;
  return true;
}

// "[2026-08-12 01:37:03]" at the end of what stands before the host.
std::string_view time_at_end(std::string_view before) {
  constexpr std::string_view kForm = "[dddd-dd-dd dd:dd:dd]";
  cut_blanks(before);
  if (before.size() < kForm.size()) {
    return {};
  }
  const std::string_view text = before.substr(before.size() - kForm.size());
  const bool has_form = std::equal(
      text.begin(), text.end(), kForm.begin(),
      [](char is, char should) { return should == 'd' ? is >= '0' && is <= '9' : is == should; });
  return has_form ? text.substr(1, text.size() - 2) : std::string_view();
}

// What stands before " NCCL WARN ", from the end: (FUNCTION), FILE:LINE, [DEVICE], HOST:PID:TID.
bool take_origin(std::string_view before, NcclLogLine& line) {
  constexpr int kMostWords = 4;
  for (int i = 0; i < kMostWords && !before.empty(); ++i) {
    cut_blanks(before);
    if (before.ends_with(')')) {  // a function of C++ may have blanks in it
      const size_t open = before.rfind(" (");
      before = before.substr(0, open == before.npos ? 0 : open);
    } else if (take_process(cut_last(before, ' '), line)) {
      line.time = time_at_end(before);
      return true;
    }
  }
  return false;
}

}  // namespace

std::optional<NcclLogLine> nccl_log_line(std::string_view line) {
  for (const LogLevel level : {LogLevel::kWarning, LogLevel::kInfo}) {
    const std::string_view word = level == LogLevel::kWarning ? " NCCL WARN " : " NCCL INFO ";
    const size_t at = line.find(word);
    NcclLogLine found;
    found.level = level;
    if (at != line.npos && take_origin(line.substr(0, at), found)) {
      found.text = line.substr(at + word.size());
      return found;
    }
  }
  return std::nullopt;
}

std::optional<int64_t> time_of(const NcclLogLine& line) {
  const auto at = [&](size_t from, size_t digits) {
    return whole_number(line.time.substr(from, digits)).value_or(0);
  };
  if (line.time.empty()) {
    return std::nullopt;
  }
  const std::chrono::year_month_day day{std::chrono::year(at(0, 4)),
                                        std::chrono::month(static_cast<unsigned>(at(5, 2))),
                                        std::chrono::day(static_cast<unsigned>(at(8, 2)))};
  if (!day.ok()) {
    return std::nullopt;
  }
  const std::chrono::seconds time =
      std::chrono::sys_days(day).time_since_epoch() + std::chrono::hours(at(11, 2)) +
      std::chrono::minutes(at(14, 2)) + std::chrono::seconds(at(17, 2));
  return std::chrono::nanoseconds(time).count();
}

std::optional<int> result_of_progress(std::string_view text) {
  for (const std::string_view thread : {" [Progress Thread]", " [Proxy Thread]"}) {
    if (text.ends_with(thread)) {
      text.remove_suffix(thread.size());
      const size_t arrow = text.rfind(" -> ");
      return arrow == text.npos ? std::nullopt : positive(text.substr(arrow + 4));
    }
  }
  return std::nullopt;
}

std::string_view peer_address(std::string_view text) {
  for (const std::string_view before : {"from peer ", "remote peer "}) {
    const size_t at = text.find(before);
    if (at != text.npos) {
      const std::string_view rest = text.substr(at + before.size());
      const size_t end = rest.find('<');
      const std::string_view address = rest.substr(0, end == rest.npos ? 0 : end);
      return address.find(' ') == address.npos ? address : std::string_view();
    }
  }
  return {};
}

std::optional<int> completion_status(std::string_view text) {
  if (text.find("ot completion") == text.npos) {
    return std::nullopt;
  }
  for (const std::string_view before : {" with status=", " with error "}) {
    const size_t at = text.find(before);
    if (at != text.npos) {
      const std::string_view rest = text.substr(at + before.size());
      return whole_number(rest.substr(0, rest.find_first_not_of("0123456789")));
    }
  }
  return std::nullopt;
}

}  // namespace traintrace
