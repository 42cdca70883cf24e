// Calls skipped or made in excess among equal ones, which only the lines that called can tell.
#pragma once

#include <vector>

#include "analyzer/model/sequences.h"

namespace traintrace {

struct SiteShift {
  const Sequence* deviant = nullptr;
  const Sequence* normal = nullptr;
  Ranks others;        // that did as `normal`
  bool extra = false;  // else skipped
  uint64_t length = 1;
  uint64_t number = 0;  // the first of the calls concerned lies here..
  uint64_t number_last = 0;
  uint64_t matches = 0;
};

// Of members that have issued fewer or more collectives than most, where most issued equally many
// from the same lines: those whose calls came from the lines of the others' as many further on, or
// back, to the end of what is known, and before that from the same ones.
std::vector<SiteShift> find_site_shifts(const std::vector<Sequence>& sequences);

// Where arguments differ first, calls made in excess or left out may lie further back: those had
// the same arguments as what the others called at their places, as when parameters are gathered
// once more, but came from lines of their own.  If all that is known after them agrees with the
// others' calls as many back, or further on, `found` becomes that.
void take_for_site_shift(MemberSequences& sequences, Divergence& found);

}  // namespace traintrace
