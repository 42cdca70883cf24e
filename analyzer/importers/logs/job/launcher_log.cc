#include "analyzer/importers/logs/job/launcher_log.h"

#include <fmt/format.h>
#include <re2/re2.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "analyzer/importers/logs/job/endings.h"
#include "analyzer/importers/logs/log_time.h"
#include "analyzer/model/ids.h"

namespace traintrace {
namespace {

// In the order in which they explain each other; those on the host's memory come before the
// signals that it sent.
enum class EndKind : uint8_t {
  kHostMemory,
  kEvicted,
  kNodeFailed,
  kTimeLimit,
  kPreempted,
  kFirstStatus,  // which the teller saw before all others
  kAborted,      // by itself: MPI_Abort
  kStatus,
  kUnknown,
  kCancelled,
  kAskedToEnd,  // by the launcher: what ends by a signal after that does so for that
};

struct LauncherLine {
  std::string_view teller;
  EndKind kind;
  std::string_view mark;
  const char* expression;
};
constexpr LauncherLine kLauncherLines[] = {
#define TT_LAUNCHER_LINE(teller, kind, mark, expression) {teller, EndKind::kind, mark, expression},
#include "analyzer/importers/logs/job/launcher_lines.def"
#undef TT_LAUNCHER_LINE
};
constexpr size_t kLines = std::size(kLauncherLines);

constexpr size_t kMostEnds = 4096;
constexpr size_t kMostOfAValue = 120;
constexpr size_t kMostConclusions = 8;
constexpr size_t kWindowBytes = 1200;

class Expressions {
 public:
  Expressions() {
    re2::RE2::Options options;
    options.set_encoding(re2::RE2::Options::EncodingLatin1);
    options.set_log_errors(false);
    for (size_t i = 0; i < kLines; ++i) {
      compiled_[i] = std::make_unique<re2::RE2>(kLauncherLines[i].expression, options);
    }
  }
  const re2::RE2& operator[](size_t line) const { return *compiled_[line]; }

 private:
  std::array<std::unique_ptr<re2::RE2>, kLines> compiled_;
};

const Expressions& expressions() {
  static const Expressions compiled;
  return compiled;
}

// The values of a match by their names; views of the log.
class Match {
 public:
  static std::optional<Match> of(size_t line, std::string_view window) {
    const re2::RE2& expression = expressions()[line];
    constexpr int kMostGroups = 12;
    std::array<re2::StringPiece, kMostGroups> groups;
    const int count = expression.NumberOfCapturingGroups() + 1;
    const re2::StringPiece text(window.data(), window.size());
    if (count > kMostGroups ||
        !expression.Match(text, 0, text.size(), re2::RE2::UNANCHORED, groups.data(), count)) {
      return std::nullopt;
    }
    Match match;
    match.at_ = groups[0].data();
    for (const auto& [name, group] : expression.NamedCapturingGroups()) {
      const re2::StringPiece& value = groups[static_cast<size_t>(group)];
      if (value.data() != nullptr) {
        match.values_[name] = std::string(value.data(), std::min(value.size(), kMostOfAValue));
      }
    }
    return match;
  }
  bool has(const std::string& name) const { return values_.contains(name); }
  std::string text(const std::string& name) const {
    const auto found = values_.find(name);
    return found == values_.end() ? std::string() : found->second;
  }
  std::optional<int> number(const std::string& name) const {
    const std::string digits = text(name);
    int value = 0;
    const auto [end, problem] =
        std::from_chars(digits.data(), digits.data() + digits.size(), value);
    return !digits.empty() && problem == std::errc() && end == digits.data() + digits.size()
               ? std::optional(value)
               : std::nullopt;
  }
  const char* at() const { return at_; }

