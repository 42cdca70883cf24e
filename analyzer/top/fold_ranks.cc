#include <algorithm>
#include <map>
#include <tuple>

#include "analyzer/top/job_view.h"

namespace traintrace {
namespace {

constexpr const char* kEndedWell = "exited with status 0";

// What is urgent first: a rank that is gone, then those that stand still.
int urgency(const RankView& rank) {
  switch (rank.state) {
    case LiveState::kEnded:
      return rank.doing == kEndedWell ? 6 : 0;
    case LiveState::kStopped:
      return 1;
    case LiveState::kSilent:
      return 2;
    case LiveState::kOnHost:
      return 3;
    case LiveState::kBlocked:
      return 4;
    case LiveState::kMoving:
      return 5;
  }
  return 5;
}

int64_t weight(const RankView& rank, TopOrder order) {
  switch (order) {
    case TopOrder::kRank:
      return 0;
    case TopOrder::kLag:
      return rank.lag_ns.value_or(0);
    case TopOrder::kMemory:
      return static_cast<int64_t>(std::max(rank.allocated, rank.reserved));
    case TopOrder::kGrowth:
      return rank.growth;
  }
  return 0;
}

}  // namespace

void fold_ranks(JobView& view, TopOrder order) {
  using Key = std::tuple<LiveState, std::string, std::string, std::string, uint64_t, size_t>;
  std::map<Key, RowView> rows;
  for (size_t i = 0; i < view.ranks.size(); ++i) {
    const RankView& rank = view.ranks[i];
    const bool moves = rank.state == LiveState::kMoving;
    const bool alone = rank.is_slow;
    const bool ended_well = rank.state == LiveState::kEnded && rank.doing == kEndedWell;
    RowView& row = rows[moves || ended_well
                            ? Key{rank.state, moves ? "" : rank.doing, "", "", 0, alone ? i + 1 : 0}
                            : Key{rank.state, rank.doing, rank.communicator, rank.collective,
                                  rank.sequence, 0}];
    row.members.push_back(i);
    for (const Rank one : rank.ranks) {
      row.ranks.push_back(one);
    }
  }
  const auto before = [&](size_t a, size_t b) {
    const int64_t first = weight(view.ranks[a], order);
    const int64_t second = weight(view.ranks[b], order);
    return first != second ? first > second : view.ranks[a].ranks < view.ranks[b].ranks;
  };
  view.rows.clear();
  for (auto& [key, row] : rows) {
    std::sort(row.members.begin(), row.members.end(), before);
    std::sort(row.ranks.begin(), row.ranks.end());
    view.rows.push_back(std::move(row));
  }
  std::sort(view.rows.begin(), view.rows.end(), [&](const RowView& a, const RowView& b) {
    const RankView& first = view.ranks[a.members.front()];
    const RankView& second = view.ranks[b.members.front()];
    // By lag: who stands still first, of those the odd ones out, then who is slow.  Any other order
    // is that of its figures alone.
    const auto key = [&](const RankView& rank, const RowView& row) {
      const int64_t figure = -weight(rank, order);
      const int64_t within =
          rank.state == LiveState::kMoving ? figure : static_cast<int64_t>(row.ranks.size());
      return order == TopOrder::kRank ? std::tuple(int64_t{0}, 0, int64_t{0})
             : order == TopOrder::kLag
                 ? std::tuple(int64_t{urgency(rank)}, rank.is_slow ? 0 : 1, within)
                 : std::tuple(figure, 0, int64_t{0});
    };
    return key(first, a) != key(second, b) ? key(first, a) < key(second, b)
                                           : first.ranks < second.ranks;
  });
}

}  // namespace traintrace
