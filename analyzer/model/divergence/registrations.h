// Windows (ncclCommWindowRegister) that not all members of a communicator register: they register
// one together, and each call returns when the last has come.
#pragma once

#include <vector>

#include "analyzer/model/run.h"

namespace traintrace {

struct Registration {
  Rank rank;
  size_t process = 0;
  uint64_t bytes = 0;
  uint64_t flags = 0;
  TimeNs since = 0;
  uint32_t stack = 0;
};

struct RegistrationMismatch {
  size_t communicator = 0;            // in Run::communicators
  std::vector<Registration> waiting;  // who is inside the call, by rank
  Ranks missing;                      // who is not, and is alive
  TimeNs waited = 0;
};

// Is a thread of it inside that call?
bool is_registering(const ProcessTrace& trace);

// Needs the events of those processes: the tables do not say which communicator.
std::vector<RegistrationMismatch> registration_mismatches(const Run& run);

bool is_of_one_size(const RegistrationMismatch& mismatch);

// Its roots are inside the call, or are those that others miss there.
bool is_registration_mismatch(const Run& run, const Hang& hang);

}  // namespace traintrace
