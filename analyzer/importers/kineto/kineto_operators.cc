#include "analyzer/importers/kineto/kineto_operators.h"

#include <limits>
#include <utility>

namespace traintrace::kineto {

// Those open on each thread.  An operator may call itself again with other types (autocast), or
// another one.  The innermost is what is computed; what the outer one launches by itself only
// prepares it.
class Operators::Multiplications {
 public:
  explicit Multiplications(Operators& all) : all_(all), threads_(all.ranges_.threads()) {}

  void began(const Range& range, uint32_t thread, const Timeline& timeline) {
    const uint32_t product = all_.operators_[range.what].product;
    if (product == kNoProduct) {
      return;
    }
    std::vector<Open>& open = close(thread, range.span.begin_ns);
    if (!open.empty() && timeline.products[product].is_plain) {
      Multiplication& outer = all_.multiplications_[open.back().index];
      outer.is_counted = !timeline.products[outer.product].is_plain;
    }
    open.push_back({range.span.end_ns, static_cast<uint32_t>(all_.multiplications_.size())});
    all_.multiplications_.push_back({product});
  }

  // `index`: in the timeline.
  void called(const HostCall& call, size_t index) {
    if (call.correlation == 0 || call.thread >= threads_.size()) {
      return;
    }
    if (const std::vector<Open>& open = close(call.thread, call.start_ns); !open.empty()) {
      all_.launches_.push_back({static_cast<uint32_t>(index), open.back().index});
    }
  }

 private:
  struct Open {
    int64_t end_ns;
    uint32_t index;
  };
  std::vector<Open>& close(uint32_t thread, int64_t time_ns) {
    std::vector<Open>& open = threads_[thread];
    while (!open.empty() && open.back().end_ns <= time_ns) {
      open.pop_back();
    }
    return open;
  }

  Operators& all_;
  std::vector<std::vector<Open>> threads_;
};

uint32_t Operators::id_of(const Operator& op) {
  constexpr int kBits = 32;
  const auto [known, is_new] = ids_.try_emplace(uint64_t{op.name} << kBits | op.product,
                                                static_cast<uint32_t>(operators_.size()));
  if (is_new) {
    operators_.push_back(op);
  }
  return known->second;
}

void Operators::add(const Event& event, uint32_t name, const Span& span, uint32_t thread,
                    Timeline& timeline) {
  if (name >= asked_.size()) {
    asked_.resize(name + size_t{1});
    wanted_.resize(name + size_t{1});
  }
  if (!asked_[name]) {
    asked_[name] = true;
    wanted_[name] = Products::wants(event.name);
  }
  const uint32_t product = wanted_[name] ? products_.product_of(event, timeline) : kNoProduct;
  ranges_.add(thread, span, id_of({name, product}));
}

void Operators::find_contexts(Timeline& timeline) {
  if (ranges_.empty()) {
    return;
  }
  timeline.contexts.resize(timeline.calls.size());
  // Our own exports say of each kernel what it computes; their operators have no shapes.
  const bool finds_products = timeline.work_products.empty();
  OpenRanges open(ranges_);
  Multiplications multiplications(*this);
  const auto advance = [&](uint32_t thread, int64_t time_ns) {
    open.advance(thread, time_ns, [&](const Range& range) {
      if (finds_products) {
        multiplications.began(range, thread, timeline);
      }
    });
  };
  for (size_t i = 0; i < timeline.calls.size(); ++i) {
    const HostCall& call = timeline.calls[i];
    advance(call.thread, call.start_ns);
    if (const Range* const range = open.innermost(call.thread)) {
      timeline.contexts[i].op = operators_[range->what].name;
      multiplications.called(call, i);
    }
  }
  for (uint32_t thread = 0; thread < ranges_.threads(); ++thread) {
    advance(thread, std::numeric_limits<int64_t>::max());  // these may stand within earlier ones
  }
  ranges_ = {};
}

void Operators::find_products(Timeline& timeline) {
  if (!timeline.work_products.empty()) {
    sort_products(timeline);
    return;
  }
  std::vector<LaunchedFor> launched;
  launched.reserve(launches_.size());
  for (const Launch& launch : launches_) {
    launched.push_back({timeline.calls[launch.call].correlation, launch.multiplication});
  }
  launches_ = {};
  add_main_work(multiplications_, std::move(launched), timeline);
  multiplications_ = {};
}

}  // namespace traintrace::kineto
