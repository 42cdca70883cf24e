// What is known of code, by its file: the processes of a job run the same, and the symbols of a
// large library take a second to read.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>

namespace traintrace {

template <class Key, class Value>
class CodeCache {
 public:
  // `find()` is called where that is not known yet, of one file by one thread at a time: who reads
  // another file does not wait for it.  With an empty name nothing is kept.
  template <class Find>
  Value get(const std::string& file, const Key& key, const Find& find) {
    if (file.empty()) {
      return find();
    }
    const std::shared_ptr<File> of = entry(file);
    const std::lock_guard lock(of->mutex);
    const auto known = of->known.find(key);
    return known != of->known.end() ? known->second : of->known.emplace(key, find()).first->second;
  }

 private:
  struct File {
    std::mutex mutex;
    std::map<Key, Value> known;
  };

  std::shared_ptr<File> entry(const std::string& file) {
    const std::lock_guard lock(mutex_);
    std::shared_ptr<File>& found = files_[file];
    found = found == nullptr ? std::make_shared<File>() : found;
    return found;
  }

  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<File>> files_;
};

}  // namespace traintrace
