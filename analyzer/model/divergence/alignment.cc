#include "analyzer/model/divergence/alignment.h"
#include "analyzer/thresholds.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

namespace traintrace {
namespace {

constexpr int kNever = std::numeric_limits<int>::max() / 2;
constexpr size_t kMostItems = 128;
constexpr size_t kWidestSwap = 8;

using Items = std::span<const SequenceItem>;

enum class State : uint8_t { kPaired, kInSkip, kInExtra };
enum class Step : uint8_t { kNone, kPair, kSwap, kSkip, kExtra };

struct Cell {
  int cost = kNever;
  Step step = Step::kNone;
  uint8_t width = 0;  // of a swap
  State from = State::kPaired;
};

bool other_site(const SequenceItem& a, const SequenceItem& b) {
  return a.site != 0 && b.site != 0 && a.site != b.site;
}

int pair_cost(const SequenceItem& a, const SequenceItem& b, bool telling) {
  if (a.key == b.key) {
    return other_site(a, b) ? kOtherSite : 0;
  }
  const bool same_site = telling && a.site != 0 && a.site == b.site;
  if (!is_same_function(a, b)) {
    return kOtherFunction + (same_site ? kSameSite : 0);
  }
  return kOtherArguments + (same_site ? kSameSite : other_site(a, b) ? kOtherSite : 0);
}

// How often each size occurs on the two sides of messages, as far as they are kept.
class UsualSizes {
 public:
  UsualSizes(Items a, Items b) {
    for (const SequenceItem& item : a) {
      ++times_[item.key].in_a;
    }
    for (const SequenceItem& item : b) {
      ++times_[item.key].in_b;
    }
  }

  // The other side never has such a message, and what it has in its place comes again and again on
  // both: it can hardly have left this one out.
  bool is_foreign(const SequenceItem& lone, const SequenceItem& instead) const {
    const Times& own = times_.at(lone.key);
    const Times& usual = times_.at(instead.key);
    return std::min(own.in_a, own.in_b) == 0 && std::min(usual.in_a, usual.in_b) >= kHabitTimes;
  }

 private:
  struct Times {
    size_t in_a = 0;
    size_t in_b = 0;
  };
  std::unordered_map<uint64_t, Times> times_;  // by key
};

class Table {
 public:
  // `shifted_before`: what it costs that one of them is ahead where both begin; none: it is not.
  // `sizes`: of the sides of messages; null: these are no sides.
  Table(Items a, Items b, std::optional<int> shifted_before, const UsualSizes* sizes)
      : a_(a), b_(b), sizes_(sizes), cells_(3 * (a.size() + 1) * width()) {
    at(State::kPaired, 0, 0).cost = 0;
    for (size_t i = 1; shifted_before && i <= a_.size(); ++i) {
      at(State::kPaired, i, 0).cost = *shifted_before + static_cast<int>(i);
    }
    for (size_t j = 1; shifted_before && j <= b_.size(); ++j) {
      at(State::kPaired, 0, j).cost = *shifted_before + static_cast<int>(j);
    }
    for (size_t i = 0; i <= a_.size(); ++i) {
      for (size_t j = 0; j <= b_.size(); ++j) {
        leave(i, j);
      }
    }
  }

  const Cell& at(State state, size_t i, size_t j) const { return cells_[index(state, i, j)]; }

  // One of them has ended, and what the other does behind that is no difference.
  std::pair<size_t, size_t> best_end() const {
    std::pair<size_t, size_t> best(a_.size(), b_.size());
    const auto cost_at = [&](size_t i, size_t j) {
      const auto left = sizes_ != nullptr ? 0 : static_cast<int>(a_.size() - i + b_.size() - j);
      return at(State::kPaired, i, j).cost +
             (left == 0 ? 0 : std::min(kEndsFar, kEndsElsewhere + kEndsFurther * left));
    };
    const auto consider = [&](size_t i, size_t j) {
      const int cost = cost_at(i, j);
      const int best_cost = cost_at(best.first, best.second);
      if (cost < best_cost || (cost == best_cost && i + j > best.first + best.second)) {
        best = {i, j};
      }
    };
    for (size_t j = b_.size(); j-- > 0;) {
      consider(a_.size(), j);
    }
    for (size_t i = a_.size(); i-- > 0;) {
      consider(i, b_.size());
    }
    return best;
  }

 private:
  size_t width() const { return b_.size() + 1; }
  size_t index(State state, size_t i, size_t j) const {
    return (static_cast<size_t>(state) * (a_.size() + 1) + i) * width() + j;
  }
  Cell& at(State state, size_t i, size_t j) { return cells_[index(state, i, j)]; }

  void reach(State state, size_t i, size_t j, const Cell& by) {
    Cell& cell = at(state, i, j);
    if (by.cost < cell.cost) {
      cell = by;
    }
  }

  // The pair before has the same two calls: that is one fault.
  bool is_same_change(size_t i, size_t j) const {
    return sizes_ != nullptr && at(State::kPaired, i, j).step == Step::kPair &&
           a_[i].key != b_[j].key && a_[i - 1].key == a_[i].key && b_[j - 1].key == b_[j].key;
  }

