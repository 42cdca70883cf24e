// Jobs with one fault each, written as text (docs/dump.md), and what must be said about them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "analyzer/model/ids.h"

namespace traintrace {

struct FamilyCase {
  std::string family;
  std::string name;
  std::string text;
  std::string code;  // empty: nothing at warning or above
  Ranks culprits;
  uint64_t sequence = 0;
};

std::vector<FamilyCase> all_families();       // of collectives on one communicator
std::vector<FamilyCase> message_families();   // sends, receives, groups
std::vector<FamilyCase> grid_families();      // orders on layouts of several communicators
std::vector<FamilyCase> creation_families();  // how communicators begin and end

}  // namespace traintrace
