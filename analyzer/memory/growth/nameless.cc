#include "analyzer/memory/growth/nameless.h"

#include <algorithm>
#include <map>
#include <string>

#include "analyzer/memory/field_value.h"
#include "analyzer/memory/holders/holders.h"
#include "analyzer/model/process/activity.h"
#include "analyzer/reader/sections/stored_reports.h"

namespace traintrace {

void place_nameless(const ProcessTrace& trace, CallPaths& paths,
                    std::vector<GrowingGroup>& growing) {
  std::map<uint32_t, std::map<std::string, uint64_t>>
      places;  // by path: how many blocks came after
  for (const GrowingGroup& entry : growing) {
    if (has_no_line(trace, entry.group.stack)) {
      places[paths.of(entry.group.stack)];
    }
  }
  if (places.empty()) {
    return;
  }
  std::map<uint32_t, std::string> known;     // of stacks
  std::map<std::string, uint32_t> stack_at;  // one of each place
  std::string newest;
  each_event(trace, [&](const CallRecord& event, FieldValues values) {
    const CallSchema* const schema = schema_of(trace, event.call);
    if (schema == nullptr || event.enter_lost || event.stack == 0) {
      return;
    }
    const auto path = places.find(paths.of(event.stack));
    if (path != places.end() && schema->kind == "tensor-block" && !newest.empty() &&
        static_cast<int64_t>(field_value(values, *schema, "change").value_or(0)) > 0) {
      ++path->second[newest];
    }
    const auto [place, is_new] = known.try_emplace(event.stack);
    place->second = is_new ? place_before(trace, event.stack) : place->second;
    if (!place->second.empty()) {
      newest = place->second;
      stack_at.emplace(newest, event.stack);
    }
  });
  for (GrowingGroup& entry : growing) {
    const auto found = places.find(paths.of(entry.group.stack));
    if (found != places.end() && !found->second.empty()) {
      const auto most =
          std::max_element(found->second.begin(), found->second.end(),
                           [](const auto& a, const auto& b) { return a.second < b.second; });
      entry.growth.after = stack_at.at(most->first);
    }
  }
  std::erase_if(growing, [&](const GrowingGroup& entry) {
    return entry.growth.after == 0 && has_no_line(trace, entry.group.stack);
  });
}

}  // namespace traintrace
