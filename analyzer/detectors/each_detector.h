// Detectors one after the other, each a stage of its own: one that fails finds nothing.
#pragma once

#include <iterator>
#include <string>
#include <vector>

#include "analyzer/detectors/finding.h"
#include "analyzer/isolation/stage.h"

namespace traintrace {

template <class Function>
struct NamedDetector {
  const char* name;
  Function find;
};
#define TT_DETECTOR(function) \
  { #function, function }

template <class Detectors, class... Inputs>
void find_with_each(const Detectors& detectors, std::vector<Finding>& findings,
                    const Inputs&... inputs) {
  for (const auto& detector : detectors) {
    run_stage(std::string("detector ") + detector.name, [&] {
      std::vector<Finding> found = detector.find(inputs...);
      std::move(found.begin(), found.end(), std::back_inserter(findings));
    });
  }
}

}  // namespace traintrace
