// Products of matrices in a recorded trace: calls of cuBLAS, and what was launched within them.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "analyzer/reader/process_trace.h"
#include "analyzer/timeline/products/products.h"
#include "analyzer/timeline/timeline.h"

namespace traintrace {

class RecordedProducts {
 public:
  // A call of kind "product", in the order of entry; each as `trace.calls` describes it.
  void called(const ProcessTrace& trace, const CallRecord& event);
  // What has that correlation was launched by that thread at that time.
  void launched(uint32_t thread, TimeNs time, uint64_t correlation);
  // `timeline` has all its work.  Adds to its products.
  void finish(Timeline& timeline);

 private:
  struct Open {
    uint32_t multiplication;
    TimeNs end;
  };
  std::vector<MatrixProduct> products_;  // of each call
  std::vector<LaunchedFor> launched_;
  std::unordered_map<uint32_t, Open> newest_;  // by thread; they do not nest
};

// As the facts `gpu-N` say; those that say something else are left out.
std::vector<DeviceModel> recorded_models(const ProcessTrace& trace);

}  // namespace traintrace
