#include <algorithm>

#include <fmt/format.h>

#include "analyzer/text/labels.h"
#include "analyzer/text/records.h"
#include "analyzer/text/story.h"

namespace traintrace {
namespace {

// Never 0, different for each name and run.
uint64_t id_of(const std::string& label, int run) {
  uint64_t hash = 0xcbf29ce484222325 + static_cast<uint64_t>(run);
  for (const char c : label) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  }
  return hash == 0 ? 1 : hash;
}

constexpr TimeNs kInitTakes = 1'000'000;

}  // namespace

bool Story::read_communicator(const std::string& label, KeyReader& outer,
                              std::span<const std::string> words) {
  const auto members = parse_ranks(outer.take("members").value_or(""));
  const std::string absent_text = outer.take("absent").value_or("");
  const auto absent = absent_text.empty() ? std::vector<int>{} : parse_ranks(absent_text);
  if (!members || !absent) {
    return drafts_.fail("members=RANKS and absent=RANKS as 0-3,7");
  }
  for (size_t i = 0; i < members->size(); ++i) {
    const std::string name = std::to_string((*members)[i]);
    const auto found = drafts_.by_name.find(name);
    const bool missing = std::find(absent->begin(), absent->end(), (*members)[i]) != absent->end();
    if (found == drafts_.by_name.end() || missing) {
      continue;  // a rank without a trace is a member all the same
    }
    Draft& draft = *found->second;
    KeyReader keys(words, &draft, drafts_);
    (void)keys.take("members");
    (void)keys.take("absent");
    CommunicatorText communicator;
    communicator.name = keys.take_word("unnamed") ? "" : label;
    communicator.id = id_of(label, drafts_.run);
    communicator.size = static_cast<int>(members->size());
    communicator.rank = static_cast<int>(i);
    if (const auto device = draft.local_rank()) {  // else nothing says which GPU it has
      communicator.device = *device;
    }
    communicator.ordinal = 1;
    communicator.origin = format::kInitRank;
    communicator.created = draft.trace.armed;
    if (const auto parent = keys.take("parent")) {
      const auto known = draft.communicators.find(*parent);
      const auto number = parse_unsigned(*parent);
      if (known == draft.communicators.end() && !number) {
        return drafts_.fail("parent=COMMUNICATOR of process " + name + " instead of " + *parent);
      }
      communicator.parent = known != draft.communicators.end()
                                ? draft.trace.communicators[known->second].id
                                : *number;
      communicator.origin = format::kSplit;
    }
    if (absent->empty()) {
      communicator.flags = format::kInitDone;
    }
    records::communicator_keys(keys, communicator);
    const bool failed = (communicator.flags & format::kInitFailed) != 0;
    if (absent->empty() && !failed && communicator.ready == 0) {
      communicator.ready = communicator.created + kInitTakes;
    }
    keys.stack(communicator.created_stack);
    if (!keys.finish()) {
      return false;
    }
    if (!draft.communicators.emplace(label, draft.trace.communicators.size()).second) {
      return drafts_.fail(
          fmt::format("another name: communicator {} is taken in process {}", label, name));
    }
    if (!absent->empty()) {
      StoryCall call;
      call.draft = &draft;
      call.outcome = Outcome::kBlocked;
      call.time = communicator.created;
      call.stack = communicator.created_stack;
      call.call =
          draft.call(communicator.parent != 0 ? "ncclCommSplit" : "ncclCommInitRank").value_or(0);
      call.values.resize(draft.trace.calls[call.call].fields.size());
      calls_.push_back(std::move(call));
    }
    draft.trace.communicators.push_back(std::move(communicator));
  }
  return true;
}

}  // namespace traintrace
