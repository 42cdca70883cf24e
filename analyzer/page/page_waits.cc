// Who waits for whom, ranks in the same state as one.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "analyzer/page/page_data.h"

namespace traintrace {
namespace {

constexpr size_t kMostNodes = 64;
constexpr size_t kMostEdges = 200;

// In which waits a rank waits, and in which it is waited for.
using Signature = std::pair<std::set<size_t>, std::set<size_t>>;

std::map<Rank, Signature> signatures(const Run& run) {
  std::map<Rank, Signature> all;
  for (size_t i = 0; i < run.waits.waits.size(); ++i) {
    for (const Waiter& waiter : run.waits.waits[i].waiters) {
      all[waiter.rank].first.insert(i);
    }
    for (const Awaited& awaited : run.waits.waits[i].awaited) {
      all[awaited.rank].second.insert(i);
    }
  }
  return all;
}

std::string place_in(const Run& run, const Wait& wait, Rank rank) {
  for (const Waiter& waiter : wait.waiters) {
    if (waiter.rank == rank) {
      return page_place(run.processes[waiter.process], rank, waiter.stack);
    }
  }
  return "";
}

std::string wait_name(const Run& run, const Wait& wait) {
  const std::string& name = run.communicators[wait.communicator].name;
  return wait.sequence == 0 ? fmt::format("{} on {}", wait.operation, name)
                            : fmt::format("{} {} #{}", wait.operation, name, wait.sequence);
}

}  // namespace

PageJson page_waits(const Run& run, const Finding* leading) {
  std::map<Signature, Ranks> groups;
  for (const auto& [rank, signature] : signatures(run)) {
    insert(groups[signature], rank);
  }
  PageJson json = {{"nodes", PageJson::array()}, {"edges", PageJson::array()}};
  for (const auto& [signature, ranks] : groups) {
    if (json["nodes"].size() < kMostNodes) {
      json["nodes"].push_back(
          {{"ranks", page_json(ranks)},
           {"title", rank_title(ranks)},
           {"culprit", leading != nullptr && contains(leading->culprits, ranks.front())},
           {"waits", !signature.first.empty()}});
    }
  }
  size_t from = 0;
  for (const auto& [waiting, ranks] : groups) {
    size_t to = 0;
    for (const auto& [awaited, others] : groups) {
      for (const size_t i : waiting.first) {
        if (awaited.second.contains(i) && from < kMostNodes && to < kMostNodes &&
            json["edges"].size() < kMostEdges) {
          const Wait& wait = run.waits.waits[i];
          json["edges"].push_back(
              {{"from", from},
               {"to", to},
               {"text", wait_name(run, wait)},
               {"message", wait.kind == WaitKind::kReceive || wait.kind == WaitKind::kSend},
               {"place", place_in(run, wait, ranks.front())}});
        }
      }
      ++to;
    }
    ++from;
  }
  return json;
}

}  // namespace traintrace
