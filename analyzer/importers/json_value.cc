#include "analyzer/importers/json_value.h"

#include <nlohmann/json.hpp>
#include <vector>

namespace traintrace {
namespace {

constexpr size_t kDeepest = 64;

// What nlohmann's parser calls; its names.
class ValueBuilder {
 public:
  explicit ValueBuilder(ValueArena& arena) : arena_(arena) {}

  bool null() { return add(Value()); }
  bool boolean(bool value) { return add(Value::boolean(value)); }
  bool number_integer(int64_t value) { return add(Value::integer(value)); }
  bool number_unsigned(uint64_t value) { return add(Value::integer(static_cast<int64_t>(value))); }
  bool number_float(double value, const std::string& /*text*/) { return add(Value::real(value)); }
  bool string(std::string& value) { return add(Value::text(arena_.keep(value))); }
  bool binary(std::vector<uint8_t>& /*value*/) { return false; }
  bool start_object(size_t /*elements*/) { return open(Value::Kind::kDict); }
  bool key(std::string& value) { return add(Value::text(arena_.keep(value))); }
  bool end_object() { return close(); }
  bool start_array(size_t /*elements*/) { return open(Value::Kind::kList); }
  bool end_array() { return close(); }
  bool parse_error(size_t position, const std::string& /*token*/,
                   const nlohmann::detail::exception& /*why*/) {
    position_ = position;
    return false;
  }

  const Value& root() const { return root_; }
  size_t position() const { return position_; }
  bool too_deep() const { return too_deep_; }

 private:
  bool add(Value value) {
    if (open_.empty()) {
      root_ = value;
    } else {
      arena_.append(*open_.back(), {&value, 1});
    }
    return true;
  }
  bool open(Value::Kind kind) {
    too_deep_ = open_.size() == kDeepest;
    ValueItems* const items = arena_.new_items();
    add(Value::container(kind, items));
    open_.push_back(items);
    return !too_deep_;
  }
  bool close() {
    open_.pop_back();
    return true;
  }

  ValueArena& arena_;
  Value root_;
  std::vector<ValueItems*> open_;
  size_t position_ = 0;
  bool too_deep_ = false;
};

}  // namespace

size_t json_begin(std::string_view bytes) {
  constexpr std::string_view kMark = "\xEF\xBB\xBF";
  return bytes.find_first_not_of(" \t\r\n", bytes.starts_with(kMark) ? kMark.size() : 0);
}

bool looks_like_json(std::string_view bytes) {
  const size_t first = json_begin(bytes);
  return first != bytes.npos && bytes[first] == '{';
}

Result<Value> read_json(std::string_view bytes, const std::string& file, ValueArena& arena) {
  ValueBuilder builder(arena);
  if (nlohmann::json::sax_parse(bytes.begin(), bytes.end(), &builder)) {
    return builder.root();
  }
  ReadError error{file, builder.position(), "expected JSON", true, false};
  if (builder.too_deep()) {
    error.message = "expected JSON that is nested at most 64 deep";
  } else if (builder.position() >= bytes.size()) {
    error.message = "expected more: the JSON is cut off";
    error.truncated = true;
  }
  return error;
}

}  // namespace traintrace
