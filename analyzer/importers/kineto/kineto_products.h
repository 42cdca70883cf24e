// Which work multiplies which matrices: operators of PyTorch with the shapes of their inputs
// (record_shapes=True), joined with what was launched within them.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "analyzer/importers/kineto/enclosing.h"
#include "analyzer/importers/kineto/kineto_event.h"
#include "analyzer/timeline/timeline.h"

namespace traintrace::kineto {

class Products {
 public:
  // Whether launches within that operator are of interest.
  static bool wants(std::string_view name);

  void add(const Event& event, const Span& span, uint32_t thread);
  // As our own exports say it of a kernel; empty: nothing.
  static void add_told(std::string_view told, uint64_t correlation, Timeline& timeline);
  // `timeline` has all its work and calls, in order.  Adds to its products.
  void finish(Timeline& timeline);

 private:
  // Of each operator: whether it calls one that is a plain product.
  std::vector<bool> with_inner(size_t threads) const;

  std::vector<Range> ranges_;             // by operator
  std::vector<MatrixProduct> operators_;  // without their correlations, until all is read
};

// "TYPE BATCH M N K", "TYPE" where the shape is not known, "part" of no plain product.
std::string told_product(const MatrixProduct& product);

}  // namespace traintrace::kineto
