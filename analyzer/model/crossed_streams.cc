#include "analyzer/model/crossed_streams.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "analyzer/model/activity.h"
#include "analyzer/model/exchanges.h"
#include "analyzer/model/progress.h"
#include "analyzer/model/stream_order.h"

namespace traintrace {
namespace {

const OperationText* pending_at(const Run& run, const Member& member, uint64_t sequence) {
  const OperationText* operation =
      pending(run, member, collective_at(text_of(run, member), sequence));
  return operation == nullptr || direction_of(call_name(run.processes[member.process],
                                                        operation->call)) != Direction::kAllToAll
             ? nullptr
             : operation;
}

// The first collective that a member of the communicator has not finished, if all have entered it.
std::optional<Exchange> first_collective(const Run& run, size_t index) {
  const Communicator& communicator = run.communicators[index];
  Exchange found;
  found.communicator = index;
  for (const Member& member : communicator.members) {
    for (const OperationText& operation : text_of(run, member).recent) {
      if (operation.collective && (found.sequence == 0 || operation.sequence < found.sequence) &&
          pending_at(run, member, operation.sequence) == &operation) {
        found.sequence = operation.sequence;
      }
    }
  }
  if (found.sequence == 0 || !communicator.absent.empty() || communicator.members.size() < 2) {
    return std::nullopt;
  }
  for (const Member& member : communicator.members) {
    const OperationText* operation = pending_at(run, member, found.sequence);
    if (operation == nullptr) {
      return std::nullopt;
    }
    found.parts.push_back({&member, operation, true});
  }
  return found;
}

// Of each receiver the first from each of its peers.
void add_messages(const Run& run, size_t index, std::vector<Exchange>& exchanges) {
  std::set<std::pair<Rank, Rank>> known;  // receiver, sender
  for (Exchange& message : messages_of(run, index)) {
    if (known.emplace(message.parts[0].member->rank, message.parts[1].member->rank).second) {
      exchanges.push_back(std::move(message));
    }
  }
}

// What lies first on each stream, of exchanges that cannot end.
class Streams {
 public:
  Streams(const Run& run, std::vector<Exchange> exchanges)
      : run_(run), left_(std::move(exchanges)) {
    // What nothing holds up will end, and so will what lies behind it.
    for (size_t before = left_.size() + 1; left_.size() < before;) {
      before = left_.size();
      find_first();
      std::erase_if(left_, [&](const Exchange& exchange) {
        return std::none_of(exchange.parts.begin(), exchange.parts.end(),
                            [&](const Part& part) { return is_behind(part); });
      });
    }
  }

  const std::vector<Exchange>& left() const { return left_; }

  bool is_behind(const Part& part) const {
    const size_t process = part.member->process;
    for (auto at = first_.lower_bound({process, 0});
         at != first_.end() && at->first.first == process; ++at) {
      if (precedes(run_, process, *at->second, *part.operation) &&
          !may_be_one_group(*at->second, *part.operation)) {
        return true;
      }
    }
    return false;
  }

 private:
  void find_first() {
    first_.clear();
    for (const Exchange& exchange : left_) {
      for (const Part& part : exchange.parts) {
        const OperationText*& first = first_[{part.member->process, part.operation->stream}];
        if (part.blocks &&
            (first == nullptr || precedes(run_, part.member->process, *part.operation, *first))) {
          first = part.operation;
        }
      }
    }
    std::erase_if(first_, [](const auto& entry) { return entry.second == nullptr; });
  }

  const Run& run_;
  std::vector<Exchange> left_;
  std::map<std::pair<size_t, uint32_t>, const OperationText*> first_;  // by process, stream
};

}  // namespace

void add_crossed_waits(const Run& run, std::vector<Wait>& waits) {
  std::vector<Exchange> exchanges;
  for (size_t i = 0; i < run.communicators.size(); ++i) {
    if (auto collective = first_collective(run, i)) {
      exchanges.push_back(std::move(*collective));
    }
    add_messages(run, i, exchanges);
  }
  const Streams streams(run, std::move(exchanges));
  for (const Exchange& exchange : streams.left()) {
    Wait wait = wait_in(run, exchange, [&](const Part& part) { return streams.is_behind(part); });
    if (!wait.waiters.empty() && !wait.awaited.empty() && !is_known(wait, waits)) {
      waits.push_back(std::move(wait));
    }
  }
}

}  // namespace traintrace
