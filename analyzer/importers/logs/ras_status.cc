#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "analyzer/importers/json_value.h"
#include "analyzer/importers/logs/ras_text.h"
#include "analyzer/importers/logs/testimony.h"

namespace traintrace {
namespace {

// Who asked by hand has the service's first answers before it.
std::string_view without_greeting(std::string_view bytes) {
  while (bytes.starts_with("SERVER PROTOCOL ") || bytes.starts_with("OK\n") ||
         bytes.starts_with("OK\r\n")) {
    const size_t end = bytes.find('\n');
    bytes.remove_prefix(end == bytes.npos ? bytes.size() : end + 1);
  }
  return bytes;
}

// NCCL 2.28.9 forgets the comma before the status of a missing rank.
std::string with_commas(std::string_view bytes) {
  std::string mended;
  bool in_text = false;
  bool after_value = false;
  for (size_t i = 0; i < bytes.size(); ++i) {
    const char c = bytes[i];
    const bool blank = c == ' ' || c == '\n' || c == '\r' || c == '\t';
    if (in_text) {
      if (c == '\\' && i + 1 < bytes.size()) {
        mended += c;
        ++i;
      } else if (c == '"') {
        in_text = false;
        after_value = true;
      }
    } else if (c == '"') {
      if (after_value) {
        mended += ',';
      }
      in_text = true;
    } else if (!blank) {
      after_value = c != ',' && c != ':' && c != '{' && c != '[';
    }
    mended += bytes[i];
  }
  return mended;
}

int64_t number_at(const Value& value, std::string_view key, int64_t otherwise) {
  const Value* const found = value.find(key);
  return found == nullptr ? otherwise : found->as_integer(otherwise);
}

bool is_set(const Value* status, std::string_view key) {
  const Value* const found = status == nullptr ? nullptr : status->find(key);
  return found != nullptr && found->as_bool();
}

std::string_view text_at(const Value& value, std::string_view key) {
  const Value* const found = value.find(key);
  return found == nullptr ? std::string_view() : found->as_text();
}

int small(int64_t number) {
  return number < 0 || number > (1 << 30) ? -1 : static_cast<int>(number);
}

std::string counts_text(const Value* counts) {
  constexpr size_t kMostKinds = 16;
  std::string text;
  const std::span<const Value> pairs =
      counts == nullptr ? std::span<const Value>() : counts->pairs();
  for (size_t i = 0; i + 1 < std::min(pairs.size(), 2 * kMostKinds); i += 2) {
    const int64_t count = pairs[i + 1].as_integer(0);
    if (count > 0) {
      text += fmt::format("{}{} {}", text.empty() ? "" : ", ", count, pairs[i].as_text());
    }
  }
  return (text.empty() ? "no collective" : text) + " launched";
}

std::string state_text(const Value* status) {
  if (status == nullptr) {
    return "";
  }
  std::string text;
  if (const int64_t error = number_at(*status, "async_error", 0); error != 0) {
    text += fmt::format(", asynchronous error {}", error);
  }
  if (number_at(*status, "init_state", 0) != 0) {
    text += ", not initialised";
  }
  return text + (is_set(status, "abort_flag") ? ", aborted" : "") +
         (is_set(status, "finalize_called") || is_set(status, "destroy_flag") ? ", being destroyed"
                                                                              : "");
}

class StatusReader {
 public:
  explicit StatusReader(Testimony& into) : into_(into) {}

  void read(const Value& communicator) {
    std::string_view hash = text_at(communicator, "hash");
    if (hash.starts_with("0x")) {
      hash.remove_prefix(2);
    }
    communicator_ = {};
    std::from_chars(hash.data(), hash.data() + hash.size(), communicator_.communicator, 16);
    communicator_.size = small(number_at(communicator, "size", -1));
    for (const char* const list : {"ranks", "missing_ranks"}) {
      const Value* const ranks = communicator.find(list);
      for (const Value& rank : ranks == nullptr ? std::span<const Value>() : ranks->list()) {
        add(rank, list == std::string_view("missing_ranks"));
      }
    }
  }

 private:
  void add(const Value& rank, bool missing) {
    if (rank.kind() != Value::Kind::kDict || into_.witnesses.size() >= kMostWitnesses) {
      return;
    }
    const Value* const status = rank.find("status");
    Witness witness = communicator_;
    witness.host = text_at(rank, "host");
    witness.pid = std::max(small(number_at(rank, "pid", 0)), 0);
    witness.local_rank = small(number_at(rank, "rank", -1));
    witness.says = !missing ? counts_text(rank.find("collective_counts")) + state_text(status)
                   : is_set(status, "considered_dead") ? "does not answer, and is considered dead"
                                                       : "does not answer";
    into_.witnesses.push_back(std::move(witness));
  }

  Testimony& into_;
  Witness communicator_;
};

}  // namespace

bool looks_like_ras(std::string_view bytes) {
  bytes = without_greeting(bytes);
  return looks_like_ras_text(bytes) ||
         (looks_like_json(bytes) && bytes.find("\"communicators\"") != bytes.npos &&
          bytes.find("\"nccl_version\"") != bytes.npos && bytes.find("\"entries\"") == bytes.npos);
}

Result<Testimony> read_ras(std::string_view bytes, const std::string& file) {
  bytes = without_greeting(bytes);
  if (looks_like_ras_text(bytes)) {
    return read_ras_text(bytes, file);
  }
  ValueArena arena;
  Result<Value> root = read_json(bytes, file, arena);
  if (!root) {
    const ReadError first = root.error();
    const std::string mended = with_commas(bytes);
    arena.clear();
    root = read_json(mended, file, arena);
    if (!root) {
      return first;
    }
  }
  const Value* const communicators = root->find("communicators");
  if (communicators == nullptr || communicators->kind() != Value::Kind::kList) {
    return ReadError{file, 0, "expected the status of NCCL's RAS service: a list of communicators",
                     true, false};
  }
  Testimony testimony{file, "NCCL RAS", {}};
  StatusReader reader(testimony);
  for (const Value& communicator : communicators->list()) {
    reader.read(communicator);
  }
  return testimony;
}

}  // namespace traintrace