  int gap_cost(State state, const SequenceItem& lone, const SequenceItem& instead) const {
    const bool foreign = sizes_ != nullptr && sizes_->is_foreign(lone, instead);
    return state != State::kPaired ? kGapLonger : kGap + (foreign ? kGapForeign : 0);
  }

  // Where one can go from there.
  void leave(size_t i, size_t j) {
    const bool both = i < a_.size() && j < b_.size();
    // Where all is called from one line, that says nothing.
    const bool telling = both && j + 1 < b_.size() && b_[j].site != b_[j + 1].site;
    for (const State state : {State::kPaired, State::kInSkip, State::kInExtra}) {
      const int cost = at(state, i, j).cost;
      if (cost >= kNever || !both) {
        continue;
      }
      if (state == State::kPaired || a_[i].key == b_[j].key) {
        const int step = state == State::kPaired && is_same_change(i, j)
                             ? kSameChange
                             : pair_cost(a_[i], b_[j], telling);
        reach(State::kPaired, i + 1, j + 1, {cost + step, Step::kPair, 0, state});
      }
      if (state != State::kInExtra) {
        reach(State::kInSkip, i, j + 1,
              {cost + gap_cost(state, b_[j], a_[i]), Step::kSkip, 0, state});
      }
      if (state != State::kInSkip) {
        reach(State::kInExtra, i + 1, j,
              {cost + gap_cost(state, a_[i], b_[j]), Step::kExtra, 0, state});
      }
    }
    if (both && at(State::kPaired, i, j).cost < kNever && a_[i].key != b_[j].key) {
      leave_by_swap(i, j);
    }
  }

  void leave_by_swap(size_t i, size_t j) {
    const size_t widest = std::min({kWidestSwap, a_.size() - i - 1, b_.size() - j - 1});
    int between = 0;
    for (size_t width = 1; width <= widest; ++width) {
      const SequenceItem& a = a_[i + width];
      const SequenceItem& b = b_[j + width];
      if (a_[i].key == b.key && a.key == b_[j].key) {
        const int sites = (other_site(a_[i], b) ? kOtherSite : 0) +
                          (other_site(a, b_[j]) ? kOtherSite : 0) + between;
        const int cost = kSwap + kSwapWider * static_cast<int>(width - 1) + sites;
        reach(State::kPaired, i + width + 1, j + width + 1,
              {at(State::kPaired, i, j).cost + cost, Step::kSwap, static_cast<uint8_t>(width),
               State::kPaired});
      }
      if (a.key != b.key) {
        return;
      }
      between += other_site(a, b) ? kOtherSite : 0;
    }
  }

