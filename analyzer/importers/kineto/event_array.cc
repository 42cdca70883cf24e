#include "analyzer/importers/kineto/event_array.h"

#include <algorithm>

namespace traintrace {
namespace {

constexpr size_t kPieceBytes = 1 << 20;
constexpr size_t kMostRestBytes = 64 << 20;
constexpr size_t kMostEventBytes = 256 << 20;
constexpr int kMostNesting = 1000;
constexpr size_t kMostKeyBytes = 32;

}  // namespace

EventArray::EventArray(TextFile file) : file_(std::move(file)) {}

void EventArray::fail(uint64_t offset, std::string message, bool truncated) {
  if (!error_) {
    error_ = ReadError{file_.path(), offset, std::move(message), false, truncated};
  }
}

// False: nothing more can come.
bool EventArray::refill() {
  if (file_.at_end() || error_) {
    return false;
  }
  text_.resize(size_);
  // A long event: the buffer grows with it, so that each byte is moved a few times only.
  read_error_ = file_.read(text_, std::max(kPieceBytes, size_));
  size_ = text_.size();
  text_.resize(size_ + kPadding);
  return true;
}

// As if they stood in an array, of which a blank is the beginning.
void EventArray::take_lines() {
  if (in_lines_ || place_ != Place::kBefore || scanned_ != 0 || !are_event_lines(text_)) {
    return;
  }
  text_.insert(0, 1, ' ');
  ++size_;
  in_lines_ = true;
  place_ = Place::kEvents;
  rest_ = "[]";
  closed_ = true;
}

void EventArray::begin_nested(char c, size_t at) {
  const bool of_events = c == '[' && place_ == Place::kBefore &&
                         (depth_ == 0 || (depth_ == 1 && last_string_ == "traceEvents"));
  if (++depth_ > kMostNesting) {
    fail(text_offset_ + at, "values are nested more than 1000 deep");
  } else if (of_events) {
    keep_rest(at + 1);
    place_ = Place::kEvents;
    events_depth_ = depth_;
  } else if (place_ == Place::kEvents && c == '{' && depth_ == events_depth_ + 1) {
    begin_ = at;
    first_ = first_.value_or(at);
  }
}

void EventArray::end_nested(char c, size_t at) {
  if (--depth_ < 0) {
    fail(text_offset_ + at, std::string("expected JSON, found a '") + c + "' that closes nothing");
  } else if (place_ == Place::kEvents && depth_ == events_depth_) {
    end_ = at + 1;
    after_event_ = in_lines_;
  } else if (place_ == Place::kEvents && depth_ < events_depth_) {
    place_ = Place::kBehind;
    kept_ = at;
  }
}

void EventArray::take(char c, size_t at) {
  switch (c) {
    case '"':
      in_string_ = true;
      last_string_.clear();
      break;
    case '{':
    case '[':
      begin_nested(c, at);
      break;
    case '}':
    case ']':
      end_nested(c, at);
      break;
    default:
      break;
  }
}

void EventArray::scan() {
  const char* const text = text_.data();
  for (; scanned_ < size_ && !error_; ++scanned_) {
    const char c = text[scanned_];
    if (!in_string_) {
      if (c == '"' || (c | 0x20) == '{' || (c | 0x20) == '}') {
        take(c, scanned_);
      } else if (after_event_ && c == '\n') {
        text_[scanned_] = ',';
        after_event_ = false;
      } else if (c == '\0') {  // a hole in the file, perhaps of a terabyte
        fail(text_offset_ + scanned_, "expected JSON, found a NUL byte");
      }
    } else if (escaped_) {
      escaped_ = false;
    } else if (c == '\\') {
      escaped_ = true;
    } else if (c == '"') {
      in_string_ = false;
    } else if (place_ == Place::kBefore && last_string_.size() < kMostKeyBytes) {
      last_string_ += c;
    }
  }
}

void EventArray::keep_rest(size_t to) {
  if (rest_.size() + (to - kept_) > kMostRestBytes) {
    fail(text_offset_ + kept_, "expected \"traceEvents\", found 64 MiB of something else");
    return;
  }
  rest_.append(text_, kept_, to - kept_);
  kept_ = to;
}

// In brackets of its own, written over what stands around it.
std::string_view EventArray::piece() {
  const size_t begin = *first_ - 1;  // there is the '[' or ',' or a blank
  piece_offset_ = text_offset_ + begin;
  text_[begin] = '[';
  covered_ = text_[end_];
  text_[end_] = ']';
  given_ = end_;
  first_ = begin_ > end_ ? std::optional(begin_) : std::nullopt;
  return std::string_view(text_).substr(begin, end_ + 1 - begin);
}

// What is done with goes, but for one byte, where the next piece has its bracket.
void EventArray::drop() {
  if (given_ != 0) {
    text_[given_] = covered_;
    given_ = 0;
  }
  const size_t keep = place_ == Place::kEvents && first_ ? *first_ : scanned_;
  const size_t gone = keep > 0 ? keep - 1 : 0;
  text_.erase(0, gone);
  text_offset_ += gone;
  size_ -= gone;
  scanned_ -= gone;
  kept_ -= std::min(kept_, gone);
  begin_ -= std::min(begin_, gone);
  end_ = 0;
  if (first_) {
    *first_ -= gone;
  }
}

// What stood before the events is whole, though they are not.
void EventArray::close_rest() {
  if (place_ == Place::kEvents && !closed_) {
    closed_ = true;
    rest_ += events_depth_ == 1 ? "]" : "]}";
  }
}

std::optional<std::string_view> EventArray::next() {
  for (drop(); refill(); drop()) {
    take_lines();
    scan();
    if (place_ != Place::kEvents) {
      keep_rest(scanned_);
    }
    if (first_ && end_ > *first_) {
      return piece();
    }
    if (first_ && size_ - *first_ > kMostEventBytes) {
      fail(text_offset_ + *first_, "an event is longer than 256 MiB");
    }
  }
  if (!error_) {
    error_ = read_error_;
  }
  if (!error_ && (depth_ != 0 || in_string_)) {
    fail(text_offset_ + size_, "the text ends in the middle", true);
  } else if (!error_ && place_ == Place::kBefore) {
    fail(0, "expected \"traceEvents\" or an array of events, found neither");
  }
  close_rest();
  return std::nullopt;
}

bool are_event_lines(std::string_view head) {
  const size_t begin = head.find_first_not_of(" \t\r\n");
  const size_t end = begin == head.npos ? begin : head.find('\n', begin);
  if (end == head.npos || head[begin] != '{') {
    return false;
  }
  const std::string_view line = head.substr(begin, end - begin);
  const size_t last = line.find_last_not_of(" \t\r");
  const size_t next = head.find_first_not_of(" \t\r\n", end);
  const auto has = [&](std::string_view key) { return line.find(key) != line.npos; };
  return line[last] == '}' && has("\"ph\"") && !has("\"traceEvents\"") &&
         (next == head.npos || head[next] == '{');
}

std::vector<EventBounds> events_in(std::string_view piece) {
  std::vector<EventBounds> events;
  size_t begin = 0;
  int depth = 0;
  bool in_string = false;
  for (size_t at = 0; at < piece.size(); ++at) {
    const char c = piece[at];
    if (in_string) {
      at += c == '\\' ? 1 : 0;
      in_string = c != '"';
    } else if (c == '"') {
      in_string = true;
    } else if (c == '{' || c == '[') {
      begin = depth == 1 ? at : begin;
      ++depth;
    } else if ((c == '}' || c == ']') && --depth == 1) {
      events.push_back({begin, at + 1 - begin});
    }
  }
  return events;
}

}  // namespace traintrace
