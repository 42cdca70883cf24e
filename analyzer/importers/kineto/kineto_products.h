// Which matrices an operator of PyTorch multiplies, by the shapes of its inputs
// (record_shapes=True).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>

#include "analyzer/importers/kineto/kineto_event.h"
#include "analyzer/timeline/products/products.h"
#include "analyzer/timeline/timeline.h"

namespace traintrace::kineto {

class Products {
 public:
  // Whether launches within that operator are of interest.
  static bool wants(std::string_view name);

  // What such an operator computes, in `timeline.products`.
  uint32_t product_of(const Event& event, Timeline& timeline);
  // As our own exports say it of a kernel; empty: nothing.
  void add_told(std::string_view told, uint64_t correlation, Timeline& timeline);

 private:
  ProductTable table_;
  std::unordered_map<std::string, uint32_t> by_text_;
  std::string text_;  // of the newest, reused
};

// "TYPE BATCH M N K", "TYPE" where the shape is not known, "part" of no plain product.
std::string told_product(const MatrixProduct& product);

}  // namespace traintrace::kineto