  Items a_;
  Items b_;
  const UsualSizes* sizes_;
  std::vector<Cell> cells_;
};

struct Place {
  size_t i = 0;
  size_t j = 0;
  Step step = Step::kNone;
  size_t width = 0;
};

// The steps from the start to the best end, as the places where each began.
std::vector<Place> path_of(const Table& table, Place& start) {
  std::vector<Place> path;
  auto [i, j] = table.best_end();
  State state = State::kPaired;
  for (;;) {
    const Cell& cell = table.at(state, i, j);
    if (cell.step == Step::kNone) {
      break;
    }
    state = cell.from;
    const size_t width = cell.width;
    i -= cell.step == Step::kSkip ? 0 : width + 1;
    j -= cell.step == Step::kExtra ? 0 : width + 1;
    path.push_back({i, j, cell.step, width});
  }
  start = {i, j};
  std::reverse(path.begin(), path.end());
  return path;
}

// By how much a gap fits the lines worse if one more call lies on its other side: `own` is then
// paired with `instead`; none: it cannot lie there.
std::optional<int> cost_to_move(const SequenceItem& own, const SequenceItem& paired,
                                const SequenceItem& instead) {
  if (own.key != paired.key || instead.key != paired.key) {
    return std::nullopt;
  }
  return (other_site(own, instead) ? kOtherSite : 0) - (other_site(own, paired) ? kOtherSite : 0);
}

// A gap of equal items may as well lie elsewhere, or better: only lines can tell.
void place_gap(Items paired, Items gapped, size_t at_paired, size_t at_gap, Edit& edit) {
  const size_t length = edit.length;
  int64_t first = 0;  // against where it is
  int64_t last = 0;
  int best = 0;
  const auto consider = [&](int64_t offset, int cost) {
    if (cost < best) {
      first = last = offset;
      best = cost;
    } else if (cost == best) {
      first = std::min(first, offset);
      last = std::max(last, offset);
    }
  };
  int cost = 0;
  for (size_t back = 1; back <= std::min(at_paired, at_gap); ++back) {
    const auto more = cost_to_move(paired[at_paired - back], gapped[at_gap - back],
                                   gapped[at_gap - back + length]);
    if (!more) {
      break;
    }
    consider(-static_cast<int64_t>(back), cost += *more);
  }
  cost = 0;
  for (size_t i = 0; at_paired + i < paired.size() && at_gap + i + length < gapped.size(); ++i) {
    const auto more =
        cost_to_move(paired[at_paired + i], gapped[at_gap + i + length], gapped[at_gap + i]);
    if (!more) {
      break;
    }
    consider(static_cast<int64_t>(i) + 1, cost += *more);
  }
  edit.number = static_cast<uint64_t>(static_cast<int64_t>(edit.number) + first);
  edit.own_number = static_cast<uint64_t>(static_cast<int64_t>(edit.own_number) + first);
  edit.number_last = edit.number + static_cast<uint64_t>(last - first) + length - 1;
}

struct Windows {
  Items deviant;
  Items normal;
  uint64_t begin = 0;    // number of their first items
  size_t differing = 0;  // before that item they agree
};

bool is_difference(const Windows& windows, const Place& place) {
  return place.step != Step::kPair || windows.deviant[place.i].key != windows.normal[place.j].key;
}

Edit edit_at(const Windows& windows, std::span<const Place> path, size_t at) {
  const Place& place = path[at];
  Edit edit;
  edit.number = edit.number_last = windows.begin + place.j;
  edit.own_number = windows.begin + place.i;
  size_t behind = at + 1;
  if (place.step == Step::kSwap) {
    edit.kind = EditKind::kSwapped;
    edit.length = place.width;
  } else if (place.step != Step::kPair) {
    edit.kind = place.step == Step::kSkip ? EditKind::kSkipped : EditKind::kExtra;
    while (behind < path.size() && path[behind].step == place.step) {
      ++behind;
    }
    edit.length = behind - at;
    if (place.step == Step::kSkip) {
      place_gap(windows.deviant, windows.normal, place.i, place.j, edit);
    } else {
      place_gap(windows.normal, windows.deviant, place.j, place.i, edit);
    }
  }
  for (; behind < path.size() && !is_difference(windows, path[behind]); ++behind) {
    ++edit.matches;
  }
  return edit;
}

// Where nothing is known of the place where they began to differ.
Edit edit_before(const Windows& windows, uint64_t from, const Place& start,
                 std::span<const Place> path) {
  Edit edit;
  edit.number = edit.own_number = from;
  edit.number_last = windows.begin == 0 ? from : windows.begin - 1;
  edit.unique = false;
  if (start.i != start.j) {
    edit.kind = start.j > start.i ? EditKind::kSkipped : EditKind::kExtra;
    edit.length = std::max(start.i, start.j) - std::min(start.i, start.j);
  }
  for (const Place& place : path) {
    edit.matches += is_difference(windows, place) ? 0 : 1;
  }
  return edit;
}

Windows windows_of(const Sequence& deviant, const Sequence& normal, uint64_t from) {
  Windows windows;
  constexpr uint64_t kBack = kMostItems / 2;
  windows.begin = std::max({deviant.first, normal.first, from > kBack ? from - kBack : 1});
  const auto cut = [&](const Sequence& sequence) {
    const size_t skip = std::min<uint64_t>(windows.begin - sequence.first, sequence.items.size());
    const size_t left = std::min(sequence.items.size() - skip, kMostItems);
    return Items(sequence.items).subspan(skip, left);
  };
  windows.deviant = cut(deviant);
  windows.normal = cut(normal);
  const size_t shorter = std::min(windows.deviant.size(), windows.normal.size());
  windows.differing = from < windows.begin ? 0 : std::min<size_t>(from - windows.begin, shorter);
  return windows;
}

}  // namespace

Alignment align(const Sequence& deviant, const Sequence& normal, uint64_t from, Compared what) {
  const Windows windows = windows_of(deviant, normal, from);
  const bool open_start = windows.begin > from;
  // Hashes say that they differ somewhere before; without them a call left out there is a fault
  // like any other, and no cheaper.
  const int shifted = deviant.hashes.empty() ? kGap : kBeforeKnown;
  const UsualSizes sizes(deviant.items, normal.items);
  const Table table(windows.deviant.subspan(windows.differing),
                    windows.normal.subspan(windows.differing),
                    open_start ? std::optional(shifted) : std::nullopt,
                    what == Compared::kSides ? &sizes : nullptr);
  Place start;
  std::vector<Place> path = path_of(table, start);
  for (Place& place : path) {
    place.i += windows.differing;
    place.j += windows.differing;
  }
  Alignment alignment;
  alignment.shift = static_cast<int64_t>(start.j) - static_cast<int64_t>(start.i);
  if (open_start && (!deviant.hashes.empty() || start.i != start.j)) {
    alignment.first = edit_before(windows, from, start, path);
    alignment.edits = 1;
  }
  for (size_t at = 0; at < path.size(); ++at) {
    const Step step = path[at].step;
    alignment.shift += step == Step::kSkip ? 1 : step == Step::kExtra ? -1 : 0;
    const bool goes_on =
        at > 0 && step != Step::kPair && step != Step::kSwap && path[at - 1].step == step;
    if (goes_on || !is_difference(windows, path[at])) {
      continue;
    }
    ++alignment.edits;
    alignment.first = alignment.first ? alignment.first : edit_at(windows, path, at);
  }
  return alignment;
}

}  // namespace traintrace
