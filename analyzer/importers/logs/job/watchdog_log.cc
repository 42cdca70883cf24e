#include "analyzer/importers/logs/job/watchdog_log.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <iterator>
#include <map>
#include <optional>
#include <system_error>
#include <utility>

#include "analyzer/importers/logs/log_lines.h"
#include "analyzer/model/ids.h"

namespace traintrace {
namespace {

constexpr size_t kMostText = 96;

// The number that begins after `before`; what stands before a sign, a blank or letters.
std::optional<int64_t> number_after(std::string_view text, std::string_view before) {
  const size_t at = text.find(before);
  if (at == text.npos) {
    return std::nullopt;
  }
  const std::string_view rest = text.substr(at + before.size());
  int64_t number = 0;
  const auto [end, problem] = std::from_chars(rest.data(), rest.data() + rest.size(), number);
  return problem == std::errc() ? std::optional(number) : std::nullopt;
}

std::optional<int> rank_after(std::string_view text, std::string_view before) {
  const std::optional<int64_t> number = number_after(text, before);
  return number && *number >= 0 && *number < (1 << 24) ? std::optional(static_cast<int>(*number))
                                                       : std::nullopt;
}

// "[PG ID 5 PG GUID 22(TENSOR_MODEL_PARALLEL_GROUP) Rank 0]", "[PG 0 (default_pg) Rank 3]", "[PG 1
// Rank 4]".
struct GroupPrefix {
  std::string_view group;  // "22(TENSOR_MODEL_PARALLEL_GROUP)"
  bool is_default = false;
  std::optional<int> rank;  // within the group
};

std::optional<GroupPrefix> group_prefix(std::string_view line) {
  const size_t at = line.find("[PG ");
  const size_t end = at == line.npos ? at : line.find(']', at);
  if (end == line.npos) {
    return std::nullopt;
  }
  const std::string_view inside = line.substr(at + 4, end - at - 4);
  const size_t rank = inside.rfind(" Rank ");
  if (rank == inside.npos) {
    return std::nullopt;
  }
  GroupPrefix prefix;
  prefix.group = inside.substr(0, rank);
  if (const size_t guid = prefix.group.find("PG GUID "); guid != prefix.group.npos) {
    prefix.group.remove_prefix(guid + 8);
  }
  prefix.group = prefix.group.substr(0, kMostText);
  prefix.is_default = prefix.group == "0" || prefix.group.ends_with("(default_pg)");
  prefix.rank = rank_after(inside, " Rank ");
  return prefix;
}

// What a rank's watchdog said of an operation, before it said of which group that is.
struct TimedOut {
  int64_t work = -1;
  bool is_collective = false;
  std::string text;  // "ALLREDUCE, 1 element in, 1 out"
  int64_t waited_ms = 0;
};

// Ranks count messages and batches of them each for itself.
bool is_collective(std::string_view type) {
  constexpr std::string_view kOthers[] = {"SEND", "RECV", "RECVANYSOURCE", "COALESCED", "UNKNOWN"};
  return std::find(std::begin(kOthers), std::end(kOthers), type) == std::end(kOthers);
}

// "WorkNCCL(SeqNum=7753, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for
// 600061 milliseconds".
std::optional<TimedOut> timed_out(std::string_view line) {
  const std::optional<int64_t> work = number_after(line, "WorkNCCL(SeqNum=");
  const size_t type = line.find("OpType=");
  if (!work || type == line.npos) {
    return std::nullopt;
  }
  const std::string_view name = line.substr(type + 7);
  TimedOut found;
  found.work = *work;
  found.is_collective = is_collective(name.substr(0, name.find_first_of(",)")));
  found.text = name.substr(0, std::min(name.find_first_of(",)"), kMostText));
  const std::optional<int64_t> in = number_after(line, "NumelIn=");
  const std::optional<int64_t> out = number_after(line, "NumelOut=");
  if (in && out) {
    found.text += fmt::format(", {} elements in, {} out", *in, *out);
  }
  found.waited_ms = number_after(line, " ran for ").value_or(0);
  return found;
}

struct Standing {
  int64_t enqueued = -1;
  int64_t completed = -1;
  std::optional<TimedOut> waits_for;
};

class WatchdogReader {
 public:
  void read(std::string_view line) {
    std::optional<int> rank = rank_after(line, "[rank");
    if (std::optional<TimedOut> work = timed_out(line)) {
      rank = rank ? rank : rank_after(line, "[Rank ");
      if (rank && (latest_.size() < kMostWitnesses || latest_.contains(*rank))) {
        latest_[*rank] = std::move(*work);
      }
      return;
    }
    const std::optional<GroupPrefix> prefix = group_prefix(line);
    if (!prefix) {
      return;
    }
    const std::optional<int64_t> enqueued = number_of(line, "ast enqueued ");
    const std::optional<int64_t> completed = number_of(line, "ast completed ");
    rank = rank ? rank : prefix->is_default ? prefix->rank : std::nullopt;
    if (!rank || !enqueued || !completed) {
      return;
    }
    const std::pair key(*rank, std::string(prefix->group));
    if (standings_.size() >= kMostWitnesses && !standings_.contains(key)) {
      return;
    }
    Standing& standing = standings_[key];
    standing.enqueued = *enqueued;
    standing.completed = *completed;
    const std::optional<int64_t> failed = number_of(line, "watchdog at ");
    if (const auto said = latest_.find(*rank);
        failed && said != latest_.end() && said->second.work == *failed) {
      standing.waits_for = said->second;
    }
  }

