// Which of two ranks that run the same program and called something else is right, as other groups
// tell: of those that their processes created alike, and that have called the same until then.
#pragma once

#include "analyzer/match/program.h"

namespace traintrace {

struct SiblingsSay {
  int wrong = 0;  // -1: the first of the two, 1: the second, 0: that does not tell
  Ranks ranks;    // that called what the other of the two did
  // Some did as the one, some as the other: what either did before tells nothing then.
  bool divided = false;
};

// `first`, `second`: two collectives that should be alike.
SiblingsSay ask_siblings(const Run& run, const Program& one, const Call& first,
                         const Program& other, const Call& second);

}  // namespace traintrace
