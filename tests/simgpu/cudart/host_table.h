// A hash table from host addresses to records that are never freed.  Reading takes no lock and
// writes nothing; writers hold a lock of their own.
#pragma once
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace simgpu::cudart {

template <class Record>
class HostTable {
 public:
  // Null if there is none.  A record is found by its member `host`.
  Record* find(const void* host) const {
    const Slots* slots = slots_.load(std::memory_order_acquire);
    if (!slots) {
      return nullptr;
    }
    for (size_t i = slots->start(host);; i = (i + 1) & slots->mask) {
      Record* record = slots->at[i].load(std::memory_order_acquire);
      if (!record || (record != removed() && record->host == host)) {
        return record;
      }
    }
  }

  // The newest record for a host address wins.
  void insert(Record* record) {
    erase(record->host);
    if (Slots* slots = slots_.load(std::memory_order_relaxed);
        !slots || (used_ + 1) * 2 > slots->mask + 1) {
      grow();
    }
    put(*slots_.load(std::memory_order_relaxed), record);
    ++used_;
  }

  void erase(const void* host) {
    Slots* slots = slots_.load(std::memory_order_relaxed);
    if (!slots) {
      return;
    }
    for (size_t i = slots->start(host);; i = (i + 1) & slots->mask) {
      Record* record = slots->at[i].load(std::memory_order_relaxed);
      if (!record) {
        return;
      }
      if (record != removed() && record->host == host) {
        slots->at[i].store(removed(), std::memory_order_release);
        return;
      }
    }
  }

 private:
  static constexpr size_t kFirstSize = 256;

  struct Slots {
    explicit Slots(size_t size) : mask(size - 1), at(new std::atomic<Record*>[size]()) {}
    size_t start(const void* host) const {
      const auto key = reinterpret_cast<uintptr_t>(host);
      return (key * 0x9e3779b97f4a7c15u >> 20) & mask;
    }
    const size_t mask;
    const std::unique_ptr<std::atomic<Record*>[]> at;
  };

  // Stands in a slot whose record was erased, so that a search goes on behind it.
  static Record* removed() {
    static Record& value = *new Record;
    return &value;
  }

  static void put(Slots& slots, Record* record) {
    size_t i = slots.start(record->host);
    while (slots.at[i].load(std::memory_order_relaxed)) {
      i = (i + 1) & slots.mask;
    }
    slots.at[i].store(record, std::memory_order_release);
  }

  // Readers may still search the old slots, so these stay.
  void grow() {
    const Slots* old = slots_.load(std::memory_order_relaxed);
    auto larger = std::make_unique<Slots>(old ? (old->mask + 1) * 2 : kFirstSize);
    used_ = 0;
    for (size_t i = 0; old && i <= old->mask; ++i) {
      if (Record* record = old->at[i].load(std::memory_order_relaxed);
          record && record != removed()) {
        put(*larger, record);
        ++used_;
      }
    }
    slots_.store(larger.get(), std::memory_order_release);
    all_.push_back(std::move(larger));
  }

  std::atomic<Slots*> slots_ = nullptr;
  std::vector<std::unique_ptr<Slots>> all_;
  size_t used_ = 0;  // slots that are not empty
};

}  // namespace simgpu::cudart
