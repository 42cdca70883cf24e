#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <tuple>

#include "analyzer/importers/logs/testimony.h"

namespace traintrace {
namespace {

struct LogLine {
  std::string_view host;
  int pid = 0;
  bool warning = false;
  std::string_view text;
};

std::optional<int> log_number(std::string_view text) {
  int number = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
  return problem == std::errc() && end == text.data() + text.size() && number > 0
             ? std::optional(number)
             : std::nullopt;
}

// The last part that `separator` sets apart; `from` keeps the rest.
std::string_view cut_last(std::string_view& from, char separator) {
  const size_t at = from.rfind(separator);
  const std::string_view last = at == from.npos ? from : from.substr(at + 1);
  from = at == from.npos ? std::string_view() : from.substr(0, at);
  return last;
}

// "HOST:PID:TID [DEVICE] NCCL INFO ..", behind whatever a launcher writes before it.
std::optional<LogLine> log_line(std::string_view line) {
  for (const bool warning : {false, true}) {
    const std::string_view word = warning ? " NCCL WARN " : " NCCL INFO ";
    const size_t at = line.find(word);
    if (at == line.npos) {
      continue;
    }
    std::string_view before = line.substr(0, at);
    if (before.ends_with(']')) {
      cut_last(before, '[');
    }
    before.remove_suffix(before.size() - before.find_last_not_of(' ') - 1);
    std::string_view process = cut_last(before, ' ');
    const auto thread = log_number(cut_last(process, ':'));
    const auto pid = log_number(cut_last(process, ':'));
    const std::string_view host = cut_last(process, ':');
    if (thread && pid && !host.empty()) {
      return LogLine{host, *pid, warning, line.substr(at + word.size())};
    }
  }
  return std::nullopt;
}

// What stands behind "name ".
std::string_view value_at(std::string_view text, std::string_view name) {
  for (size_t at = text.find(name); at != text.npos; at = text.find(name, at + 1)) {
    const size_t begin = at + name.size();
    if ((at == 0 || text[at - 1] == ' ') && begin < text.size() && text[begin] == ' ') {
      const std::string_view rest = text.substr(begin + 1);
      return rest.substr(0, rest.find(' '));
    }
  }
  return {};
}

uint64_t hex_at(std::string_view text, std::string_view name) {
  std::string_view digits = value_at(text, name);
  if (digits.starts_with("0x")) {
    digits.remove_prefix(2);
  }
  uint64_t number = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), number, 16);
  return number;
}

int small_at(std::string_view text, std::string_view name) {
  const std::string_view digits = value_at(text, name);
  int number = -1;
  std::from_chars(digits.data(), digits.data() + digits.size(), number);
  return number < 0 ? -1 : number;
}

struct Side {
  uint64_t hash = 0;
  int rank = -1, size = -1;
  bool ended = false;
  std::map<std::string, uint64_t, std::less<>> counts;  // by function
  std::string last, last_operation, last_count;
};

class LogReader {
 public:
  void add(const LogLine& line) {
    const std::tuple process(std::string(line.host), line.pid);
    if (line.warning) {
      if (warnings_.size() < kMostWitnesses) {
        warnings_.try_emplace(process, line.text.substr(0, kMostText));
      }
      return;
    }
    const uint64_t handle = hex_at(line.text, "comm");
    if (handle == 0 || (sides_.size() >= kMostWitnesses && !sides_.contains({process, handle}))) {
      return;
    }
    if (line.text.find(": opCount ") != line.text.npos) {
      add_operation(line.text, sides_[{process, handle}]);
    } else if (line.text.find(" nranks ") != line.text.npos) {
      add_communicator(line.text, {process, handle});
    }
  }

  std::vector<Witness> witnesses() const {
    std::vector<Witness> all;
    for (const auto& [process, text] : warnings_) {
      Witness witness;
      std::tie(witness.host, witness.pid) = process;
      witness.says = "warned first: " + text;
      all.push_back(std::move(witness));
    }
    for (const auto& [key, side] : sides_) {
      all.push_back(witness_of(key, side));
    }
    return all;
  }

 private:
  using Process = std::tuple<std::string, int>;
  using Key = std::pair<Process, uint64_t>;
  static constexpr size_t kMostText = 256;

  // Addresses are used again: what is created or destroyed begins anew.
  void add_communicator(std::string_view text, const Key& key) {
    Side& side = sides_[key];
    if (text.find("Init START") != text.npos || side.ended) {
      side = {};
    }
    side.ended = text.find("Destroy ") != text.npos || text.find("Abort ") != text.npos;
    side.rank = small_at(text, "rank");
    side.size = small_at(text, "nranks");
    if (const uint64_t hash = hex_at(text, "commId"); hash != 0) {
      side.hash = hash;
    }
  }

  static void add_operation(std::string_view text, Side& side) {
    constexpr size_t kMostFunctions = 32;
    const std::string_view function = text.substr(0, std::min(text.find(':'), kMostText));
    auto count = side.counts.find(function);
    if (count == side.counts.end() && side.counts.size() < kMostFunctions) {
      count = side.counts.emplace(function, 0).first;
    }
    if (count != side.counts.end()) {
      ++count->second;
    }
    side.last = function;
    side.last_operation = value_at(text, "opCount").substr(0, kMostText);
    side.last_count = value_at(text, "count").substr(0, kMostText);
  }

  static Witness witness_of(const Key& key, const Side& side) {
    Witness witness;
    std::tie(witness.host, witness.pid) = key.first;
    witness.handle = key.second;
    witness.communicator = side.hash;
    witness.local_rank = side.rank;
    witness.size = side.size;
    for (const auto& [function, count] : side.counts) {
      witness.says += fmt::format("{}{} {}", witness.says.empty() ? "" : ", ", count, function);
    }
    witness.says = side.counts.empty()
                       ? "no operation logged"
                       : fmt::format("{} logged, the last {} of {} elements as opCount {}",
                                     witness.says, side.last, side.last_count, side.last_operation);
    return witness;
  }

  std::map<Process, std::string> warnings_;
  std::map<Key, Side> sides_;
};

template <class Function>
void for_each_line(std::string_view bytes, Function&& function) {
  while (!bytes.empty()) {
    const size_t end = bytes.find('\n');
    std::string_view line = bytes.substr(0, end);
    bytes.remove_prefix(end == bytes.npos ? bytes.size() : end + 1);
    if (line.ends_with('\r')) {
      line.remove_suffix(1);
    }
    if (!function(line)) {
      return;
    }
  }
}

}  // namespace

bool looks_like_nccl_log(std::string_view bytes) {
  bool found = false;
  for_each_line(bytes, [&](std::string_view line) {
    found = log_line(line).has_value();
    return !found;
  });
  return found;
}

Result<Testimony> read_nccl_log(std::string_view bytes, const std::string& file) {
  LogReader reader;
  for_each_line(bytes, [&](std::string_view line) {
    if (const auto known = log_line(line)) {
      reader.add(*known);
    }
    return true;
  });
  Testimony testimony{file, "NCCL's log", reader.witnesses()};
  if (testimony.witnesses.empty()) {
    return ReadError{file, 0,
                     "expected lines about communicators: NCCL_DEBUG=INFO and "
                     "NCCL_DEBUG_SUBSYS=INIT,COLL write them",
                     true, false};
  }
  return testimony;
}

}  // namespace traintrace
