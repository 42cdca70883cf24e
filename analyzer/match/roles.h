// Which ranks may be compared: those of one role run the same program.
#pragma once

#include <cstdint>
#include <map>
#include <set>

#include "analyzer/model/run.h"

namespace traintrace {

using Roles = std::map<Rank, uint64_t>;

// Which of its process's communicators it is, in the order in which it created them.  Our own
// traces list them in that order.
uint32_t ordinal_of(const ProcessTrace& trace, size_t element);

// Made for a message between two ranks, as frameworks do, of a rank that has long exchanged others,
// and not one has been done on it: it may be the call of a wrong peer that made it.
bool is_fresh_pair(const ProcessTrace& trace, const CommunicatorText& text);

// The groups that carry messages anywhere, by how their processes count them.  All-to-alls, in
// which all members do the same, are none.
std::set<uint32_t> groups_with_messages(const Run& run);

// `roles`: by what each rank knows of itself.  Adds what tells apart stages of pipelines, by those
// that they exchange messages with.  `with_messages`: groups_with_messages.
void tell_roles_apart(const Run& run, const std::set<uint32_t>& with_messages, Roles& roles);

}  // namespace traintrace
