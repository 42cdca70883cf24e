#include "interpose/tables/communicator_identity.h"

#include <string.h>
#include <unistd.h>

#include "format/hashes.h"
#include "interpose/record/stats.h"
#include "interpose/tables/communicators.h"
#include "interpose/tables/handle_map.h"

namespace traintrace {
namespace {

using format::Communicator;

constexpr int kUniqueIdBytes = 128;
constexpr int32_t kNoColorValue = -1;  // NCCL_SPLIT_NOCOLOR

uint32_t g_init_alls;
HandleMap g_gone;  // what identifies -> uses by communicators that are no longer in the table
bool g_unique_ids_equal;  // NCCL_COMM_ID is set: all ranks and communicators have one id

// A use of a unique id or of a list of excluded ranks, as all ranks count it.
bool counts(const Communicator& communicator) {
  return (communicator.flags & format::kInitFailed) == 0 || !refused(communicator.async_error);
}

// Equal for those that count as uses of the same unique id, of the same list of ranks to leave out,
// or of the same size to grow to.  0: of none of these.
uint64_t use_key(const Communicator& communicator) {
  uint64_t key = format::mixed(communicator.origin, communicator.nccl_hash);
  if (communicator.origin == format::kInitRank) {
    key = format::mixed(key, static_cast<uint32_t>(communicator.rank));
    return g_unique_ids_equal ? format::mixed(key, static_cast<uint32_t>(communicator.size)) | 1
                              : key | 1;
  }
  const bool numbered = communicator.origin == format::kShrink ||
                        (communicator.origin == format::kGrow && communicator.parent_index != 0);
  if (!numbered) {
    return 0;
  }
  key = format::mixed(communicator.origin, communicator.parent);
  return format::mixed(format::mixed(key, communicator.parent_index), communicator.members_hash) |
         1;
}

uint32_t uses_gone(const Communicator& communicator) {
  return static_cast<uint32_t>(g_gone.find(use_key(communicator)));
}

uint64_t process_hash(uint64_t ordinal, uint64_t kind) {
  const format::FileHeader& file = *g_tables.file;
  format::NcclHash hash;
  hash.eat(file.host, sizeof file.host);
  hash.eat(file.boot_id, sizeof file.boot_id);
  hash.eat(file.pid_namespace, 8);
  hash.eat(static_cast<uint64_t>(file.pid), 4);
  hash.eat(file.start_time, 8);
  hash.eat(ordinal, 8);
  hash.eat(kind, 8);
  return hash.digest();
}

uint64_t combined(uint64_t first, uint64_t second, uint64_t third) {
  format::NcclHash hash;
  hash.eat(first, 8);
  hash.eat(second, 8);
  hash.eat(third, 8);
  return hash.digest();
}

uint64_t hash_of_id(const void* unique_id) {
  format::NcclHash hash;
  hash.eat(unique_id, kUniqueIdBytes);
  return hash.digest();
}

// Independent of the order in which the ranks are given.
uint64_t hash_of_ranks(const int* ranks, int32_t count) {
  uint64_t sum = 0;
  for (int32_t i = 0; i < count; ++i) {
    sum += format::mixed(1, static_cast<uint32_t>(ranks[i]));
  }
  return format::mixed(sum, static_cast<uint32_t>(count)) | 1;
}

void identify_by_unique_id(Communicator& into, const CommunicatorArguments& arguments) {
  into.nccl_hash = hash_of_id(arguments.unique_id);
  into.ordinal = 1 + uses_gone(into);
  // Several ranks of one communicator may be threads of this process: uses count per rank.
  for_each_communicator([&](uint32_t, const Communicator& other) {
    if (other.origin == format::kInitRank && other.nccl_hash == into.nccl_hash &&
        other.rank == into.rank && counts(other) &&
        (!g_unique_ids_equal || other.size == into.size)) {
      ++into.ordinal;
    }
  });
  // The size is no part of it where the id tells enough: ranks that disagree about the size are
  // then seen to be in one communicator.
  const bool plain = into.ordinal == 1 && !g_unique_ids_equal;
  const uint64_t size = g_unique_ids_equal ? static_cast<uint32_t>(into.size) : 0;
  into.id = plain ? into.nccl_hash : combined(into.nccl_hash, into.ordinal, size);
}

void identify_init_all(Communicator& into, const CommunicatorArguments& arguments) {
  into.rank = arguments.init_all_index;
  if (arguments.init_all_index == 0) {
    into.ordinal = fetch_add(g_init_alls, 1U) + 1;
  } else {
    for_each_communicator([&](uint32_t, const Communicator& other) {
      if (other.origin == format::kInitAll && other.created_ticks == arguments.ticks) {
        into.ordinal = other.ordinal;
      }
    });
  }
  into.id = process_hash(into.ordinal, format::kInitAll);
}

void inherit(Communicator& into, const Communicator& parent) {
  into.parent = parent.id;
  into.flags |= parent.flags & format::kNonBlocking;
  if (into.device < 0) {
    into.device = parent.device;
  }
}

void identify_split(Communicator& into, const Communicator& parent, uint32_t& siblings) {
  inherit(into, parent);
  // Ranks without a color take part and count.
  into.ordinal = fetch_add(siblings, 1U) + 1;
  const auto ordinal = static_cast<int32_t>(into.ordinal);
  into.id = format::nccl_child_hash(parent.id, ordinal, into.color);
  if (parent.nccl_hash != 0) {
    into.nccl_hash = format::nccl_child_hash(parent.nccl_hash, ordinal, into.color);
  }
  if (into.color == kNoColorValue) {
    into.flags |= format::kNoColor;
  }
}

// Children of one parent that differ in nothing else.
void number_among_equals(Communicator& into) {
  into.ordinal = 1 + uses_gone(into);
  for_each_communicator([&](uint32_t, const Communicator& other) {
    if (other.origin == into.origin && other.parent == into.parent &&
        other.parent_index == into.parent_index && other.members_hash == into.members_hash &&
        counts(other)) {
      ++into.ordinal;
    }
  });
  into.id = format::child_id(into.parent, into.members_hash, into.ordinal);
}

// The id serves once, so nothing counts its uses.
void identify_joined(Communicator& into, const CommunicatorArguments& arguments) {
  into.nccl_hash = arguments.unique_id == nullptr ? 0 : hash_of_id(arguments.unique_id);
  into.id = into.nccl_hash;
}

void identify_grown(Communicator& into, const Communicator& parent,
                    const CommunicatorArguments& arguments) {
  inherit(into, parent);
  into.members_hash = format::mixed(format::kGrow, static_cast<uint32_t>(into.size)) | 1;
  number_among_equals(into);
  if (arguments.unique_id != nullptr) {
    into.nccl_hash = hash_of_id(arguments.unique_id);
  }
  into.rank = parent.rank;
}

void identify_shrink(Communicator& into, const Communicator& parent,
                     const CommunicatorArguments& arguments) {
  inherit(into, parent);
  // A missing list will be refused by NCCL, and must not be read before that.
  const int32_t count = arguments.excluded == nullptr ? 0 : arguments.excluded_count;
  into.members_hash = hash_of_ranks(arguments.excluded, count);
  if (parent.nccl_hash != 0) {
    into.nccl_hash = format::nccl_child_hash(parent.nccl_hash, 0, 0);
  }
  number_among_equals(into);
  if (parent.size >= 0) {
    into.size = parent.size - count;
  }
  if (parent.rank >= 0) {
    into.rank = parent.rank;
    for (int32_t i = 0; i < count; ++i) {
      into.rank -= arguments.excluded[i] < parent.rank ? 1 : 0;
    }
  }
}

}  // namespace

void identify(Communicator& into, uint32_t number, const CommunicatorArguments& arguments,
              uint32_t* siblings) noexcept {
  if (arguments.origin == format::kInitRank && arguments.unique_id != nullptr) {
    identify_by_unique_id(into, arguments);
  } else if (arguments.origin == format::kInitAll) {
    identify_init_all(into, arguments);
  } else if (arguments.origin == format::kSplit && siblings != nullptr) {
    identify_split(into, communicator_at(into.parent_index), *siblings);
  } else if (arguments.origin == format::kShrink && siblings != nullptr) {
    identify_shrink(into, communicator_at(into.parent_index), arguments);
  } else if (arguments.origin == format::kGrow && siblings != nullptr) {
    identify_grown(into, communicator_at(into.parent_index), arguments);
  } else if (arguments.origin == format::kGrow && arguments.unique_id != nullptr) {
    identify_joined(into, arguments);
  } else {
    into.id = process_hash(number, format::kUnknownOrigin);
  }
}

void remember_identity(const Communicator& communicator) noexcept {
  const uint64_t key = use_key(communicator);
  if (key != 0 && counts(communicator) && !g_gone.put(key, g_gone.find(key) + 1)) {
    count(format::Stat::CommunicatorsFull);
  }
}

void identities_start() noexcept {
  constexpr uint32_t kMostGone = 1U << 14;
  g_gone.start(kMostGone);
  g_init_alls = 0;
  g_unique_ids_equal = false;
  constexpr char kCommId[] = "NCCL_COMM_ID=";
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    if (strncmp(*entry, kCommId, sizeof kCommId - 1) == 0) {
      g_unique_ids_equal = true;
    }
  }
}

void identities_drop() noexcept {
  g_gone.drop();
}

}  // namespace traintrace
