// Runs that follow each other: the launcher of a job started its ranks again.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "analyzer/detectors/finding.h"
#include "analyzer/model/run.h"
#include "analyzer/model/runs/split_runs.h"
#include "analyzer/numbers/read_again.h"

namespace traintrace {

// Keeps of each generation which data it has sent, for the last one.
class Generations {
 public:
  // All runs that are judged, by start.
  explicit Generations(const std::vector<RunInput>& inputs);

  // Of a run that was just judged, after all that started before it.
  void add(const Run& run, std::vector<Finding>& findings);

 private:
  std::map<std::string, std::string> restarted_as_;  // by the run's id
  // By the id of the last generation: what each one before it sent, and its id; by start.
  std::map<std::string, std::vector<std::pair<std::string, SentBatches>>> sent_;
};

}  // namespace traintrace
