// A command in a child of its own: what kills it costs the stage that it was in, not the answer.
#pragma once

#include <functional>
#include <string>

namespace traintrace {

// Runs `work` in a child and returns its status.  Of a child that crashes, the parent knows in
// which stage it was, and starts another that leaves this stage out.  Where the child waits for a
// file server that is gone (silence.h), the next one asks each file before it reads it, and leaves
// out those that do not answer; after that, stages.  All of `work` is the stage
// `name`: where it fails as a whole, `otherwise` says so and returns the status.
//
// Only this thread would go on in the child: where there are others, `work` runs in this process,
// and what kills it kills all.
int supervise(const std::string& name, const std::function<int()>& work,
              const std::function<int()>& otherwise);

// What is named on the command line may be asked again when a file of it does not answer.
enum class Inputs {
  kAnswer,      // all of them do
  kSomeSilent,  // those that do not are left out of the next attempt
  kAllSilent,   // which was said
};
void ask_inputs_by(std::function<Inputs()> ask);

// To be called before anything is written to stdout: from then on no further attempt is made.
void about_to_speak();

// After a crash in one of several threads, whose is not known: one after the other.
bool one_stage_at_a_time();

}  // namespace traintrace
