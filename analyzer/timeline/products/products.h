// Products of matrices: what an operator asked for, and what it takes.
#pragma once

#include <cstdint>
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

// A piece of work that was launched for a product, which is told by its number.
struct LaunchedFor {
  uint64_t correlation;
  uint32_t product;
};
// The correlation of the main piece of each of `count` products: the one that multiplies, by its
// name, or the longest; 0: none was found.  `timeline` has all its work.
std::vector<uint64_t> main_work(const Timeline& timeline, std::vector<LaunchedFor> launched,
                                size_t count);
// As product_of() needs them.
void sort_products(Timeline& timeline);

}  // namespace traintrace
