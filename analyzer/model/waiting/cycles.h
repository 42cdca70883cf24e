// Ranks that wait for each other (Fate::kCycle).
#pragma once

#include <optional>
#include <vector>

#include "analyzer/model/run.h"

namespace traintrace {

// Why those in the cycle do not come to where they are waited for.
enum class Order : uint8_t {
  kCertain,  // their hosts are inside calls that wait, or their part lies on a stream behind one
             // that cannot finish
  kPolled,   // their hosts ask again and again whether the GPU is done
  kThread,  // a further thread, that has gone there before, is in no call but has long done nothing
  kCalled,  // they called it behind what does not end; nothing is known of streams
  kNone,    // nothing that was seen keeps one of them from going there
};
Order order_of(const Run& run, const Hang& cycle);

// Is that wait between ranks of the cycle?
bool is_part(const Wait& wait, const Ranks& cycle);

// All of it are sends and receives.
bool is_of_peers(const Run& run, const Hang& cycle);
bool is_of_receives(const Run& run, const Hang& cycle);

// Whatever they wait for has been called; its order is what keeps it from beginning.
bool is_all_called(const std::vector<Wait>& waits, const Hang& cycle);

// Nobody in it would wait in a cycle if that rank went on.
bool frees_all(const Run& run, const Hang& cycle, Rank rank);
// The only rank of which that is true; none: no rank, or each of several.
std::optional<Rank> repair_of(const Run& run, const Hang& cycle);

// Those that the others of the cycle, who are more, wait for in the creation of communicators, and
// that wait elsewhere themselves; empty: it is another cycle.
Ranks missing_from_creation(const Run& run, const Hang& cycle);

// One communicator: some are in a collective, others in sends and receives.
bool is_against_collective(const Run& run, const Hang& cycle);

// All are inside their first operation of a communicator, or pair: that waits on the host for the
// others to connect.
bool is_first_use(const Run& run, const Hang& cycle);

}  // namespace traintrace
