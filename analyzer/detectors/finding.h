// What is reported, before anybody decides how it looks.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "analyzer/model/ids.h"
#include "analyzer/model/process/code_place.h"

namespace traintrace {

enum class Severity : uint8_t { kError, kWarning, kInfo };
enum class Certainty : uint8_t { kProof, kLikely, kPossible };
inline constexpr const char* kSeverityNames[] = {"error", "warning", "info"};
inline constexpr const char* kCertaintyNames[] = {"proof", "likely", "possible"};
constexpr const char* name_of(Severity severity) {
  return kSeverityNames[static_cast<size_t>(severity)];
}
constexpr const char* name_of(Certainty certainty) {
  return kCertaintyNames[static_cast<size_t>(certainty)];
}
// Where people read it: an adjective, as the other two are.
constexpr const char* word_of(Certainty certainty) {
  return certainty == Certainty::kProof ? "proven" : name_of(certainty);
}

struct FindingCommunicator {
  CommunicatorId id;
  std::string name;
  int size = -1;
};

// What of a GPU's lost time a finding is about (time_account.h); not reported as such.
struct NamedLoss {
  size_t device = 0;  // in Profile::devices
  size_t kind = 0;    // an IdleCause, kExposedLoss or kCopyLoss
  int64_t ns = 0;
};

// A GPU that computes slower than usual: with the others' speed it would take this share of its
// time for what it began in a part of its window; not reported as such.
struct SlowerGpu {
  size_t device = 0;  // in Profile::devices
  size_t part = 0;    // part_of_window
  double share = 1;
};

struct Finding {
  std::string_view code;  // of the catalogue
  Severity severity = Severity::kInfo;
  Certainty certainty = Certainty::kProof;
  bool root = false;  // not a consequence of another finding
  std::string title;
  Ranks culprits;
  Ranks victims;             // all that wait, directly or not
  std::vector<Ranks> sides;  // by what they did
  std::optional<FindingCommunicator> communicator;
  std::vector<FindingCommunicator> communicators;  // of a cycle
  std::optional<uint64_t> sequence;
  std::optional<uint64_t> sequence_last;  // it is one of `sequence`..`sequence_last`
  std::string operation;
  std::vector<CodePlace> where;
  std::vector<std::pair<std::string, int64_t>> values;  // keys as the catalogue lists them
  std::vector<std::string> evidence;
  std::string advice;
  std::vector<NamedLoss> named;
  std::vector<SlowerGpu> slower;
};

// By how much the recorded window would be shorter without it; none: not known.
std::optional<int64_t> gain_ns(const Finding& finding);

// The order of a report (contract): roots first; among them those that name culprits, then the more
// certain, those with more victims, the more severe.
bool is_reported_before(const Finding& a, const Finding& b);

}  // namespace traintrace
