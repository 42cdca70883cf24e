// What is known of code, by the build-id of its file: the processes of a job run the same, and the
// symbols of a large library take a second to read.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <utility>

namespace traintrace {

template <class Key, class Value>
class CodeCache {
 public:
  // `find()` is called where that is not known yet, by one thread at a time.  Without a build-id
  // nothing is kept.
  template <class Find>
  Value get(const std::string& build_id, const Key& key, const Find& find) {
    if (build_id.empty()) {
      return find();
    }
    const std::lock_guard lock(mutex_);
    const auto at = std::pair(build_id, key);
    const auto known = known_.find(at);
    return known != known_.end() ? known->second : known_.emplace(at, find()).first->second;
  }

 private:
  std::mutex mutex_;
  std::map<std::pair<std::string, Key>, Value> known_;
};

}  // namespace traintrace
