#include "analyzer/model/exchanges.h"

#include <charconv>
#include <string_view>

#include "analyzer/model/communicators.h"

namespace traintrace {
namespace {

// "1:143:40:73": the place of a communicator, from 1, an operation's index, and both amounts.
constexpr size_t kNumbers = 4;

bool read(std::string_view text, uint64_t (&numbers)[kNumbers]) {
  const char* at = text.data();
  const char* const end = text.data() + text.size();
  for (size_t i = 0; i < kNumbers; ++i) {
    const auto [behind, problem] = std::from_chars(at, end, numbers[i]);
    const bool last = i + 1 == kNumbers;
    if (problem != std::errc() || (last ? behind != end : behind == end || *behind != ':')) {
      return false;
    }
    at = last ? behind : behind + 1;
  }
  return true;
}

}  // namespace

std::optional<Exchanged> exchanged_in(const ProcessTrace& trace, size_t element,
                                      const OperationText& operation) {
  const auto fact = trace.facts.find("exchanged");
  std::string_view rest = fact == trace.facts.end() ? std::string_view() : fact->second;
  while (!rest.empty()) {
    const size_t comma = rest.find(',');
    uint64_t numbers[kNumbers] = {};
    if (read(rest.substr(0, comma), numbers) && numbers[0] == element + 1 &&
        numbers[1] == operation.index) {
      return Exchanged{numbers[2], numbers[3]};
    }
    rest = comma == rest.npos ? std::string_view() : rest.substr(comma + 1);
  }
  return std::nullopt;
}

std::optional<Exchanged> uneven_exchange(const Run& run, const Stall& stall) {
  const Communicator& communicator = run.communicators[stall.communicator];
  if (stall.kind != StallKind::kTransport ||
      communicator.size != static_cast<int>(stall.ranks.size())) {
    return std::nullopt;
  }
  Exchanged all;
  for (const StalledRank& rank : stall.ranks) {
    const Member* const member = member_of(communicator, rank.rank);
    const auto own = member == nullptr ? std::nullopt
                                       : exchanged_in(run.processes[rank.process], member->element,
                                                      rank.operation);
    if (!own || __builtin_add_overflow(all.sent, own->sent, &all.sent) ||
        __builtin_add_overflow(all.received, own->received, &all.received)) {
      return std::nullopt;
    }
  }
  return all.sent == all.received ? std::nullopt : std::optional(all);
}

}  // namespace traintrace
