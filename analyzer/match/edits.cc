#include "analyzer/match/edits.h"

#include <algorithm>
#include <tuple>

namespace traintrace {
namespace {

// A fault is one line that ran once too often, not at all, or in another place.  Or it is a turn of
// a loop that was left out, as a micro-batch, which calls a hundred collectives.  A turn too many
// looks like the next step of a rank that left something out in this one.
constexpr size_t kMostSkipped = 128;
constexpr size_t kMostExtra = 8;
constexpr size_t kWidestSwap = 80;

class Comparer {
 public:
  Comparer(const Program& own, size_t own_at, const Program& normal, size_t normal_at)
      : own_(own.calls), normal_(normal.calls), a_(own_at), b_(normal_at) {}

  CallEdit cheapest() {
    // In the order in which they are preferred: a call in the place of another is the smallest
    // fault, then one that lacks; of two that change places both are there to be seen.
    consider(CallEditKind::kChanged, 1, run_of(a_ + 1, b_ + 1));
    const size_t block = std::max(group_at(own_, a_), group_at(normal_, b_));
    const bool grouped =
        block > 1 && may_be_group(own_, a_, block) && may_be_group(normal_, b_, block);
    if (grouped) {
      consider(CallEditKind::kChanged, 1, run_of(a_ + block, b_ + block), block);
    }
    for (size_t length = 1; length <= kMostSkipped; ++length) {
      if (is_same(a_, b_ + length)) {
        consider(CallEditKind::kSkipped, length, run_of(a_, b_ + length));
      } else if (is_from_other_line(a_, b_ + length)) {
        consider(CallEditKind::kSkipped, length, run_of(a_ + 1, b_ + length + 1));
      }
      if (length <= kMostExtra && is_same(a_ + length, b_)) {
        consider(CallEditKind::kExtra, length, run_of(a_ + length, b_));
      }
    }
    for (size_t width = 1; width <= kWidestSwap; ++width) {
      consider_swap(width, 1);
      if (grouped && width >= block) {
        consider_swap(width, block);
      }
      consider_move(width);
      consider_early(width);
    }
    best_.unique = !tied_;
    return best_;
  }

 private:
  struct Agreement {
    size_t calls = 0;
    bool to_the_end = false;  // of what is known of one of them
  };

  bool is_same(size_t a, size_t b) const {
    return a < own_.size() && b < normal_.size() && own_[a].key == normal_[b].key;
  }

  // As in a branch that has a call of its own for the one after what it leaves out.
  bool is_from_other_line(size_t a, size_t b) const {
    return a < own_.size() && b < normal_.size() && own_[a].key != normal_[b].key &&
           own_[a].without_line == normal_[b].without_line;
  }

  Agreement run_of(size_t a, size_t b) const {
    Agreement agreement;
    while (is_same(a, b)) {
      ++a;
      ++b;
      ++agreement.calls;
    }
    agreement.to_the_end = a >= own_.size() || b >= normal_.size();
    return agreement;
  }

  // How many calls from there on were issued as one.
  static size_t group_at(const std::vector<Call>& calls, size_t at) {
    size_t length = 1;
    while (at + length < calls.size() && calls[at].operation->group != 0 &&
           calls[at + length].operation->group == calls[at].operation->group) {
      ++length;
    }
    return length;
  }

  // Whether as many were issued as one there.  Event records do not say: those called in a row from
  // one line of code may have been.
  static bool may_be_group(const std::vector<Call>& calls, size_t at, size_t block) {
    const OperationText& first = *calls[at].operation;
    if (first.group != 0 || at + block > calls.size()) {
      return group_at(calls, at) == block;
    }
    const auto begin = calls.begin() + static_cast<ptrdiff_t>(at);
    return std::all_of(begin, begin + static_cast<ptrdiff_t>(block), [&](const Call& call) {
      return call.communicator == calls[at].communicator && call.operation->group == 0 &&
             call.operation->collective == first.collective && call.operation->stack == first.stack;
    });
  }

