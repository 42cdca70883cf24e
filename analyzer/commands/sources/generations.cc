#include "analyzer/commands/sources/generations.h"

#include <algorithm>
#include <iterator>

#include "analyzer/detectors/numeric/numeric.h"
#include "analyzer/isolation/stage.h"

namespace traintrace {

Generations::Generations(const std::vector<RunInput>& inputs) {
  for (const RunInput& input : inputs) {
    if (!input.about.restarted_as.empty()) {
      restarted_as_[input.about.id] = input.about.restarted_as;
    }
  }
}

void Generations::add(const Run& run, std::vector<Finding>& findings) {
  if (run.numbers == nullptr) {
    return;
  }
  run_stage("data that were read again", [&] {
    if (const auto later = restarted_as_.find(run.id); later != restarted_as_.end()) {
      sent_[later->second].emplace_back(run.id, sent_batches(run, *run.numbers));
      return;
    }
    const auto earlier = sent_.find(run.id);
    if (earlier == sent_.end()) {
      return;
    }
    // The latest generation that had sent any of it.
    for (auto one = earlier->second.rbegin(); one != earlier->second.rend(); ++one) {
      std::vector<Finding> found = find_read_again(
          one->first, read_again(one->second, run, *run.numbers, SameStart::kReadAgain));
      if (!found.empty()) {
        std::move(found.begin(), found.end(), std::back_inserter(findings));
        std::sort(findings.begin(), findings.end(), is_reported_before);
        return;
      }
    }
  });
}

}  // namespace traintrace
