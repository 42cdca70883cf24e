// Sends and receives by the kernels of NCCL that do them.
#pragma once

#include <cstdint>
#include <set>
#include <span>

#include "analyzer/timeline/timeline.h"

namespace traintrace {

// Of the kernel with that correlation, which belongs to the timeline; empty: none are known.
std::span<const PeerMessage> messages_of(const Timeline& timeline, uint64_t correlation);

// Those in which some kernel sends to a rank and does not receive from it, or the other way round:
// a kernel that does both with all is a collective made of messages, as all-to-all.
std::set<uint64_t> communicators_of_pairs(const Timeline& timeline);

bool is_within(std::span<const PeerMessage> messages, const std::set<uint64_t>& communicators);

// Whether the kernel with that correlation sends to or receives from single ranks: by its messages,
// where these are in one of `pairs`, or by what the framework calls it.
bool is_between_two(const Timeline& timeline, uint64_t correlation,
                    const std::set<uint64_t>& pairs);

}  // namespace traintrace
