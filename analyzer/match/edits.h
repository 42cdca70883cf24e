// What a rank called otherwise than another that runs the same program: the cheapest edit of its
// calls after which they agree as far as both are known.
#pragma once

#include <cstddef>
#include <cstdint>

#include "analyzer/match/program.h"

namespace traintrace {

enum class CallEditKind : uint8_t {
  kChanged,  // others in the place of `block` calls: other arguments, another peer or communicator
  kSkipped,  // `length` calls left out
  kExtra,    // `length` calls more
  kSwapped,  // `block` calls, and as many that come `length` after them, have changed places
  kMoved,    // the one `length` after it belongs here, before all those
  kEarly,    // the one here belongs after the next `length`
};

struct CallEdit {
  CallEditKind kind = CallEditKind::kChanged;
  size_t length = 1;
  size_t block = 1;           // calls issued as one group count as one
  size_t matches = 0;         // calls that agree after it
  bool unique = false;        // no other edit explains what is known as well
  bool rest_of_step = false;  // kSkipped: it went on with the first call of its next step
  bool foreseen = false;      // it agrees with what the others did next in earlier steps
};

constexpr bool is_other_place(CallEditKind kind) {
  return kind == CallEditKind::kSwapped || kind == CallEditKind::kMoved ||
         kind == CallEditKind::kEarly;
}

// The programs agree before `own_at` and `normal_at`, and differ there.
CallEdit cheapest_edit(const Program& own, size_t own_at, const Program& normal, size_t normal_at);

}  // namespace traintrace
