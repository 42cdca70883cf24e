// The collectives that a log of NCCL has of each rank, side by side: the first that they called
// differently.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace traintrace {

// What one rank called on one communicator.
class NcclCalls {
 public:
  // `operation`: as the log numbers it.  `what`: function and arguments.
  void add(uint64_t operation, uint32_t what) {
    calls_.emplace_back(operation, what);
    sorted_ = sorted_ && (calls_.size() < 2 || calls_[calls_.size() - 2].first <= operation);
  }
  void add_message() { with_messages_ = true; }
  // Within one host NCCL 2.27 and later call each 0: then by their order in the log, of which no
  // line may be lost.
  void number_by_order();

  // A number that stands once: several of a group have the same.  0: it does not.
  uint32_t only_one_at(uint64_t operation) const;
  const std::vector<std::pair<uint64_t, uint32_t>>& all() const { return calls_; }
  // Messages raise the number, too, on the ranks that take part in them; and a number that falls is
  // of another communicator, or of torn lines.
  bool is_comparable() const { return !with_messages_ && sorted_; }
  bool is_by_order() const { return by_order_; }

 private:
  std::vector<std::pair<uint64_t, uint32_t>> calls_;
  bool with_messages_ = false;
  bool sorted_ = true;
  bool by_order_ = false;
};

// Numbers for what is called, from 1.
class NcclCallNames {
 public:
  uint32_t number_of(std::string_view text);  // 0: there are too many
  const std::string& operator[](uint32_t number) const { return texts_[number - 1]; }

 private:
  std::map<std::string, uint32_t, std::less<>> numbers_;
  std::vector<std::string> texts_;
};

// By rank in the communicator, all of it.  Empty: nothing differs, or it cannot be compared.
std::string first_difference(const std::map<int, const NcclCalls*>& ranks,
                             const NcclCallNames& names);

}  // namespace traintrace
