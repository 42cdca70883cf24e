// Data that a job reads again after its launcher has started its ranks again.
#include <fmt/format.h>

#include "analyzer/detectors/numeric/numeric.h"

namespace traintrace {

std::vector<Finding> find_read_again(const std::string& before, const std::vector<ReadAgain>& all) {
  std::vector<Finding> findings;
  for (const ReadAgain& again : all) {
    Finding& finding = findings.emplace_back(numeric_finding("numeric.read-again"));
    finding.certainty = Certainty::kProof;
    finding.sides = {again.ranks};
    if (again.where) {
      finding.where.push_back(*again.where);
    }
    finding.title = fmt::format(
        "{} begin{} with {} batches at {} that had been sent before the restart: from batch {} of "
        "{} of rank {} on",
        ranks_text(again.ranks), again.ranks.size() == 1 ? "s" : "", again.count, again.place,
        again.number, again.of_number, again.earlier_rank.value);
    finding.values = {{"again_count", static_cast<int64_t>(again.count)},
                      {"batch_count", static_cast<int64_t>(again.all)},
                      {"earlier_number", static_cast<int64_t>(again.number)},
                      {"earlier_count", static_cast<int64_t>(again.of_number)}};
    finding.evidence = {
        fmt::format("they are {} of the {} that these ranks have sent since", again.count,
                    again.all),
        fmt::format("the first one of rank {} is batch {} of rank {} in {}", again.rank.value,
                    again.number, again.earlier_rank.value, before)};
    finding.advice =
        "right if the checkpoint that was loaded is of that batch; else save and restore the "
        "position in the data with it";
  }
  return findings;
}

}  // namespace traintrace
