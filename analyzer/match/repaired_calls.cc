#include "analyzer/match/repaired_calls.h"

#include <algorithm>
#include <vector>

namespace traintrace {
namespace {

// The calls of a rank, put right.
class Repair {
 public:
  Repair(const Run& run, const Program& own, const Program& twin, const Departure& departure)
      : run_(run), own_(own), twin_(twin), departure_(departure) {}

  bool apply(Queue& queue) {
    for (size_t i = departure_.at; i < own_.calls.size(); ++i) {
      queue.push_back(issued(own_, i));
    }
    return edit(queue);
  }

 private:
  bool edit(Queue& queue) {
    switch (departure_.edit.kind) {
      case CallEditKind::kChanged:
        return take_out(queue, 0, departure_.edit.block) && put_in(queue, 0, departure_.edit.block);
      case CallEditKind::kSkipped:
        return put_in(queue, 0, departure_.edit.length);
      case CallEditKind::kExtra:
        return take_out(queue, 0, departure_.edit.length);
      case CallEditKind::kSwapped:
        return swap(queue);
      case CallEditKind::kMoved:
        return move(queue);
      case CallEditKind::kEarly:
        return move_back(queue);
    }
    return false;
  }

  Issued issued(const Program& program, size_t at) const {
    const Call& call = program.calls[at];
    return {call.operation,       call.communicator,     call.operation->sequence,
            call.operation->peer, call.operation->group, program.state->process};
  }

  static void renumber(Queue& queue, size_t from, size_t communicator, int64_t by) {
    for (size_t i = from; i < queue.size(); ++i) {
      if (queue[i].operation->collective && queue[i].communicator == communicator) {
        queue[i].sequence += static_cast<uint64_t>(by);
      }
    }
  }

  // What a collective of that communicator is numbered that comes in there.
  uint64_t next_number(const Queue& queue, size_t from, size_t communicator) const {
    for (size_t i = from; i < queue.size(); ++i) {
      if (queue[i].operation->collective && queue[i].communicator == communicator) {
        return queue[i].sequence;
      }
    }
    for (size_t i = std::min(from, queue.size()); i > 0; --i) {
      if (queue[i - 1].operation->collective && queue[i - 1].communicator == communicator) {
        return queue[i - 1].sequence + 1;
      }
    }
    const auto known = own_.collectives.find(communicator);
    return known == own_.collectives.end()
               ? 0
               : own_.calls[known->second.back()].operation->sequence + 1;
  }

  static bool take_out(Queue& queue, size_t at, size_t length) {
    for (size_t i = 0; i < length && at < queue.size(); ++i) {
      const Issued gone = queue[at];
      queue.erase(queue.begin() + static_cast<ptrdiff_t>(at));
      if (gone.operation->collective) {
        renumber(queue, at, gone.communicator, -1);
      }
    }
    return true;
  }

  // What its twin called there, on its own communicators.  That may be less than what was left out:
  // the twin waits.
  bool put_in(Queue& queue, size_t at, size_t length) {
    length = std::min(length, twin_.calls.size() - departure_.twin_at);
    for (size_t i = 0; i < length; ++i) {
      Issued missing = issued(twin_, departure_.twin_at + i);
      const auto own = counterpart_of(run_, missing.communicator, twin_.rank, own_.rank);
      if (!own) {
        return false;
      }
      missing.communicator = *own;
      missing.group = 0;
      missing.added = true;
      if (missing.operation->collective) {
        missing.sequence = next_number(queue, at + i, *own);
        renumber(queue, at + i, *own, 1);
        if (missing.sequence == 0) {
          return false;
        }
      } else {
        missing.peer = peer_there(own_, *own, twin_.calls[departure_.twin_at + i]);
        if (at + i < queue.size() && !queue[at + i].operation->collective &&
            missing.operation->group != 0) {
          missing.group = queue[at + i].group;
        }
      }
      queue.insert(queue.begin() + static_cast<ptrdiff_t>(at + i), missing);
    }
    return true;
  }

  bool swap(Queue& queue) {
    const size_t width = departure_.edit.length;
    const size_t block = departure_.edit.block;
    if (width + block > queue.size()) {  // the other one is not issued yet
      return put_in(queue, 0, block);
    }
    const std::vector<Issued> later = cut(queue, width, block);
    const std::vector<Issued> sooner = cut(queue, 0, block);
    for (size_t i = 0; i < block; ++i) {
      move_in(queue, i, later[i]);
    }
    for (size_t i = 0; i < block; ++i) {
      move_in(queue, width + i, sooner[i]);
    }
    return true;
  }

  static std::vector<Issued> cut(Queue& queue, size_t at, size_t length) {
    const auto from = queue.begin() + static_cast<ptrdiff_t>(at);
    std::vector<Issued> calls(from, from + static_cast<ptrdiff_t>(length));
    take_out(queue, at, length);
    return calls;
  }

  bool move(Queue& queue) const {
    const size_t from = departure_.edit.length;
    if (from >= queue.size()) {
      return false;
    }
    const Issued later = queue[from];
    take_out(queue, from, 1);
    move_in(queue, 0, later);
    return true;
  }

  bool move_back(Queue& queue) const {
    const size_t to = departure_.edit.length;
    if (to >= queue.size()) {
      return false;
    }
    const Issued sooner = queue.front();
    take_out(queue, 0, 1);
    move_in(queue, to, sooner);
    return true;
  }

  void move_in(Queue& queue, size_t at, Issued issued) const {
    if (issued.operation->collective) {
      issued.sequence = next_number(queue, at, issued.communicator);
      renumber(queue, at, issued.communicator, 1);
    }
    queue.insert(queue.begin() + static_cast<ptrdiff_t>(at), issued);
  }

  const Run& run_;
  const Program& own_;
  const Program& twin_;
  const Departure& departure_;
};

}  // namespace

std::optional<Queue> repaired_calls(const Run& run, const std::vector<Program>& programs,
                                    const Departure& departure) {
  Queue queue;
  Repair repair(run, *program_of(programs, departure.rank), *program_of(programs, departure.twin),
                departure);
  return repair.apply(queue) ? std::optional(std::move(queue)) : std::nullopt;
}

}  // namespace traintrace
