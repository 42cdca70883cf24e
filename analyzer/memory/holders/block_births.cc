#include "analyzer/memory/holders/block_births.h"

#include <map>
#include <unordered_map>

#include "analyzer/memory/blocks.h"
#include "analyzer/memory/field_value.h"
#include "analyzer/model/process/activity.h"
#include "analyzer/model/process/code_place.h"
#include "analyzer/reader/sections/stored_reports.h"

namespace traintrace {
namespace {

bool is_report(const CallSchema* schema) {
  return schema != nullptr && schema->kind.starts_with("tensor-");
}

// A segment of PyTorch's and the first block in it have the same address.
class BirthsBefore {
 public:
  BirthsBefore(const ProcessTrace& trace, const OutOfMemoryText& failure)
      : trace_(trace), failure_(failure), births_(failure.held.size()) {
    for (size_t i = 0; i < failure.held.size(); ++i) {
      const HeldBlockText& block = failure.held[i];
      births_[i].time = block.time;
      (is_report(schema_of(trace, block.call)) ? tensors_ : calls_)[block.address] = i;
    }
  }

  void see(const CallRecord& event, FieldValues values) {
    const CallSchema* const schema = schema_of(trace_, event.call);
    if (schema == nullptr || event.enter_lost || event.enter > failure_.time) {
      return;
    }
    if (schema->kind == "tensor-block") {
      if (static_cast<int64_t>(number_in(values, *schema, "change")) > 0) {
        born(tensors_, number_in(values, *schema, "address"), event);
      }
    } else if (schema->kind == "alloc" && event.returned && event.result == 0 &&
               kind_of_call(schema->name)) {
      born(calls_, number_in(values, *schema, "address"), event);
    }
    if (is_of_job(event.stack)) {
      newest_of_job_ = event.stack;
    }
  }

  std::vector<BlockBirth> take() { return std::move(births_); }

 private:
  using Blocks = std::unordered_map<uint64_t, size_t>;

  void born(const Blocks& blocks, uint64_t address, const CallRecord& event) {
    if (const auto block = blocks.find(address); block != blocks.end()) {
      births_[block->second] = {event.enter, newest_of_job_};
    }
  }
  bool is_of_job(uint32_t stack) {
    const auto [found, is_new] = of_job_.emplace(stack, false);
    if (is_new) {
      found->second = stack != 0 && user_place(trace_, {0}, stack).has_value();
    }
    return found->second;
  }

  const ProcessTrace& trace_;
  const OutOfMemoryText& failure_;
  std::vector<BlockBirth> births_;
  Blocks tensors_, calls_;           // indices of `failure_.held`, by address
  std::map<uint32_t, bool> of_job_;  // by stack
  uint32_t newest_of_job_ = 0;
};

}  // namespace

std::vector<BlockBirth> births_of(const ProcessTrace& trace, const OutOfMemoryText& failure) {
  BirthsBefore births(trace, failure);
  each_event(trace,
             [&](const CallRecord& event, FieldValues values) { births.see(event, values); });
  return births.take();
}

}  // namespace traintrace