  bool are_same(size_t a, size_t b, size_t block) const {
    for (size_t i = 0; i < block; ++i) {
      if (!is_same(a + i, b + i)) {
        return false;
      }
    }
    return true;
  }

  // A branch has calls of its own for both, in the other order: a call in excess, or one with other
  // arguments, is one call from a line of its own.
  bool are_in_a_branch(size_t width) const {
    return is_from_other_line(a_, b_ + width) && is_from_other_line(a_ + width, b_);
  }

  // The first comes where the second belongs; the second must not be seen to be elsewhere.
  void consider_swap(size_t width, size_t block) {
    const bool in_a_branch = block == 1 && are_in_a_branch(width);
    if (!in_a_branch && !are_same(a_, b_ + width, block)) {
      return;
    }
    size_t between = block;
    while (between < width && is_same(a_ + between, b_ + between)) {
      ++between;
    }
    if (between < width && a_ + between < own_.size() && b_ + between < normal_.size()) {
      return;
    }
    if (!in_a_branch && a_ + width < own_.size() && !are_same(a_ + width, b_, block)) {
      return;
    }
    Agreement agreement = run_of(a_ + width + block, b_ + width + block);
    agreement.calls += between + (a_ + width < own_.size() ? block : 0);
    consider(CallEditKind::kSwapped, width, agreement, block);
  }

  // What belongs here comes after `width` others, which are as they should be.  Of one it is a
  // swap.
  void consider_move(size_t width) {
    if (width < 2 || !is_same(a_ + width, b_)) {
      return;
    }
    for (size_t i = 0; i < width; ++i) {
      if (!is_same(a_ + i, b_ + 1 + i)) {
        return;
      }
    }
    Agreement agreement = run_of(a_ + width + 1, b_ + width + 1);
    agreement.calls += width + 1;
    consider(CallEditKind::kMoved, width, agreement);
  }

  // What it called here belongs after the `width` next ones, which are as they should be, and what
  // follows is too: else it may be one in excess.  Of one it is a swap.
  void consider_early(size_t width) {
    if (width < 2 || !is_same(a_, b_ + width)) {
      return;
    }
    for (size_t i = 0; i < width; ++i) {
      if (!is_same(a_ + 1 + i, b_ + i)) {
        return;
      }
    }
    Agreement agreement = run_of(a_ + width + 1, b_ + width + 1);
    if (agreement.calls > 0) {
      agreement.calls += width + 1;
      consider(CallEditKind::kEarly, width, agreement);
    }
  }

  // In a program that repeats itself after n calls, one that lacks looks like n - 1 more up to
  // where the other's calls end: each of these has to explain another call.
  static size_t further_calls(CallEditKind kind, size_t length) {
    return kind == CallEditKind::kSkipped || kind == CallEditKind::kExtra ? length - 1 : 0;
  }

  void consider(CallEditKind kind, size_t length, const Agreement& agreement, size_t block = 1) {
    const size_t further = further_calls(kind, length);
    const std::tuple weight(agreement.to_the_end,
                            agreement.calls - std::min(further, agreement.calls));
    if (weight > best_weight_) {
      best_weight_ = weight;
      best_ = {kind, length, block, agreement.calls, false};
      tied_ = false;
    } else if (weight == best_weight_) {
      tied_ = tied_ || further <= further_calls(best_.kind, best_.length);
    }
  }

  const std::vector<Call>& own_;
  const std::vector<Call>& normal_;
  size_t a_;
  size_t b_;
  CallEdit best_;
  std::tuple<bool, size_t> best_weight_ = {false, 0};
  bool tied_ = true;
};

}  // namespace

CallEdit cheapest_edit(const Program& own, size_t own_at, const Program& normal, size_t normal_at) {
  return Comparer(own, own_at, normal, normal_at).cheapest();
}

}  // namespace traintrace
