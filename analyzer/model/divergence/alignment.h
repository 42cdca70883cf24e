// What one member of a communicator did otherwise than another: the cheapest way to make one
// sequence of collectives from the other, with what repairs a fault of one line as the unit.
#pragma once

#include <cstdint>
#include <optional>

#include "analyzer/model/sequences.h"

namespace traintrace {

enum class EditKind : uint8_t {
  kChanged,  // another function, or other arguments
  kSkipped,  // `length` calls left out
  kExtra,    // `length` calls made that the other does not make
  kSwapped,  // this one and the one `length` behind it change places
};

struct Edit {
  EditKind kind = EditKind::kChanged;
  uint64_t number = 0;      // of the first item concerned, in the sequence of `normal`
  uint64_t own_number = 0;  // in that of `deviant`
  uint64_t number_last =
      0;  // a call among `number`..`number_last` is concerned: which, is not seen
  uint64_t length = 1;
  uint64_t matches = 0;  // items that agree behind it
  bool unique = true;    // no other edit explains what is known as well
};

struct Alignment {
  std::optional<Edit> first;  // the first difference; none: there is none
  uint64_t edits = 0;         // all of them
  int64_t shift = 0;          // by how much `deviant` is behind at the end of what is known
};

enum class Compared : uint8_t {
  kMembers,  // two ranks that issue the same calls
  kSides,    // the receives of one rank and the sends of another, of which either may be ahead
};

// Both agree up to the number before `from`.  Looks at most at as many items as a communicator
// keeps, from a little before `from` on.
Alignment align(const Sequence& deviant, const Sequence& normal, uint64_t from, Compared what);

}  // namespace traintrace
