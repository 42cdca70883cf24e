#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <functional>
#include <iterator>
#include <map>
#include <set>
#include <tuple>

#include "analyzer/importers/logs/log_lines.h"
#include "analyzer/importers/logs/nccl_calls.h"
#include "analyzer/importers/logs/nccl_log_line.h"
#include "analyzer/importers/logs/testimony.h"
#include "analyzer/text/values.h"

namespace traintrace {
namespace {

// What stands after "name ".
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
  NcclCalls calls;
};

bool is_message(std::string_view function) {
  return function == "Send" || function == "Recv";
}

class LogReader {
 public:
  void add(const NcclLogLine& line) {
    const Process process(std::string(line.host), line.pid);
    const auto has = [&](std::string_view part) { return line.text.find(part) != line.text.npos; };
    any_torn_ = any_torn_ || has(" NCCL INFO ") || (has(": opCount ") && !has(" stream "));
    if (line.level == LogLevel::kWarning) {
      add_warning(line, process);
      return;
    }
    if (const std::optional<int> result = result_of_progress(line.text)) {
      add_failure(*result, line, process);
      return;
    }
    for_each_own_address(line.text, [&](std::string_view address) {
      if (hosts_.size() < kMostWitnesses) {
        hosts_.try_emplace(std::string(address.substr(0, kMostText)), line.host);
      }
    });
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
    for (const auto& [process, warning] : first_warnings_) {
      if (const auto failed = failures_.find(process);
          failed != failures_.end() && failed->second.warning == warning) {
        continue;  // said there
      }
      Witness witness;
      std::tie(witness.host, witness.pid) = process;
      witness.says = "warned first: " + warning;
      all.push_back(std::move(witness));
    }
    for (const auto& [process, failure] : failures_) {
      all.push_back(witness_of(process, failure));
    }
    for (const auto& [key, side] : sides_) {
      all.push_back(witness_of(key, side));
    }
    return all;
  }

  // Of each communicator of which all ranks are in the log.  Older ones do not say which sides
  // belong together: there it is all of the job, or nothing.
  std::vector<std::string> conclusions() {
    std::map<std::pair<uint64_t, int>, std::map<int, const NcclCalls*>> communicators;
    std::set<std::pair<uint64_t, int>> ambiguous;
    int largest = 0;
    for (auto& [key, side] : sides_) {
      if (!any_torn_) {
        side.calls.number_by_order();
      }
      const std::pair communicator(side.hash, side.size);
      largest = std::max(largest, side.size);
      if (!communicators[communicator].emplace(side.rank, &side.calls).second) {
        ambiguous.insert(communicator);
      }
    }
    std::vector<std::string> all;
    for (const auto& [communicator, ranks] : communicators) {
      const bool is_whole = static_cast<size_t>(communicator.second) == ranks.size() &&
                            ranks.begin()->first >= 0 && !ambiguous.contains(communicator) &&
                            (communicator.first != 0 || communicator.second == largest);
      if (std::string text = is_whole ? first_difference(ranks, names_) : ""; !text.empty()) {
        all.push_back(std::move(text));
      }
    }
    return all;
  }

 private:
  using Process = std::tuple<std::string, int>;
  using Key = std::pair<Process, uint64_t>;
  using Thread = std::pair<Process, int>;
  struct Warning {
    std::string text;
    std::string peer;
    std::optional<int> completion_status;
    std::optional<int64_t> time;
  };
  static constexpr size_t kMostText = 256;

  static std::string text_of(const NcclLogLine& line) {
    const std::string text(line.text.substr(0, kMostText));
    return line.time.empty() ? text : fmt::format("{} ({} there)", text, line.time);
  }

  void add_warning(const NcclLogLine& line, const Process& process) {
    if (first_warnings_.size() < kMostWitnesses) {
      first_warnings_.try_emplace(process, text_of(line));
    }
    if (const Thread thread(process, line.thread);
        last_warnings_.size() < kMostWitnesses || last_warnings_.contains(thread)) {
      last_warnings_[thread] = {text_of(line), std::string(peer_address(line.text)),
                                completion_status(line.text), time_of(line)};
    }
    // NCCL_DEBUG=WARN leaves out where it went; transport/net_ib.cc returns this for it.
    if (completion_status(line.text)) {
      constexpr int kRemoteError = 6;
      add_failure(kRemoteError, line, process);
    }
  }

