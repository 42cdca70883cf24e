#include "interpose/native_frames.h"

#include <atomic>

#include "format/hashes.h"
#include "interpose/modules.h"
#include "interpose/undisturbed.h"
#include "interpose/unwind_cache.h"
#include "interpose/unwind_cfi.h"
#include "interpose/unwind_stack.h"

namespace traintrace {
namespace {

UnwindCache g_cache;
std::atomic<uint64_t> g_misses{0};

// Red zones of a sanitizer are memory like any other here, so is what another thread just wrote,
// and a damaged stack may lead to odd addresses.
__attribute__((no_sanitize("address", "thread", "alignment"))) inline uint64_t word_at(
    uint64_t address) noexcept {
  return *reinterpret_cast<const uint64_t*>(address);
}

struct Lookup {
  uint64_t pc;
  UnwindRule rule;
};

void look_up(const Module* module, void* context) noexcept {
  auto& lookup = *static_cast<Lookup*>(context);
#if defined(__x86_64__)
  if (module != nullptr) {
    lookup.rule = rule_of(*module, lookup.pc);
    return;
  }
#else
  (void)module;  // frame pointers lead everywhere on Arm64; its unwind tables are not read
#endif
  lookup.rule = UnwindRule(
      {.cfa_from = CfaFrom::kNoModule, .cfa_offset = static_cast<int64_t>(modules_version())});
}

[[gnu::noinline, gnu::cold]] UnwindCache::Found learn(uint64_t pc) noexcept {
  const Undisturbed undisturbed;
  g_misses.fetch_add(1, std::memory_order_relaxed);
  Lookup lookup{pc, UnwindRule(CfaFrom::kNowhere)};
  UnwindCache::Found found{lookup.rule, 0};
  if (with_module_at(pc, look_up, &lookup)) {
    g_cache.put(pc, modules_unloads(), lookup.rule, found);
  }
  return found;
}

// A stack that ends where nobody says it does may have been walked by rules of code that is no
// longer there: the table of modules is brought up to date, once for each such place and table.
[[gnu::noinline, gnu::cold]] void doubt_end(uint64_t pc, uint64_t generation) noexcept {
  constexpr uint64_t kEnd = uint64_t{1} << 47;  // no address of a program has it
  UnwindCache::Found found;
  if (!g_cache.find(pc ^ kEnd, generation, found)) {
    const Undisturbed undisturbed;
    if (refresh_modules() != ModulesRefresh::kNotLooked) {
      g_cache.put(pc ^ kEnd, generation, UnwindRule(CfaFrom::kNowhere), found);
    }
  }
}

bool is_outdated(UnwindRule rule) noexcept {
  return rule.cfa_from() == CfaFrom::kNoModule &&
         rule.cfa_offset() != static_cast<int32_t>(modules_version());
}

// Code that no module has was made at run time and may call as it likes.
bool may_be_code(uint64_t address) noexcept {
  constexpr uint64_t kLowest = 0x1000, kHighest = uint64_t{1} << 47;
  if (address < kLowest || address >= kHighest) {
    return false;
  }
  const Module* module = module_of(address);
  const Segment* segment = module != nullptr ? segment_of(*module, address) : nullptr;
  return module == nullptr || (segment != nullptr && segment->executable);
}

// Where a walk has come to: the registers that are followed, as they were in that frame.
struct Position {
  uint64_t pc;
  uint64_t rsp;
  uint64_t rbp;
  uint64_t after_call;  // 1: pc is a return address, 0: it is that of an interrupted instruction
  StackRange range;

