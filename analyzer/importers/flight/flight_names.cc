#include "analyzer/importers/flight/flight_names.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <string_view>

#include "analyzer/model/process/launch_facts.h"

namespace traintrace {
namespace {

struct NumberInName {
  size_t begin = 0;
  size_t end = 0;
  int value = 0;
  bool named = false;  // "rank" is before it
};

std::string_view base_name(std::string_view path) {
  const size_t slash = path.rfind('/');
  return slash == path.npos ? path : path.substr(slash + 1);
}

bool says_rank(std::string_view before) {
  while (!before.empty() && (before.back() == '_' || before.back() == '-' || before.back() == '=' ||
                             before.back() == '.')) {
    before.remove_suffix(1);
  }
  constexpr std::string_view kWord = "rank";
  return before.size() >= kWord.size() &&
         std::equal(kWord.begin(), kWord.end(), before.end() - kWord.size(), [](char a, char b) {
           return a == static_cast<char>(std::tolower(static_cast<unsigned char>(b)));
         });
}

// Behind the word "rank" first, then from the last to the first.
std::vector<NumberInName> numbers_in(std::string_view name) {
  std::vector<NumberInName> numbers;
  for (size_t at = 0; at < name.size();) {
    if (name[at] < '0' || name[at] > '9') {
      ++at;
      continue;
    }
    NumberInName number;
    number.begin = at;
    const auto [end, problem] =
        std::from_chars(name.data() + at, name.data() + name.size(), number.value);
    at = number.end = static_cast<size_t>(end - name.data());
    number.named = says_rank(name.substr(0, number.begin));
    if (problem == std::errc() && number.value < kMostRanks) {
      numbers.push_back(number);
    }
  }
  std::reverse(numbers.begin(), numbers.end());
  std::stable_partition(numbers.begin(), numbers.end(),
                        [](const NumberInName& number) { return number.named; });
  return numbers;
}

}  // namespace

std::vector<int> ranks_in_name(const std::string& path) {
  std::vector<int> ranks;
  for (const NumberInName& number : numbers_in(base_name(path))) {
    ranks.push_back(number.value);
  }
  return ranks;
}

std::string name_without_rank(const std::string& path) {
  const std::string_view name = base_name(path);
  std::vector<NumberInName> numbers = numbers_in(name);
  if (!numbers.empty() && numbers[0].named) {
    numbers.resize(1);
  }
  std::string rest = path;  // the numbers come from the last to the first
  for (const NumberInName& number : numbers) {
    rest = rest.substr(0, path.size() - name.size() + number.begin) + '*' +
           rest.substr(path.size() - name.size() + number.end);
  }
  return rest;
}

std::vector<int> named_ranks_in_name(const std::string& path) {
  std::vector<int> ranks;
  for (const NumberInName& number : numbers_in(base_name(path))) {
    if (number.named) {
      ranks.push_back(number.value);
    }
  }
  return ranks;
}

std::vector<int> numbers_in_folders(const std::string& path) {
  std::vector<int> numbers;
  for (const NumberInName& number :
       numbers_in(std::string_view(path).substr(0, path.size() - base_name(path).size()))) {
    numbers.push_back(number.value);
  }
  return numbers;
}

}  // namespace traintrace