 private:
  const char* at_ = nullptr;
  std::map<std::string, std::string, std::less<>> values_;
};

struct End {
  size_t line = 0;  // of kLauncherLines
  size_t offset = 0;
  Match match;
  int status = 0;          // as wait says it: negative for a signal
  bool was_asked = false;  // by its launcher
  std::string pod;
  std::optional<int64_t> time;
};

// At the beginning of the line, as kernel logs may have it.
std::optional<int64_t> time_at(std::string_view bytes, size_t at) {
  const size_t before = bytes.rfind('\n', at);
  const std::string_view line = bytes.substr(before == bytes.npos ? 0 : before + 1, kMostOfAValue);
  std::string_view text = line;
  if (const std::optional<int64_t> time = take_iso_time(text)) {
    return time;
  }
  text = line;
  return take_dmesg_time(text);
}

// What the line with `at` and those after it say.
std::string_view window_at(std::string_view bytes, size_t at) {
  const size_t before = bytes.rfind('\n', at);
  const size_t begin = before == bytes.npos ? 0 : before + 1;
  // A line of which launchers print arguments may be long.
  const size_t from = at - begin > kWindowBytes ? at - kWindowBytes : begin;
  return bytes.substr(from, at - from + kWindowBytes);
}

// "Name:  trainer-3" of `kubectl describe`, before what it says of a pod's containers.
std::string pod_before(std::string_view bytes, size_t at) {
  constexpr std::string_view kName = "Name:";
  constexpr size_t kMostOfAPod = 32 << 10;
  const size_t from = at > kMostOfAPod ? at - kMostOfAPod : 0;
  for (size_t found = bytes.rfind(kName, at); found != bytes.npos && found >= from;
       found = found == 0 ? bytes.npos : bytes.rfind(kName, found - 1)) {
    if (found == 0 || bytes[found - 1] == '\n') {
      const std::string_view rest = bytes.substr(found + kName.size(), kMostOfAValue);
      const size_t begin = rest.find_first_not_of(' ');
      const size_t end = rest.find_first_of("\r\n ", begin);
      return begin == rest.npos ? "" : std::string(rest.substr(begin, end - begin));
    }
  }
  return "";
}

int status_of(const Match& match) {
  if (const std::optional<int> signal = match.number("signal")) {
    return -*signal;
  }
  if (match.has("word")) {
    return -signal_of_word(match.text("word"));
  }
  return match.number("code").value_or(0);
}

template <class Visit>  // visit(line of kLauncherLines, window); false: no more
void visit_marks(std::string_view bytes, const Visit& visit) {
  for (size_t line = 0; line < kLines; ++line) {
    const std::string_view mark = kLauncherLines[line].mark;
    for (size_t at = 0; at < bytes.size();) {
      const void* const found =
          memmem(bytes.data() + at, bytes.size() - at, mark.data(), mark.size());
      if (found == nullptr) {
        break;
      }
      at = static_cast<size_t>(static_cast<const char*>(found) - bytes.data());
      if (!visit(line, at)) {
        return;
      }
      at += mark.size();
    }
  }
}

std::vector<End> ends_in(std::string_view bytes) {
  std::vector<End> ends;
  std::set<const char*> taken;  // a line is of the first kind that it fits
  visit_marks(bytes, [&](size_t line, size_t at) {
    std::optional<Match> match = Match::of(line, window_at(bytes, at));
    if (!match || !taken.insert(match->at()).second) {
      return true;
    }
    End end;
    end.line = line;
    end.offset = static_cast<size_t>(match->at() - bytes.data());
    end.status = status_of(*match);
    end.pod = match->text("pod");
    if (kLauncherLines[line].teller == "Kubernetes" && end.pod.empty()) {
      end.pod = pod_before(bytes, at);
    }
    end.time = kLauncherLines[line].teller == "the kernel" ? time_at(bytes, at) : std::nullopt;
    end.match = std::move(*match);
    ends.push_back(std::move(end));
    return ends.size() < kMostEnds;
  });
  std::stable_sort(ends.begin(), ends.end(),
                   [](const End& a, const End& b) { return a.offset < b.offset; });
  return ends;
}

EndKind kind_of(const End& end) {
  return kLauncherLines[end.line].kind;
}
std::string_view teller_of(const End& end) {
  return kLauncherLines[end.line].teller;
}

// A signal that a launcher sends itself, after it has said so.
void mark_asked(std::vector<End>& ends) {
  bool asked = false;
  for (End& end : ends) {
    const bool asks = kind_of(end) == EndKind::kAskedToEnd || kind_of(end) == EndKind::kCancelled ||
                      kind_of(end) == EndKind::kTimeLimit || kind_of(end) == EndKind::kPreempted;
    asked = asked || asks;
    const bool by_launcher =
        end.status == -signal_of_word("SIGTERM") || end.status == -signal_of_word("SIGKILL");
    end.was_asked = asked && by_launcher && kind_of(end) == EndKind::kStatus;
  }
}

std::string on_host(const Match& match) {
  return match.text("host").empty() ? "" : " on " + match.text("host");
}

bool are_several(const End& end) {
  return end.match.text("tasks").find_first_of(",-") != std::string::npos;
}

std::string who_text(const End& end) {
  const Match& match = end.match;
  const std::string pid = match.has("pid") ? fmt::format(" (pid {})", match.text("pid")) : "";
  if (match.has("rank")) {
    return fmt::format("rank {}{}", match.text("rank"), on_host(match));
  }
  if (match.has("tasks")) {
    return fmt::format("Slurm task{} {}{}", are_several(end) ? "s" : "", match.text("tasks"),
                       on_host(match));
  }
  if (!end.pod.empty()) {
    return "pod " + end.pod;
  }
  if (match.has("process")) {
    const std::string name = match.text("process");
    return fmt::format("{}{}{}", name.empty() ? "a worker of PyTorch's data loader" : name, pid,
                       on_host(match));
  }
  if (match.has("local")) {
    return fmt::format("local rank {}{}{}", match.text("local"), pid, on_host(match));
  }
  if (match.has("pid")) {
    return fmt::format("process {}{}", match.text("pid"), on_host(match));
  }
  if (match.has("step")) {
    const std::string step = match.text("step");
    return fmt::format("Slurm's {} {}{}", step.find('.') == std::string::npos ? "job" : "step",
                       step, on_host(match));
  }
  return !match.text("host").empty()        ? match.text("host")
         : teller_of(end) == "Kubernetes"   ? "a container"
         : teller_of(end) == "the launcher" ? "the command that the launcher started"
                                            : fmt::format("a process of {}", teller_of(end));
}

// "was killed ..", "ran out of ..": what happened may be passive.
struct How {
  bool is_passive = false;
  std::string text;
};

std::string memory_text(const End& end) {
  if (end.match.has("number")) {
    return fmt::format("ran out of host memory: the kernel killed {} of its processes",
                       end.match.text("number"));
  }
  return fmt::format(
      "killed because {} memory ran out{}",
      teller_of(end) == "Kubernetes" ? "the container's" : "the host's",
      end.match.has("used")
          ? fmt::format(" ({} of {} in use)", end.match.text("used"), end.match.text("limit"))
          : "");
}

How how(const End& end) {
  switch (kind_of(end)) {
    case EndKind::kHostMemory:
      return {!end.match.has("number"), memory_text(end)};
    case EndKind::kEvicted:
      return {true, "evicted from its node"};
    case EndKind::kNodeFailed:
      return end.match.has("step") ? How{true, "ended because the node failed"}
                                   : How{false, "failed, says Slurm"};
    case EndKind::kTimeLimit:
      return {true, "ended at its time limit"};
    case EndKind::kPreempted:
      return {true, "preempted by another job"};
    case EndKind::kFirstStatus:
      return {true, fmt::format("the first that {} saw fail: {}", teller_of(end),
                                ending_text(end.status))};
    case EndKind::kAborted:
      return {false, "called MPI_Abort"};
    case EndKind::kStatus:
      return {end.status < 0,
              (end.status < 0 ? "" : "ended with ") + ending_text(end.status) +
                  (end.was_asked ? ", after the launcher had asked the job to end" : "")};
    case EndKind::kUnknown:
      return {false, "ended, and Ray does not know why: killed for memory, `ray stop`, or a crash"};
    case EndKind::kCancelled:
      return {true, "cancelled"};
    case EndKind::kAskedToEnd:
      return {true, "asked to end"};
  }
  return {};
}

constexpr std::string_view kMoreHostMemory =
    "that is host memory, not the GPU's: give the job more of it (Slurm's --mem, the container's "
    "limit), or let it need less: fewer data loader workers, less pinned memory, no checkpoint "
    "gathered on one rank";

bool is_outer_cause(const End& end) {
  return kind_of(end) <= EndKind::kPreempted;
}

// What has another cause, or none that it could tell.
bool is_consequence(const End& end) {
  return kind_of(end) >= EndKind::kCancelled || end.was_asked ||
         end.status == -signal_of_word("SIGTERM");
}

// Causes first; of one kind those that say who, and an abort, which a wait that takes too long
// ends in, last.
std::pair<int, int> order_of(const End& end) {
  const bool names_no_process = end.match.has("number");
  const bool is_late = end.status == -signal_of_word("SIGABRT") || end.status > 0;
  return {is_consequence(end) ? 100 : static_cast<int>(kind_of(end)),
          (names_no_process ? 2 : 0) + (is_late ? 1 : 0)};
}

Witness witness_of(const End& end) {
  const Match& match = end.match;
  Witness witness;
  // A pod is a host of its own; what is said of several processes is not said of the only one
  // there that was recorded.
  const bool is_of_several = match.has("tasks") || match.has("step");
  witness.host = !end.pod.empty() ? end.pod : is_of_several ? "" : match.text("host");
  const bool is_worker = match.has("process") && match.text("process").empty();
  witness.pid = is_worker ? 0 : match.number("pid").value_or(0);
  witness.rank = match.number("rank");
  witness.task = match.number("tasks");
  witness.who = who_text(end);
  const std::string_view teller = teller_of(end);
  const std::string text = how(end).text;
  witness.says =
      text.find(teller) == std::string::npos ? fmt::format("{} (says {})", text, teller) : text;
  witness.ended = end.time;
  if (is_outer_cause(end) && how(end).is_passive) {
    witness.outer_cause = text;
  }
  return witness;
}

std::string conclusion_of(const End& end) {
  const How happened = how(end);
  return fmt::format("{} {}{}", who_text(end),
                     !happened.is_passive ? ""
                     : are_several(end)   ? "were "
                                          : "was ",
                     happened.text);
}

// All ranks that ended alike, of which none is known to be the first.
std::string conclusion_of(const std::vector<End>& ends, const End& like) {
  Ranks ranks;
  bool same_host = true;
  for (const End& end : ends) {
    const bool alike = kind_of(end) == kind_of(like) && end.status == like.status &&
                       end.was_asked == like.was_asked && kind_of(end) == EndKind::kStatus;
    if (const std::optional<int> rank = end.match.number("rank"); rank && alike) {
      insert(ranks, Rank{*rank});
      same_host = same_host && end.match.text("host") == like.match.text("host");
    }
  }
  if (ranks.size() < 2 || !like.match.has("rank")) {
    return conclusion_of(like);
  }
  return fmt::format("{}{} {}{}", ranks_text(ranks), same_host ? on_host(like.match) : "",
                     how(like).is_passive ? "were " : "", how(like).text);
}

std::string_view source_of(const End& end) {
  return teller_of(end) == "the kernel"   ? "the kernel's log"
         : teller_of(end) == "Kubernetes" ? "Kubernetes"
                                          : "the job's log";
}

}  // namespace

bool looks_like_launcher_log(std::string_view bytes) {
  bool found = false;
  visit_marks(bytes, [&](size_t line, size_t at) {
    found = kLauncherLines[line].kind != EndKind::kAskedToEnd &&
            Match::of(line, window_at(bytes, at)).has_value();
    return !found;
  });
  return found;
}

LauncherLog read_launcher_log(std::string_view bytes, const std::string& file) {
  std::vector<End> ends = ends_in(bytes);
  mark_asked(ends);
  // torchrun says the same at its end, with ranks.
  if (bytes.find("Root Cause (first observed failure)") != bytes.npos) {
    std::erase_if(ends, [](const End& end) { return teller_of(end) == "torchrun"; });
  }
  std::stable_sort(ends.begin(), ends.end(),
                   [](const End& a, const End& b) { return order_of(a) < order_of(b); });
  LauncherLog log;
  log.testimony.file = file;
  log.testimony.source = ends.empty() ? "" : source_of(ends.front());
  log.tells_outer_cause = !ends.empty() && is_outer_cause(ends.front());
  const bool was_stopped = !ends.empty() && (is_consequence(ends.front()) ||
                                             kind_of(ends.front()) == EndKind::kTimeLimit ||
                                             kind_of(ends.front()) == EndKind::kPreempted);
  log.testimony.is_of = was_stopped ? Testimony::Of::kStops : Testimony::Of::kFailures;
  const auto add_once = [](std::string_view text, std::vector<std::string>& texts) {
    if (!text.empty() && std::find(texts.begin(), texts.end(), text) == texts.end()) {
      texts.emplace_back(text);
    }
  };
  std::vector<std::string> hints;
  for (const End& end : ends) {
    const bool is_told = log.testimony.conclusions.empty() || !is_consequence(end);
    if (is_told || kind_of(end) < EndKind::kCancelled) {
      log.testimony.witnesses.push_back(witness_of(end));
    }
    if (is_told && log.testimony.conclusions.size() < kMostConclusions) {
      add_once(conclusion_of(ends, end), log.testimony.conclusions);
      add_once(kind_of(end) == EndKind::kHostMemory ? std::string_view() : ending_hint(end.status),
               hints);
      add_once(kind_of(end) == EndKind::kHostMemory ? kMoreHostMemory : std::string_view(),
               log.testimony.advice);
    }
  }
  // What a signal may mean is of no interest where it is known.
  if (log.testimony.advice.empty()) {
    std::move(hints.begin(), hints.end(), std::back_inserter(log.testimony.conclusions));
  }
  return log;
}

}  // namespace traintrace
