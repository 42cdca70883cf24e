// The events of a trace in Chrome's format, {"traceEvents": [{..}, ..], ..}, [{..}, ..], or one on
// each line, in
// pieces: the file may be larger than memory, and than what a JSON library takes as one document.
// Finds where events begin and end; whether they are JSON is for the parser to say.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "analyzer/importers/text_file.h"

namespace traintrace {

class EventArray {
 public:
  explicit EventArray(TextFile file);

  // The next events as a JSON array, valid until the next call, with kPadding readable bytes
  // behind it.  Nothing at the end, or where the text goes wrong: see error().
  std::optional<std::string_view> next();
  const std::optional<ReadError>& error() const { return error_; }
  // Of the last piece, in the uncompressed text.
  uint64_t piece_offset() const { return piece_offset_; }
  // How much of the file, from 0 to 1.
  double part_read() const { return file_.part_read(); }
  // Once next() gave nothing: all that stands beside the events, as one JSON object with an empty
  // "traceEvents"; an empty array where there is nothing else.  Whole, too, where the events are
  // cut.
  const std::string& rest() const { return rest_; }

  static constexpr size_t kPadding = 64;

 private:
  enum class Place : uint8_t { kBefore, kEvents, kBehind };

  void take_lines();
  void drop();
  bool refill();
  void scan();
  void take(char c, size_t at);
  void begin_nested(char c, size_t at);
  void end_nested(char c, size_t at);
  void keep_rest(size_t to);
  void close_rest();
  void fail(uint64_t offset, std::string message, bool truncated = false);
  std::string_view piece();

  TextFile file_;
  std::string text_;          // what was read and is still needed, then kPadding zeros
  size_t size_ = 0;           // without those
  uint64_t text_offset_ = 0;  // of text_ in the file
  size_t scanned_ = 0;
  size_t kept_ = 0;              // text_ until here is in rest_, where it belongs there
  std::optional<size_t> first_;  // event of the piece that is being collected
  size_t begin_ = 0;             // of the last event that began
  size_t end_ = 0;               // behind the last whole event
  size_t given_ = 0;             // bytes of text_ that the last piece covers
  char covered_ = 0;             // what stands under its last bracket
  uint64_t piece_offset_ = 0;
  Place place_ = Place::kBefore;
  int depth_ = 0;
  int events_depth_ = 0;   // inside the array of events
  bool in_lines_ = false;  // each event on one, without an array
  bool after_event_ = false;
  bool in_string_ = false;
  bool closed_ = false;  // rest_ is whole
  bool escaped_ = false;
  std::string last_string_;  // before the events, cut
  std::string rest_;
  std::optional<ReadError> error_;
  std::optional<ReadError> read_error_;  // behind what is still to be looked at
};

// Whether a file begins with an event on a line of its own.
bool are_event_lines(std::string_view head);

// Where the events of a piece stand in it, also where these are no JSON.
struct EventBounds {
  size_t begin = 0;
  size_t bytes = 0;
};
std::vector<EventBounds> events_in(std::string_view piece);

}  // namespace traintrace
