// Operators of PyTorch: which stands around each call, and what the work launched within it
// computes.
#pragma once

#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "analyzer/importers/kineto/enclosing.h"
#include "analyzer/importers/kineto/kineto_event.h"
#include "analyzer/importers/kineto/kineto_products.h"
#include "analyzer/timeline/timeline.h"

namespace traintrace::kineto {

class Operators {
 public:
  // `name`: the event's, in `timeline.names`.
  void add(const Event& event, uint32_t name, const Span& span, uint32_t thread,
           Timeline& timeline);
  // As large_tables.h says it.
  void make_room(double part) { ranges_.make_room(part); }
  // As our own exports say it of a kernel; empty: nothing.
  void add_told(std::string_view told, uint64_t correlation, Timeline& timeline) {
    products_.add_told(told, correlation, timeline);
  }
  // Once all are added.
  void sort() { ranges_.sort(); }
  // `timeline` has all its work and calls, in order.
  void find_contexts(Timeline& timeline);
  // After that, once the kinds of work are known.
  void find_products(Timeline& timeline);

 private:
  static constexpr uint32_t kNoProduct = 0xffffffff;
  struct Operator {
    uint32_t name;     // in Timeline::names
    uint32_t product;  // in Timeline::products
  };
  struct Launch {
    uint32_t call;            // in Timeline::calls
    uint32_t multiplication;  // in multiplications_
  };
  class Multiplications;

  uint32_t id_of(const Operator& op);

  Ranges ranges_;  // of `operators_`
  std::vector<Operator> operators_;
  std::unordered_map<uint64_t, uint32_t> ids_;  // in `operators_`, by name and product
  std::vector<bool> asked_, wanted_;            // by name: whether Products wants it
  Products products_;
  std::vector<Multiplication> multiplications_;
  std::vector<Launch> launches_;
};

}  // namespace traintrace::kineto
