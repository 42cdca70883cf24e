#include "tests/fuzz/mutate.h"

#include <algorithm>
#include <cstring>
#include <sstream>

namespace traintrace::fuzz {
namespace {

constexpr uint64_t kWords[] = {
    0,          1,          2,           7,          8,     63,        64,
    255,        256,        4095,        4096,       65535, 65536,     0x7fffffff,
    0x80000000, 0xffffffff, 0x100000000, ~0ull >> 1, ~0ull, ~0ull - 7, 0xfffffffffffff000};

void overwrite_word(std::string& bytes, Random& random) {
  const size_t size = size_t{1} << random.below(4);
  if (bytes.size() < size) {
    return;
  }
  // Most of what is worth hitting is in the header and at aligned places.
  const size_t space = random.below(2) == 0 ? std::min<size_t>(bytes.size(), 1024) : bytes.size();
  const size_t at = random.below(std::max<size_t>(space / size, 1)) * size;
  uint64_t word = kWords[random.below(std::size(kWords))];
  if (random.below(4) == 0) {
    word = random.next();
  } else if (random.below(4) == 0) {
    uint64_t old = 0;
    std::memcpy(&old, bytes.data() + at, size);
    word = old + random.below(17) - 8;
  }
  std::memcpy(bytes.data() + at, &word, size);
}

void copy_part(std::string& bytes, Random& random) {
  const size_t length = std::min<size_t>(random.below(256) + 1, bytes.size());
  const size_t from = random.below(bytes.size() - length + 1);
  const size_t to = random.below(bytes.size() - length + 1);
  std::memmove(bytes.data() + to, bytes.data() + from, length);
}

std::vector<std::string> parts_of(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) {
    parts.push_back(part);
  }
  return parts;
}

std::string joined(const std::vector<std::string>& parts, char separator) {
  std::string text;
  for (const std::string& part : parts) {
    text += part + separator;
  }
  return text;
}

void shuffle_parts(std::vector<std::string>& parts, const std::vector<std::string>& others,
                   Random& random) {
  if (parts.empty()) {
    return;
  }
  const size_t at = random.below(parts.size());
  switch (random.below(4)) {
    case 0:
      parts.erase(parts.begin() + static_cast<long>(at));
      break;
    case 1:
      parts.insert(parts.begin() + static_cast<long>(at), parts[random.below(parts.size())]);
      break;
    case 2:
      std::swap(parts[at], parts[random.below(parts.size())]);
      break;
    default:
      parts[at] = others[random.below(others.size())];
  }
}

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

}  // namespace

uint64_t Random::next() {
  state_ += 0x9e3779b97f4a7c15;
  uint64_t z = state_;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
  z = (z ^ z >> 27) * 0x94d049bb133111eb;
  return z ^ z >> 31;
}

std::string damaged_bytes(const std::string& input, Random& random) {
  std::string bytes = input;
  for (uint64_t i = random.below(6) + 1; i > 0 && !bytes.empty(); --i) {
    switch (random.below(8)) {
      case 0: {
        char& byte = bytes[random.below(bytes.size())];
        byte = static_cast<char>(byte ^ (1 << random.below(8)));
      } break;
      case 1:
        bytes.resize(random.below(bytes.size()) + 1);
        break;
      case 2:
        copy_part(bytes, random);
        break;
      default:
        overwrite_word(bytes, random);
    }
  }
  return bytes;
}

std::string damaged_numbers(const std::string& input, Random& random) {
  std::string text = input;
  for (uint64_t i = random.below(4) + 1; i > 0 && !text.empty(); --i) {
    const size_t from = random.below(text.size());
    const auto begin = std::find_if(text.begin() + static_cast<long>(from), text.end(), is_digit);
    const auto end = std::find_if_not(begin, text.end(), is_digit);
    uint64_t number = kWords[random.below(std::size(kWords))];
    if (random.below(2) == 0 && end - begin < 18 && begin != end) {
      number = std::stoull(std::string(begin, end)) + random.below(5) - 2;
    }
    const bool negative = random.below(8) == 0;
    text.replace(begin, end, (negative ? "-" : "") + std::to_string(number));
  }
  return text;
}

std::string damaged_text(const std::string& input, const std::vector<std::string>& others,
                         Random& random) {
  std::vector<std::string> lines = parts_of(input, '\n');
  for (uint64_t i = random.below(4) + 1; i > 0; --i) {
    if (random.below(3) == 0 || lines.empty()) {
      shuffle_parts(lines, others, random);
      continue;
    }
    std::string& line = lines[random.below(lines.size())];
    if (random.below(3) == 0) {
      line = damaged_bytes(line, random);
    } else {
      std::vector<std::string> words = parts_of(line, ' ');
      shuffle_parts(words, others, random);
      line = joined(words, ' ');
    }
  }
  return joined(lines, '\n');
}

}  // namespace traintrace::fuzz
