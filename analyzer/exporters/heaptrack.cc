#include "analyzer/exporters/heaptrack.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "analyzer/exporters/collapsed.h"
#include "analyzer/memory/holders/owner_text.h"
#include "analyzer/memory/memory_life.h"
#include "analyzer/model/elapsed.h"
#include "analyzer/symbols/stack_frames.h"
#include "analyzer/text/printable.h"

namespace traintrace {
namespace {

constexpr int64_t kNsPerMs = 1'000'000;
constexpr size_t kMostNameBytes = 4096;

// Lines of text; all numbers are hexadecimal, and those of things count from 1, but of
// allocations from 0.
class HeaptrackWriter {
 public:
  HeaptrackWriter(const ProcessTrace& trace, Symbolizer& symbolizer)
      : trace_(trace), symbolizer_(symbolizer) {}

  std::string write() {
    out_ = "v 10400 3\nX traintrace " + one_line(process_label(trace_)) + "\nI 1000 0\n";
    const MemoryLife life = memory_life(trace_);
    const TimeNs start = life.events.empty() ? 0 : life.events.front().time;
    write_time(0);
    for (const LiveBlock& block : life.before) {
      write_event(block, true);
    }
    for (const MemoryEvent& event : life.events) {
      if (is_in_use(event.block)) {
        write_time(std::max<int64_t>(elapsed(start, event.time), 0) / kNsPerMs);
        write_event(event.block, event.taken);
      }
    }
    return std::move(out_);
  }

 private:
  using Frame = std::tuple<std::string, std::string, std::string, int>;  // module, function, ..

  static std::string one_line(std::string_view text) {
    return printable(text.substr(0, kMostNameBytes));
  }

  size_t text_number(const std::string& text) {
    const std::string clean = one_line(text);
    const auto [found, is_new] = texts_.try_emplace(clean, texts_.size() + 1);
    if (is_new) {
      out_ += fmt::format("s {:x} {}\n", clean.size(), clean);
    }
    return found->second;
  }

  size_t frame_number(const std::string& module, const PythonFrameText& frame) {
    const auto [found, is_new] = frames_.try_emplace(
        Frame(module, frame.function, frame.file, frame.line), frames_.size() + 1);
    if (is_new) {
      const size_t module_text = text_number(module);
      const size_t function = text_number(frame.function.empty() ? "?" : frame.function);
      std::string line = fmt::format("i {:x} {:x} {:x}", found->second, module_text, function);
      if (!frame.file.empty()) {
        line += fmt::format(" {:x} {:x}", text_number(frame.file), std::max(frame.line, 0));
      }
      out_ += line + '\n';
    }
    return found->second;
  }

  // Of the innermost frame, which knows its callers.
  size_t trace_number(const LiveBlock& block) {
    const std::string owner = owner_text(trace_, block);
    const auto [known, is_new] = stacks_.try_emplace({block.stack, owner}, 0);
    if (is_new) {
      std::vector<PythonFrameText> frames = stack_frames(trace_, block.stack, symbolizer_);
      if (frames.empty()) {
        frames.push_back({"stack not recorded", "", 0});
      }
      for (auto frame = frames.rbegin(); frame != frames.rend(); ++frame) {
        const std::pair<size_t, size_t> node(frame_number(owner, *frame), known->second);
        const auto [found, fresh] = nodes_.try_emplace(node, nodes_.size() + 1);
        if (fresh) {
          out_ += fmt::format("t {:x} {:x}\n", node.first, node.second);
        }
        known->second = found->second;
      }
    }
    return known->second;
  }

  void write_event(const LiveBlock& block, bool taken) {
    if (!is_in_use(block)) {
      return;
    }
    const std::pair<uint64_t, size_t> allocation(block.bytes, trace_number(block));
    const auto [found, is_new] = allocations_.try_emplace(allocation, allocations_.size());
    if (is_new) {
      out_ += fmt::format("a {:x} {:x}\n", allocation.first, allocation.second);
    }
    out_ += fmt::format("{} {:x}\n", taken ? '+' : '-', found->second);
  }

  void write_time(int64_t ms) {
    if (ms > last_ms_) {
      out_ += fmt::format("c {:x}\n", ms);
      last_ms_ = ms;
    }
  }

  const ProcessTrace& trace_;
  Symbolizer& symbolizer_;
  std::string out_;
  int64_t last_ms_ = -1;
  std::map<std::string, size_t> texts_;
  std::map<Frame, size_t> frames_;
  std::map<std::pair<size_t, size_t>, size_t> nodes_;          // frame and caller
  std::map<std::pair<uint32_t, std::string>, size_t> stacks_;  // with their owner
  std::map<std::pair<uint64_t, size_t>, size_t> allocations_;  // bytes and innermost node
};

}  // namespace

std::string heaptrack_file(const ProcessTrace& trace, Symbolizer& symbolizer) {
  return HeaptrackWriter(trace, symbolizer).write();
}

}  // namespace traintrace
