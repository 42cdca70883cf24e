// What a person is told of a finding at first sight: what sort of trouble, who, where, why, what to
// do next.  The terminal and the page show the same card.
#pragma once

#include <string>
#include <vector>

#include "analyzer/detectors/finding.h"
#include "analyzer/model/run.h"
#include "analyzer/reporters/verdict/source_lines.h"

namespace traintrace {

// Ranks that do the same at the same place.
struct CardActor {
  Ranks ranks;
  bool culprit = false;
  std::string who;                 // "host a, pid 3005, GPU 2"
  std::string doing;               // "polls cudaStreamQuery: 732 times"
  std::vector<CodePlace> frames;   // of the job's own code, innermost first
  std::string frames_are;          // "now at", "called ncclSend at"; empty: where `doing` was
  std::vector<SourceLine> source;  // around the innermost one; empty: it is not what ran
};

struct CardCommand {
  std::string command;
  std::string purpose;
};

struct Card {
  std::string kind;                // "HANG"
  std::string headline;            // the finding's title with units
  std::string certainty;           // "PROVEN"
  std::vector<std::string> notes;  // what to know first: traces that were not given, other problems
  std::vector<CardActor> actors;
  std::vector<std::string> why;  // evidence that the actors do not say already
  std::vector<CardCommand> next;
  std::string advice;
};

// What `traces` were on the command line, for the next commands.
struct CardOptions {
  std::vector<std::string> traces;
  int source_lines = 0;  // before and behind a line
};

const char* kind_of(const Finding& finding);
const char* certainty_word(Certainty certainty);
Card card_of(const Run& run, const Finding& finding, const CardOptions& options,
             const std::vector<Finding>& all = {});

// Frames of the job's own code at that place of the rank, innermost first, as far as some recorded
// stack has them.
std::vector<CodePlace> job_frames(const Run& run, const CodePlace& place);
// "Rank 2", "Ranks 0, 1, 3", "Ranks 0-3, 7".
std::string rank_title(const Ranks& ranks);

}  // namespace traintrace