  std::vector<Witness> witnesses() const {
    std::vector<Witness> all;
    for (const auto& [key, standing] : standings_) {
      Witness& witness = all.emplace_back();
      witness.rank = key.first;
      witness.says =
          standing.waits_for
              ? fmt::format(
                    "waited {} s for work {} of process group {}: {}; had enqueued up "
                    "to {}, completed up to {}",
                    standing.waits_for->waited_ms / 1000, standing.waits_for->work, key.second,
                    standing.waits_for->text, standing.enqueued, standing.completed)
              : fmt::format("had enqueued up to work {} of process group {}, completed up to {}",
                            standing.enqueued, key.second, standing.completed);
    }
    return all;
  }

  // Of each group in which a collective timed out: who had not even enqueued it.
  std::vector<std::string> conclusions() const {
    std::map<std::string, Absence> absences;
    for (const auto& [key, standing] : standings_) {
      if (standing.waits_for && standing.waits_for->is_collective) {
        Absence& absence = absences[key.second];
        if (absence.waiting.empty() || standing.waits_for->work < absence.of.work) {
          absence = {*standing.waits_for, {}, {}};
        }
        if (standing.waits_for->work == absence.of.work) {
          insert(absence.waiting, Rank{key.first});
        }
      }
    }
    for (const auto& [key, standing] : standings_) {
      const auto absence = absences.find(key.second);
      if (absence != absences.end() && standing.enqueued < absence->second.of.work) {
        insert(absence->second.absent, Rank{key.first});
      }
    }
    std::vector<std::string> all;
    for (const auto& [group, absence] : absences) {
      if (!absence.absent.empty()) {
        all.push_back(fmt::format(
            "{} had not enqueued work {} of process group {} ({}), for which {} waited {} s",
            ranks_text(absence.absent), absence.of.work, group,
            absence.of.text.substr(0, absence.of.text.find(',')), ranks_text(absence.waiting),
            absence.of.waited_ms / 1000));
      }
    }
    return all;
  }

 private:
  struct Absence {
    TimedOut of;  // the earliest
    Ranks waiting;
    Ranks absent;
  };

  // "last enqueued work: 5", before 2.7 "last enqueued NCCL work: 5", "watchdog at work sequence
  // id: 5".
  static std::optional<int64_t> number_of(std::string_view line, std::string_view what) {
    const size_t at = line.find(what);
    if (at == line.npos) {
      return std::nullopt;
    }
    std::string_view rest = line.substr(at + what.size());
    const size_t colon = rest.find(": ");
    constexpr size_t kMostWords = 24;
    return colon == rest.npos || colon > kMostWords ? std::nullopt
                                                    : number_after(rest.substr(colon), ": ");
  }

  std::map<int, TimedOut> latest_;                             // by rank
  std::map<std::pair<int, std::string>, Standing> standings_;  // by rank and group
};

}  // namespace

bool looks_like_watchdog_log(std::string_view bytes) {
  return bytes.find("ProcessGroupNCCL.cpp:") != bytes.npos &&
         (bytes.find("ast enqueued NCCL work: ") != bytes.npos ||
          bytes.find("ast enqueued work: ") != bytes.npos);
}

Testimony read_watchdog_log(std::string_view bytes, const std::string& file) {
  WatchdogReader reader;
  for_each_line(bytes, [&](std::string_view line) {
    reader.read(line);
    return true;
  });
  return {file, "PyTorch's log", reader.witnesses(), reader.conclusions()};
}

}  // namespace traintrace
