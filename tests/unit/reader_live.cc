// uses: analyzer
// Reading what changes at the same time: a chunk is whole or it is not there, an element is of one
// moment.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "analyzer/reader/sections/elements.h"
#include "analyzer/reader/sections/event_chunks.h"

namespace traintrace {
namespace {

constexpr size_t kBytes = 64 << 10;

// A file of kBytes, mapped as a tracer maps it.
class SharedFile {
 public:
  SharedFile() : descriptor_(memfd_create("reader_live", 0)) {
    if (ftruncate(descriptor_, kBytes) == 0) {
      memory_ = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor_, 0);
    }
  }
  SharedFile(const SharedFile&) = delete;
  SharedFile& operator=(const SharedFile&) = delete;
  ~SharedFile() {
    munmap(memory_, kBytes);
    close(descriptor_);
  }
  uint64_t* words() const { return static_cast<uint64_t*>(memory_); }
  Result<TraceBytes> open() const {
    return TraceBytes::open("/proc/self/fd/" + std::to_string(descriptor_));
  }

 private:
  int descriptor_;
  void* memory_ = nullptr;
};

void store(uint64_t* word, uint64_t value) {
  __atomic_store_n(word, value, __ATOMIC_RELAXED);
}

// Runs `change(n)` for n = 1, 2, .. until it goes out of scope.
template <class Change>
class Writer {
 public:
  explicit Writer(Change change)
      : thread_([this, change] {
          for (uint64_t n = 1; !stop_; ++n) {
            change(n);
          }
        }) {}
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;
  ~Writer() {
    stop_ = true;
    thread_.join();
  }

 private:
  std::atomic<bool> stop_ = false;
  std::thread thread_;
};

// As the tracer does it: format/trace_format.h, EventChunk.
void write_chunk(uint64_t* words, uint64_t ordinal) {
  auto* chunk = reinterpret_cast<format::EventChunk*>(words);
  __atomic_store_n(&chunk->ordinal, 0, __ATOMIC_RELAXED);
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
  __atomic_store_n(&chunk->committed, 0, __ATOMIC_RELAXED);
  __atomic_store_n(&chunk->ordinal, ordinal, __ATOMIC_RELEASE);
  uint64_t* const records = words + sizeof(format::EventChunk) / 8;
  const size_t count = (kBytes - sizeof(format::EventChunk)) / 8;
  for (size_t i = 0; i < count; ++i) {
    store(records + i, ordinal);
    __atomic_store_n(&chunk->committed, static_cast<uint32_t>((i + 1) * 8), __ATOMIC_RELEASE);
  }
}

TEST(ReaderLive, AChunkIsOfOneUseOrNotThere) {
  const SharedFile shared;
  const Result<TraceBytes> file = shared.open();
  ASSERT_TRUE(file);
  const format::Section section{format::kEvents, kBytes, 0, kBytes};
  std::vector<uint64_t> buffer;
  int whole = 0;
  int given_up = 0;
  const Writer writer([&](uint64_t n) { write_chunk(shared.words(), n); });
  for (int tries = 0; (whole < 300 || given_up < 300) && tries < 2'000'000; ++tries) {
    for (const ChunkPlace& place : find_chunks(*file, section)) {
      const auto chunk = read_chunk(*file, place, buffer);
      if (!chunk) {
        ++given_up;
        continue;
      }
      ++whole;
      ASSERT_TRUE(std::all_of(chunk->words.begin(), chunk->words.end(),
                              [&](uint64_t word) { return word == place.ordinal; }));
    }
  }
  EXPECT_GT(whole, 0);
}

constexpr size_t kWords = 512;

// Large, so that reading one and changing it overlap often.
struct Element {
  uint64_t guard;  // stored last, 0 while the others change
  uint64_t words[kWords - 1];
};

void write_element(uint64_t* words, uint64_t n) {
  store(words, 0);
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
  for (size_t i = 1; i < kWords; ++i) {
    store(words + i, n);
  }
  __atomic_store_n(words, n, __ATOMIC_RELEASE);
}

TEST(ReaderLive, AnElementIsOfOneMoment) {
  const SharedFile shared;
  const Result<TraceBytes> file = shared.open();
  ASSERT_TRUE(file);
  const format::Section section{format::kThreads, sizeof(Element), 0, kBytes};
  constexpr size_t kCount = kBytes / sizeof(Element);
  const Writer writer([&](uint64_t n) {
    write_element(shared.words() + n % kCount * kWords, n);
    for (volatile int pause = 0; pause < 10'000;) {
      pause = pause + 1;
    }
  });
  int taken = 0;
  for (int tries = 0; taken < 60'000 && tries < 1'000'000; ++tries) {
    read_elements<Element>(
        *file, section, [](const Element& element) { return element.guard != 0; },
        [](const Element& a, const Element& b) { return a.guard == b.guard; },
        [&](uint64_t, const Element& element) {
          ++taken;
          ASSERT_TRUE(std::all_of(std::begin(element.words), std::end(element.words),
                                  [&](uint64_t word) { return word == element.guard; }));
        });
  }
  EXPECT_GT(taken, 0);
}

}  // namespace
}  // namespace traintrace
