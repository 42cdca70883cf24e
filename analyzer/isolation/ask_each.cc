#include "analyzer/isolation/ask_each.h"

#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <future>
#include <iterator>
#include <mutex>
#include <string_view>
#include <thread>

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

namespace {

constexpr size_t kSideBySide = 128;

// In a child: says the number of each that answers.
void ask_side_by_side(const std::vector<std::string>& names,
                      const std::function<void(const std::string& name)>& ask, const Say& say) {
  std::atomic<size_t> next = 0;
  std::mutex saying;
  const auto ask_some = [&] {
    for (size_t i = next++; i < names.size(); i = next++) {
      ask(names[i]);
      const std::lock_guard lock(saying);
      say(std::to_string(i) + '\0');
    }
  };
  std::vector<std::jthread> threads;
  std::generate_n(std::back_inserter(threads), std::min(names.size(), kSideBySide),
                  [&] { return std::jthread(ask_some); });
}

std::vector<bool> answered_in(std::string_view text, size_t count) {
  std::vector<bool> answered(count);
  for (size_t end = 0; (end = text.find('\0')) != text.npos; text.remove_prefix(end + 1)) {
    size_t index = count;
    std::from_chars(text.data(), text.data() + end, index);
    if (index < count) {
      answered[index] = true;
    }
  }
  return answered;
}

}  // namespace

std::set<std::string> answering_among(const std::vector<std::string>& names,
                                      std::chrono::milliseconds patience,
                                      const std::function<void(const std::string& name)>& ask) {
  constexpr int kMostRounds = 3;
  std::vector<std::string> left = names;
  std::set<std::string> found;
  for (int silent_rounds = 0; silent_rounds < kMostRounds && !left.empty();) {
    const Answer answer =
        answer_within(patience, [&](const Say& say) { ask_side_by_side(left, ask, say); });
    const std::vector<bool> answered = answered_in(answer.text, left.size());
    const size_t before = found.size();
    std::vector<std::string> others;
    for (size_t i = 0; i < left.size(); ++i) {
      answered[i] ? static_cast<void>(found.insert(left[i])) : others.push_back(left[i]);
    }
    if (answer.silent_for >= patience / 2) {
      // They are asked in this order, and all that may hold up others are held up.
      others.erase(others.begin(), others.begin() + static_cast<std::ptrdiff_t>(
                                                        std::min(others.size(), kSideBySide)));
      ++silent_rounds;
    } else if (found.size() == before) {  // there was no child, or it has ended
      found.insert(others.begin(), others.end());
      others.clear();
    }
    left = std::move(others);
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
