#include "analyzer/match/habit_edits.h"

#include <algorithm>
#include <optional>

#include "analyzer/match/foreseen.h"
#include "analyzer/model/process/activity.h"
#include "analyzer/thresholds.h"

namespace traintrace {
namespace {

// `own` went on with its next step: all that `expected` has up to there is left out.  None: it did
// not, or went on otherwise than before.
std::optional<CallEdit> rest_of_step(const Program& own, size_t own_at, const Program& expected,
                                     size_t at) {
  const auto begin = expected.calls.begin() + static_cast<ptrdiff_t>(at);
  const auto next = std::find_if(begin, expected.calls.end(), [&](const Call& call) {
    return call.key == own.calls[own_at].key;
  });
  CallEdit edit;
  edit.kind = CallEditKind::kSkipped;
  edit.length = static_cast<size_t>(next - begin);
  auto other = next;
  for (size_t i = own_at; i < own.calls.size(); ++i, ++other, ++edit.matches) {
    if (other == expected.calls.end() || other->key != own.calls[i].key) {
      return std::nullopt;
    }
  }
  edit.rest_of_step = edit.length > 1;
  edit.foreseen = true;
  return edit;
}

// It has made both calls.
bool is_other_order(const CallEdit& edit, const Program& own, size_t own_at) {
  return is_other_place(edit.kind) && own_at + edit.length < own.calls.size();
}

}  // namespace

CallEdit edit_by_habit(const Run& run, const Program& own, size_t own_at, const Program& normal,
                       size_t normal_at) {
  const CallEdit seen = cheapest_edit(own, own_at, normal, normal_at);
  Program expected;
  expected.calls = foreseen(normal, own.calls.size() - own_at + kForeseenFurther);
  auto rest = rest_of_step(own, own_at, expected, normal_at);
  if (rest && rest->matches > seen.matches && begins_step(trace_of(run, *own.state), own, own_at)) {
    rest->unique = seen.unique && seen.matches > 0;
    return *rest;
  }
  CallEdit edit = cheapest_edit(own, own_at, expected, normal_at);
  edit.foreseen = true;
  edit.unique = seen.unique && seen.matches > 0;
  const bool tells_more = seen.matches == 0 || is_other_order(edit, own, own_at);
  return tells_more && edit.matches > seen.matches ? edit : seen;
}

}  // namespace traintrace