  // The first of a process: those after it often only repeat it.
  void add_failure(int result, const NcclLogLine& line, const Process& process) {
    if (failures_.size() >= kMostWitnesses || failures_.contains(process)) {
      return;
    }
    ProxyFailure& failure = failures_[process];
    failure.result = result;
    if (const auto said = last_warnings_.find({process, line.thread});
        said != last_warnings_.end()) {
      failure.warning = said->second.text;
      failure.peer = said->second.peer;
      failure.completion_status = said->second.completion_status;
      failure.warned = said->second.time;
    }
  }

  Witness witness_of(const Process& process, const ProxyFailure& failure) const {
    Witness witness;
    std::tie(witness.host, witness.pid) = process;
    witness.proxy_failure = failure;
    if (const auto host = hosts_.find(failure.peer); host != hosts_.end()) {
      witness.proxy_failure->peer_host = host->second;
    }
    witness.says =
        fmt::format("its proxy thread failed with {}{}{}", result_text("nccl", failure.result),
                    failure.warning.empty() ? "" : ", after it had warned: ", failure.warning);
    return witness;
  }

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

  // As the log has it, but for the addresses.  Of processes that write at the same time lines may
  // be torn.
  void add_call(std::string_view function, std::string_view text, Side& side) {
    constexpr size_t kMostCalls = 1 << 24;
    const std::string_view values[] = {value_at(text, "count"), value_at(text, "datatype"),
                                       value_at(text, "op"), value_at(text, "root")};
    const bool is_whole =
        text.find(" stream ") != text.npos && text.find(" NCCL ") == text.npos &&
        std::all_of(std::begin(values), std::end(values), [](std::string_view value) {
          constexpr size_t kMostDigits = 20;
          return !value.empty() && value.size() <= kMostDigits &&
                 value.find_first_not_of("0123456789") == value.npos;
        });
    if (!is_whole) {
      any_torn_ = true;
      return;
    }
    if (is_message(function) || ++calls_ > kMostCalls) {
      side.calls.add_message();
      return;
    }
    const uint32_t what = names_.number_of(
        fmt::format("{} of {} elements (datatype {}, op {}, root {})",
                    function.substr(0, kMostText), values[0], values[1], values[2], values[3]));
    what == 0 ? side.calls.add_message() : side.calls.add(hex_at(text, "opCount"), what);
  }

  void add_operation(std::string_view text, Side& side) {
    constexpr size_t kMostFunctions = 32;
    const std::string_view function = text.substr(0, std::min(text.find(':'), kMostText));
    auto count = side.counts.find(function);
    if (count == side.counts.end() && side.counts.size() < kMostFunctions) {
      count = side.counts.emplace(function, 0).first;
    }
    if (count != side.counts.end()) {
      ++count->second;
    }
    add_call(function, text, side);
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

  std::map<Process, std::string> first_warnings_;
  std::map<Thread, Warning> last_warnings_;
  std::map<Process, ProxyFailure> failures_;
  std::map<std::string, std::string, std::less<>> hosts_;  // by address
  std::map<Key, Side> sides_;
  NcclCallNames names_;
  bool any_torn_ = false;
  size_t calls_ = 0;
};

}  // namespace

bool looks_like_nccl_log(std::string_view bytes) {
  bool found = false;
  for_each_line(bytes, [&](std::string_view line) {
    found = nccl_log_line(line).has_value();
    return !found;
  });
  return found;
}

Result<Testimony> read_nccl_log(std::string_view bytes, const std::string& file) {
  LogReader reader;
  for_each_line(bytes, [&](std::string_view line) {
    if (const auto known = nccl_log_line(line)) {
      reader.add(*known);
    }
    return true;
  });
  Testimony testimony{file, "NCCL's log", reader.witnesses(), reader.conclusions()};
  if (testimony.witnesses.empty()) {
    return ReadError{file, 0,
                     "expected warnings, or lines about communicators: NCCL_DEBUG=INFO and "
                     "NCCL_DEBUG_SUBSYS=INIT,COLL write them",
                     true, false};
  }
  return testimony;
}

}  // namespace traintrace
