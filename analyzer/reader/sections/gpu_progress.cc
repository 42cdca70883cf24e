#include "analyzer/reader/sections/gpu_progress.h"

#include <algorithm>
#include <vector>

#include "analyzer/reader/sections/elements.h"

namespace traintrace {
namespace {

using format::MarkWords;
using format::OperationProgress;

bool same_process(const format::MarksFileHeader& marks, const format::FileHeader& trace) {
  return std::memcmp(marks.magic, format::kMarksMagic, sizeof marks.magic) == 0 &&
         marks.pid == trace.pid && marks.start_time == trace.start_time &&
         std::equal(std::begin(marks.boot_id), std::end(marks.boot_id), trace.boot_id);
}

std::vector<MarkWords> words_at(const TraceBytes& file, uint64_t offset, uint64_t count) {
  std::vector<MarkWords> words(count);
  const size_t got = file.read(offset, std::as_writable_bytes(std::span(words)));
  words.resize(got / sizeof(MarkWords));
  return words;
}

// What the GPU writes to, or wrote to until a SIGKILL; no words: it is not there.
std::vector<MarkWords> read_marks_file(const ReadContext& context, uint64_t most) {
  const auto path = context.trace.facts.find("marks-file");
  if (path == context.trace.facts.end()) {
    return {};
  }
  const Result<TraceBytes> file = TraceBytes::open(path->second);
  std::byte head[sizeof(format::MarksFileHeader)];
  if (!file || file->read(0, head) != sizeof head) {
    return {};
  }
  const auto header = value_from<format::MarksFileHeader>(head);
  if (!same_process(header, context.layout.header)) {
    return {};
  }
  return words_at(*file, format::kMarksHeaderBytes, std::min<uint64_t>(header.streams, most));
}

// By the number of the stream in the file.
std::vector<MarkWords> read_words(const ReadContext& context) {
  const format::Section* section = context.layout.section(format::kMarks);
  if (section == nullptr || section->element_bytes != sizeof(MarkWords)) {
    return {};
  }
  const uint64_t count = section->bytes / sizeof(MarkWords);
  const std::vector<MarkWords> words = read_marks_file(context, count);
  return words.empty() ? words_at(context.file, section->offset, count) : words;
}

GpuState by_flags(uint32_t flags) {
  return (flags & format::kSeenFinished) != 0  ? GpuState::kFinished
         : (flags & format::kSeenReached) != 0 ? GpuState::kReached
                                               : GpuState::kEnqueued;
}

GpuState by_words(const MarkWords& words, uint32_t launch) {
  return !format::is_marked(words.launched, launch)  ? GpuState::kUnknown
         : format::is_marked(words.finished, launch) ? GpuState::kFinished
         : format::is_marked(words.reached, launch)  ? GpuState::kReached
                                                     : GpuState::kEnqueued;
}

GpuState state_of(const OperationProgress& progress, const OperationText& operation,
                  const std::vector<MarkWords>& words) {
  GpuState state = GpuState::kUnknown;
  // Of a call that is under way NCCL may have more to tell.
  if ((progress.flags & format::kByPlugin) != 0 && (operation.flags & format::kLaunched) == 0) {
    return state;
  }
  if ((progress.flags & (format::kFrozen | format::kByPlugin)) != 0) {
    state = by_flags(progress.flags);
  } else if (progress.stream != 0 && progress.stream <= words.size()) {
    state = by_words(words[progress.stream - 1], progress.launch);
  }
  const bool of_others = (progress.flags & format::kShared) != 0 && state == GpuState::kReached;
  return of_others ? GpuState::kUnknown : state;
}

// Operation `low` of the 32 bits that are kept; null: not among the recent ones.
OperationText* operation_of(CommunicatorText& communicator, uint32_t low) {
  const auto found = std::find_if(communicator.recent.begin(), communicator.recent.end(),
                                  [&](const OperationText& operation) {
                                    return static_cast<uint32_t>(operation.index) == low;
                                  });
  return found == communicator.recent.end() ? nullptr : &*found;
}

}  // namespace

void read_gpu_progress(ReadContext& context) {
  const format::Section* section = context.layout.section(format::kOperationProgress);
  if (section == nullptr) {
    return;
  }
  const std::vector<MarkWords> words = read_words(context);
  read_elements<OperationProgress>(
      context.file, *section,
      [](const OperationProgress& progress) { return progress.launch != 0; },
      [](const OperationProgress& a, const OperationProgress& b) {
        return a.launch == b.launch && a.index_low == b.index_low;
      },
      [&](uint64_t index, const OperationProgress& progress) {
        const uint64_t owner = mapped(context.communicators, index / format::kRecentOperations + 1);
        OperationText* const operation =
            owner == 0 ? nullptr
                       : operation_of(context.trace.communicators[owner - 1], progress.index_low);
        if (operation != nullptr) {
          operation->gpu = state_of(progress, *operation, words);
        }
      });
}

}  // namespace traintrace
