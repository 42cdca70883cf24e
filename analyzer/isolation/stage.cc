#include "analyzer/isolation/stage.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <mutex>
#include <set>
#include <typeinfo>

#include "analyzer/isolation/board.h"
#include "analyzer/isolation/injected_failure.h"
#include "analyzer/isolation/silence.h"

namespace traintrace {
namespace {

std::mutex errors_mutex;
std::set<InternalError> errors;
bool through = false;

void note(const std::string& stage, const std::string& reason) {
  const std::lock_guard lock(errors_mutex);
  errors.insert({stage, reason});
}

// Says on the board what this thread is doing.
class Mark {
 public:
  explicit Mark(const std::string& stage) {
    if (board == nullptr) {
      return;
    }
    if (own == nullptr) {
      take_slot();
    }
    if (own != nullptr) {
      before_ = own->stage.data();
      std::memcpy(own->stage.data(), stage.c_str(), stage.size() + 1);
    }
  }
  ~Mark() {
    if (own == nullptr) {
      return;
    }
    std::memcpy(own->stage.data(), before_.c_str(), before_.size() + 1);
    if (outermost_) {
      own->used = false;
      own = nullptr;
    }
  }
  Mark(const Mark&) = delete;
  Mark& operator=(const Mark&) = delete;

 private:
  void take_slot() {
    for (Board::Slot& slot : board->slots) {
      if (!slot.used.exchange(true)) {
        slot.stage.front() = '\0';
        own = &slot;
        outermost_ = true;
        return;
      }
    }
  }

  static thread_local Board::Slot* own;  // of this thread
  std::string before_;
  bool outermost_ = false;
};

thread_local Board::Slot* Mark::own = nullptr;

}  // namespace

const char* const kReportInternalError =
    "this is a defect of traintrace: please report it with what `traintrace --version` says, the "
    "command line, the step named here and, if it may be passed on, the output of `traintrace "
    "dump` for the same traces";

std::string stage_name(const std::string& stage) {
  std::string name = stage.substr(0, Board::kLongest);
  std::replace(name.begin(), name.end(), '\0', ' ');
  return name;
}

bool run_stage(const std::string& stage, const std::function<void()>& work) {
  const std::string name = stage_name(stage);
  const auto deadly = std::find_if(deadly_stages.begin(), deadly_stages.end(),
                                   [&](const InternalError& error) { return error.stage == name; });
  if (deadly != deadly_stages.end()) {
    note(name, deadly->reason);
    return false;
  }
  if (was_silent(name)) {
    return false;
  }
  const Mark mark(name);
  if (through) {
    work();
    return true;
  }
  try {
    fail_as_injected(name);
    work();
    return true;
  } catch (const std::exception& error) {
    note(name, error.what());
  } catch (...) {
    note(name, "an exception of unknown type");
  }
  return false;
}

std::vector<InternalError> internal_errors() {
  const std::lock_guard lock(errors_mutex);
  return {errors.begin(), errors.end()};
}

void forget_internal_errors() {
  const std::lock_guard lock(errors_mutex);
  errors.clear();
}

void let_failures_through() {
  through = true;
}

}  // namespace traintrace
