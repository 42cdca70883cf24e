#include "analyzer/isolation/ask_each.h"

#include <sys/stat.h>

#include <future>
#include <mutex>
#include <string_view>

#include "analyzer/isolation/answer_within.h"

namespace traintrace {

std::map<std::string, std::string> ask_each(
    std::set<std::string> names, const AskLimits& limits,
    const std::function<std::string(const std::string& name)>& ask) {
  std::map<std::string, std::string> found;
  for (int silent = 0; silent < limits.silent && !names.empty();) {
    const Answer answer = answer_within(limits.patience, [&](const Say& say) {
      for (const std::string& name : names) {
        say(ask(name) + '\0');
      }
    });
    const size_t before = found.size();
    std::string_view rest = answer.text;
    for (size_t end = 0; !names.empty() && (end = rest.find('\0')) != rest.npos;
         rest.remove_prefix(end + 1)) {
      found.emplace(*names.begin(), rest.substr(0, end));
      names.erase(names.begin());
    }
    if (names.empty()) {
      break;
    }
    // Where others answered first, the next one did not have all of the time.
    if (answer.silent_for >= limits.patience / 2) {
      names.erase(names.begin());
      ++silent;
    } else if (found.size() == before) {  // there was no child, or it has ended
      found.emplace(*names.begin(), ask(*names.begin()));
      names.erase(names.begin());
    }
  }
  return found;
}

bool answers_soon(const std::string& path) {
  constexpr auto kMostWait = std::chrono::seconds(1);
  static std::mutex mutex;
  static auto& known = *new std::map<std::string, std::shared_future<bool>>;
  const size_t slash = path.rfind('/');
  const std::string folder = slash == path.npos ? "." : path.substr(0, slash + 1);
  std::promise<bool> promise;
  {
    std::unique_lock lock(mutex);
    const auto [entry, is_new] = known.try_emplace(folder);
    if (!is_new) {
      const std::shared_future<bool> answer = entry->second;
      lock.unlock();
      return answer.get();
    }
    entry->second = promise.get_future().share();
  }
  const Answer answer = answer_within(kMostWait, [&](const Say&) {
    struct stat status = {};
    stat(folder.c_str(), &status);
  });
  const bool answers = answer.whole || answer.silent_for < kMostWait / 2;  // no child: not known
  promise.set_value(answers);
  return answers;
}

}  // namespace traintrace
