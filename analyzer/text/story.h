// Stories (docs/dump.md): one line stands for what many calls on many ranks leave behind.
#pragma once

#include <span>
#include <string>

#include "analyzer/text/draft.h"
#include "analyzer/text/key_reader.h"

namespace traintrace {

enum class Outcome : uint8_t {
  kDone,      // returned, and what it enqueued is seen to finish
  kEnqueued,  // returned
  kBlocked,   // entered
  kPolled,    // returned, then called again and again without a record
};

// A line of calls, for one thread of one process.
struct StoryCall {
  Draft* draft = nullptr;
  uint32_t thread = 1;
  uint32_t call = 0;
  Outcome outcome = Outcome::kDone;
  TimeNs time = 0;
  uint64_t repeats = 1;
  int64_t every_ns = 1'000'000;
  int64_t takes_ns = 10'000;
  std::optional<uint32_t> communicator;  // index
  uint32_t stack = 0;
  int32_t result = 0;
  bool grouped = false;
  bool captured = false;    // into a graph: it does not run
  bool replayed = false;    // by the launch of one
  bool streamless = false;  // its stream is not known
  uint32_t group = 0;
  GpuState gpu = GpuState::kUnknown;
  std::optional<TimeNs> until;   // kPolled
  std::vector<uint64_t> values;  // of the call's fields
};

class Story {
 public:
  explicit Story(DraftSet& drafts) : drafts_(drafts) {}

  // `TIME WHO VERB ..`; false after a complaint.
  bool read_line(std::span<const std::string> words);
  // `communicator NAME members=0-3 ..`
  bool read_communicator(const std::string& label, KeyReader& outer,
                         std::span<const std::string> words);
  // At the end of a run: all its lines take effect, in the order of time.
  bool finish();

 private:
  bool read_calls(std::span<Draft* const> who, uint32_t thread, TimeNs time,
                  std::span<const std::string> words, Outcome outcome);
  bool read_call(KeyReader& keys, StoryCall& call);
  bool read_communicator_of(KeyReader& keys, StoryCall& call, std::string_view kind);
  bool read_values(KeyReader& keys, StoryCall& call);
  bool read_stand(std::span<Draft* const> who, TimeNs time, std::span<const std::string> words);
  bool read_end(std::span<Draft* const> who, TimeNs time, std::span<const std::string> words);
  bool find_who(const std::string& word, std::vector<Draft*>& who, uint32_t& thread);
  void set_run_defaults();

  DraftSet& drafts_;
  std::vector<StoryCall> calls_;  // of the current run
  uint64_t expanded_ = 0;         // in the whole text
};

// What one call leaves behind.
void apply_call(const StoryCall& call, TimeNs time);
void apply_polling(const StoryCall& call);

}  // namespace traintrace
