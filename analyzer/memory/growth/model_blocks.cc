#include "analyzer/memory/growth/model_blocks.h"

#include <algorithm>
#include <map>

#include "analyzer/memory/growth/optimizer_state.h"
#include "analyzer/memory/holders/held_at.h"
#include "analyzer/model/process/activity.h"
#include "analyzer/thresholds.h"

namespace traintrace {
namespace {

// Whether there are more blocks of a size than everything but optimizers has: a parameter has one
// of each line of its optimizer, as large as itself.  What is of no parameter's size may be a
// history, as LBFGS has, but no gradient; gradients are no parameters of others.
bool exceeds_parameters(const ProcessTrace& trace, CallPaths& paths, const BlockGroup& group,
                        TimeNs time) {
  const uint32_t path = paths.of(group.stack);
  const auto of = static_cast<uint8_t>(std::max(group.device, 0));
  std::map<uint64_t, uint64_t> parameters;  // by size
  std::map<uint64_t, uint64_t> gradients;   // of other lines
  std::map<uint64_t, uint64_t> own;
  bool is_gradient = false;
  for (const HeldBlockText& block : held_at(trace, of, time).held) {
    const CallSchema* const schema = schema_of(trace, block.call);
    if (schema == nullptr || !schema->kind.starts_with("tensor-")) {
      continue;
    }
    if (paths.of(block.stack) == path) {
      ++own[block.bytes];
      is_gradient = has_no_line(trace, block.stack);
    } else if (!is_optimizer_state(trace, block.stack)) {
      ++(has_no_line(trace, block.stack) ? gradients : parameters)[block.bytes];
    }
  }
  return std::any_of(own.begin(), own.end(), [&](const auto& entry) {
    const auto& [bytes, count] = entry;
    if (is_gradient) {
      return count > parameters[bytes] && count >= kFewestCopies;
    }
    const uint64_t others = parameters[bytes] + gradients[bytes];
    return others != 0 && count > others;
  });
}

}  // namespace

bool is_of_model(const ProcessTrace& trace, CallPaths& paths, const BlockGroup& group,
                 TimeNs time) {
  const bool may_be = is_optimizer_state(trace, group.stack) ||
                      (group.kind == MemoryKind::kTensor && has_no_line(trace, group.stack));
  return may_be && !exceeds_parameters(trace, paths, group, time);
}

}  // namespace traintrace
