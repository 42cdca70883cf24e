// What the page (format html) shows beside the findings, as JSON: one part for each screen.  Ranks
// that are equal are folded where that keeps a page of 1,024 ranks below a megabyte.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "analyzer/detectors/finding.h"
#include "analyzer/model/divergence/narrow_divergences.h"
#include "analyzer/model/process/activity.h"
#include "analyzer/model/run.h"
#include "analyzer/page/shown_waits.h"
#include "analyzer/reporters/verdict/card.h"

namespace traintrace {

using PageJson = nlohmann::ordered_json;

// Texts that many ranks share, each once.
class TextTable {
 public:
  size_t index(const std::string& text);
  PageJson json() const;

 private:
  std::map<std::string, size_t> places_;
  std::vector<const std::string*> texts_;
};

struct PageOptions {
  CardOptions card;
  ReadEvents read_events = {};
};

// Of the leading finding, which may be null, and of other root causes; who only is slow is none.
Ranks page_culprits(const Finding* leading, const std::vector<Finding>& findings);
// When that rank's process was gone; none: it runs, or ended as it should.
std::optional<TimeNs> page_death(const Run& run, const RankState& state);
// When it exited with status 0; nothing: it did not, or that is not known.
std::optional<TimeNs> page_exit(const Run& run, const RankState& state);
// "cudaStreamQuery x 746" of a call that it is in or makes again and again, "after cudaMalloc" of
// one that is over.
std::string page_activity(const Activity& activity);

// Times are in us since the start of the run.  `leading`: may be null.
PageJson page_ranks(const Run& run, const ShownWaits& shown, const std::vector<Finding>& findings,
                    const Ranks& culprits, TextTable& texts);
PageJson page_communicators(const Run& run, const Finding* leading);
PageJson page_lanes(const Run& run, const ShownWaits& shown, const Finding* leading,
                    const Ranks& culprits, TextTable& texts);
PageJson page_waits(const Run& run, const ShownWaits& shown, const Ranks& culprits);
PageJson page_stacks(const Run& run, const Ranks& culprits, TextTable& texts);
PageJson page_memory(const Run& run, const std::vector<Finding>& findings,
                     const PageOptions& options, TextTable& texts);
PageJson page_steps(const Profile* profile, TextTable& texts);  // null: not known
// Null if none were recorded, or none can be drawn.
PageJson page_numbers(const Run& run, const std::vector<Finding>& findings);
PageJson page_environment(const Run& run);
PageJson page_card(const Card& card);

PageJson page_json(const Ranks& ranks);
int64_t page_us(const Run& run, TimeNs time);
// "train.py:12 in step"; "" if the stack has no frame of the job's.
std::string page_place(const ProcessTrace& trace, Rank rank, uint32_t stack);

}  // namespace traintrace