  bool read(uint64_t address, uint64_t& value) noexcept {
    if (!range.holds_word(address) && (range.whole || !extend_to(range, address))) {
      return false;
    }
    value = word_at(address);
    return true;
  }
};

bool start(uint64_t frame, Position& at) noexcept {
  at.rsp = frame + 16;
  at.after_call = 1;
  return stack_around(frame, true, at.range) && at.read(frame, at.rbp) &&
         at.read(frame + 8, at.pc) && at.pc != 0;
}

bool find_cfa(Position& at, UnwindRule rule, uint64_t& cfa) noexcept {
  switch (rule.cfa_from()) {
    case CfaFrom::kRsp:
      cfa = at.rsp + rule.cfa_offset();
      return true;
    case CfaFrom::kRbp:
      cfa = at.rbp + rule.cfa_offset();
      return true;
    case CfaFrom::kAtRsp:
      return at.read(at.rsp + rule.cfa_offset(), cfa);
    case CfaFrom::kAtRbp:
      return at.read(at.rbp + rule.cfa_offset(), cfa);
    default:
      return false;
  }
}

bool step_rbp(Position& at, UnwindRule rule, uint64_t cfa) noexcept {
  switch (rule.rbp_from()) {
    case RbpFrom::kSame:
      return true;
    case RbpFrom::kAtCfa:
      return at.read(cfa + rule.rbp_offset(), at.rbp);
    case RbpFrom::kAtRsp:
      return at.read(at.rsp + rule.rbp_offset(), at.rbp);
    case RbpFrom::kAtRbp:
      return at.read(at.rbp + rule.rbp_offset(), at.rbp);
    default:
      at.rbp = 0;  // whoever needs it ends the walk
      return true;
  }
}

bool step_by_frame_pointer(Position& at) noexcept {
  // A frame so large is rarer than a register that happens to point to another stack.
  constexpr uint64_t kMaxFrameBytes = 64 << 10;
  const uint64_t frame = at.rbp;
  if (frame - at.rsp > kMaxFrameBytes || (frame & 7) != 0 || !at.read(frame + 8, at.pc) ||
      !may_be_code(at.pc) || !at.read(frame, at.rbp)) {
    return false;
  }
  at.rsp = frame + 16;
  at.after_call = 1;
  return true;
}

// To the caller, by any rule.  False: there is none, or it cannot be found.
[[gnu::noinline]] bool step(Position& at, UnwindRule rule) noexcept {
  if (rule.cfa_from() == CfaFrom::kFramePointer || rule.cfa_from() == CfaFrom::kNoModule) {
    return step_by_frame_pointer(at);
  }
  uint64_t cfa;
  if (!find_cfa(at, rule, cfa)) {
    return false;
  }
  const uint64_t from = rule.return_at_rsp() ? at.rsp : cfa;
  if (!at.read(from + rule.return_offset(), at.pc) || !step_rbp(at, rule, cfa)) {
    return false;
  }
  // Interrupted code may have been on another stack.  Any other stack that does not get shorter is
  // damaged.
  if (rule.interrupted() ? !stack_around(cfa, false, at.range) : cfa <= at.rsp) {
    return false;
  }
  at.rsp = cfa;
  at.after_call = rule.interrupted() ? 0 : 1;
  return at.pc != 0;
}

size_t walk(uint64_t frame, uint64_t generation, uint64_t* out, size_t max,
            NativeMemo::Walk& memo) noexcept {
  Position at;
  memo.forget();
  if (max == 0 || !start(frame, at)) {
    return 0;
  }
  if (at.range.whole) {
    memo.begin(frame, generation);
    memo.add(frame + 8, at.pc);
  }
  // Copies: what a function outside gets the address of does not stay in registers.
  uint64_t pc = at.pc, rsp = at.rsp, rbp = at.rbp, after_call = 1;
  // Most code keeps data in rbp: what was saved of it decides nothing until a rule needs it.
  uint64_t rbp_unused_from = frame;
  StackRange range = at.range;
  UnwindCache::Found found{UnwindRule(CfaFrom::kNowhere), 0};
  for (size_t count = 0;;) {
    out[count++] = pc;
    if (count == max) {
      return count;
    }
    // An address in the instruction that called: a call may be the last one of its function.
    const uint64_t instruction = pc - after_call;
    if (!g_cache.find_next(instruction, generation, found) || is_outdated(found.rule)) {
      found = learn(instruction);
    }
    const UnwindRule rule = found.rule;
    const uint64_t cfa = (rule.ordinary_from_rbp() ? rbp : rsp) + rule.cfa_offset();
    const uint64_t saved_rbp = cfa + (rule.ordinary_saves_rbp() ? rule.rbp_offset() : -8);
    if (rule.is_ordinary() && cfa > rsp && range.holds_word(cfa - 8) &&
        range.holds_word(saved_rbp)) {
      if (rule.ordinary_from_rbp() && rbp_unused_from != 0) {
        memo.add(rbp_unused_from, rbp);
        rbp_unused_from = 0;
      }
      if (rule.ordinary_saves_rbp()) {
        rbp = word_at(saved_rbp);
        rbp_unused_from = saved_rbp;
      }
      pc = word_at(cfa - 8);
      memo.add(cfa - 8, pc);
      rsp = cfa;
      after_call = 1;
      if (pc == 0) {
        doubt_end(instruction, generation);
        return count;
      }
      continue;
    }
    if (rule.cfa_from() == CfaFrom::kNoCaller) {
      return count;
    }
    memo.forget();
    at = {pc, rsp, rbp, after_call, range};
    if (!step(at, rule)) {
      doubt_end(instruction, generation);
      return count;
    }
    pc = at.pc, rsp = at.rsp, rbp = at.rbp, after_call = at.after_call;
    range = at.range;
  }
}

size_t walk_twice(uint64_t frame, uint64_t* out, size_t max, NativeMemo::Walk& memo) noexcept {
  const uint64_t generation = modules_unloads();
  const size_t count = walk(frame, generation, out, max, memo);
  if (generation == modules_unloads()) {
    return count;
  }
  // Unknown code or a doubtful end showed that a module went: known rules may have been those of
  // its code.
  return walk(frame, modules_unloads(), out, max, memo);
}

}  // namespace

size_t native_frames(const void* frame, uint64_t* out, size_t max) noexcept {
  NativeMemo::Walk nobody;
  return walk_twice(reinterpret_cast<uint64_t>(frame), out, max, nobody);
}

bool native_hash_known(const void* frame, const NativeMemo& memo, uint64_t& hash) noexcept {
  const auto start = reinterpret_cast<uint64_t>(frame);
  const NativeMemo::Walk* const walk = memo.find(start, word_at(start + 8), modules_unloads());
  hash = walk != nullptr ? walk->hash() : 0;
  return walk != nullptr;
}

size_t native_frames(const void* frame, uint64_t* out, size_t max, NativeMemo& memo,
                     uint64_t& hash) noexcept {
  const auto start = reinterpret_cast<uint64_t>(frame);
  NativeMemo::Walk& walk = memo.replace(start, word_at(start + 8));
  const size_t count = walk_twice(start, out, max, walk);
  hash = count;
  for (size_t i = 0; i < count; ++i) {
    hash = format::mixed(hash, out[i]);
  }
  walk.end(hash, memo.life());
  return count;
}

uint64_t native_frames_misses() noexcept {
  return g_misses.load(std::memory_order_relaxed);
}

}  // namespace traintrace
