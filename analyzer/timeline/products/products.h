// Products of matrices: what an operator asked for, and what it takes.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "analyzer/timeline/timeline.h"

namespace traintrace {

// Of the work with that correlation; null: none is known.
const MatrixProduct* product_of(const Timeline& timeline, uint64_t correlation);
// Null: not known.
const DeviceModel* model_of(const Timeline& timeline, int32_t device);

// 2 for each of m, n, k and the batch: a multiplication and an addition.  None: shape or type is
// not known, or no number holds it.
std::optional<int64_t> flops_of(const MatrixProduct& product);
// Both operands and the result, once each; 0: not known.
double bytes_of(const MatrixProduct& product);

// "[788, 768] x [768, 3072] of bfloat16"; of a batch "12 x [..] x [..] of ..".
std::string shape_text(const MatrixProduct& product);

// "bfloat16"; what is not one of ours is not known.
std::string_view name_of(ElementType type);
ElementType type_of_name(std::string_view name);
int64_t bytes_of(ElementType type);  // 0: not known

// Adds products to those of a timeline, equal ones once.
class ProductTable {
 public:
  // Its index in `timeline.products`; the same timeline each time.
  uint32_t index_of(const MatrixProduct& product, Timeline& timeline);

 private:
  std::map<MatrixProduct, uint32_t> known_;
};

// An operator or call that multiplies matrices.
struct Multiplication {
  uint32_t product;        // in Timeline::products
  bool is_counted = true;  // else another one within it is what is computed
};
// A piece of work that was launched for one of these, which is told by its index.
struct LaunchedFor {
  uint64_t correlation;
  uint32_t multiplication;
};
// Adds to `timeline.work_products` what the main piece of each multiplication computes: the one
// that multiplies, by its name, or the longest.  `timeline` has all its work.
void add_main_work(std::span<const Multiplication> multiplications,
                   std::vector<LaunchedFor> launched, Timeline& timeline);
// As product_of() needs them.
void sort_products(Timeline& timeline);

}  // namespace traintrace
