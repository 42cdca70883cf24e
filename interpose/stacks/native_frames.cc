#include "interpose/stacks/native_frames.h"

#include <signal.h>
#include <stddef.h>
#include <ucontext.h>

#include <atomic>

#include "format/hashes.h"
#include "interpose/base/undisturbed.h"
#include "interpose/stacks/modules.h"
#include "interpose/stacks/unwind_cache.h"
#include "interpose/stacks/unwind_cfi.h"
#include "interpose/stacks/unwind_stack.h"

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

// Addresses of a program lie below.
#if defined(__aarch64__)
constexpr uint64_t kAddresses = uint64_t{1} << 48;
constexpr uint64_t kNotOfAProgram =
    1;  // instructions are at multiples of 4, which `learn` gets less 1
// A bit of `sp` after a step by a frame pointer, which leads to the lower end of a frame whose size
// nobody says; its other bits are then the least that it can be.
constexpr uint64_t kSpUnknown = 1;
// Without the signature that functions may give the address to which they return.
constexpr uint64_t code_at(uint64_t word) noexcept {
  return word & (kAddresses - 1);
}
#else
constexpr uint64_t kAddresses = uint64_t{1} << 47;
constexpr uint64_t kNotOfAProgram = kAddresses;
constexpr uint64_t kSpUnknown = 0;  // a frame's pointer leads to its upper end
constexpr uint64_t code_at(uint64_t word) noexcept {
  return word;
}
#endif

struct Lookup {
  uint64_t pc;
  UnwindRule rule;
};

#if defined(__aarch64__)
// What a signal's handler returns to has no rule in the tables of most kernels, and is known by its
// instructions, as in libgcc (config/aarch64/linux-unwind.h): mov x8, 139; svc 0.
bool is_sigreturn(const Module* module, uint64_t address) noexcept {
  constexpr uint64_t kMovSvc = 0xD4000001'D2801168;
  const Segment* const segment = module != nullptr ? segment_of(*module, address) : nullptr;
  const bool readable = module == nullptr ? (address & 7) == 0 && is_readable(address)
                                          : segment != nullptr && segment->readable &&
                                                segment->end - address >= sizeof kMovSvc;
  return (address & 3) == 0 && readable && word_at(address) == kMovSvc;
}
// The stack pointer is at the kernel's rt_sigframe: siginfo_t, then ucontext_t.
constexpr int64_t kInterrupted = sizeof(siginfo_t) + offsetof(ucontext_t, uc_mcontext);
constexpr UnwindRule kSigreturn({
    .cfa_from = CfaFrom::kAtSp,
    .fp_from = FpFrom::kAtSp,
    .return_at_sp = true,
    .interrupted = true,
    .cfa_offset = kInterrupted + offsetof(mcontext_t, sp),
    .fp_offset = kInterrupted + offsetof(mcontext_t, regs[29]),
    .return_offset = kInterrupted + offsetof(mcontext_t, pc),
});
#endif

void look_up(const Module* module, void* context) noexcept {
  auto& lookup = *static_cast<Lookup*>(context);
#if defined(__aarch64__)
  if (is_sigreturn(module, lookup.pc + 1)) {
    lookup.rule = kSigreturn;
    return;
  }
#endif
  if (module != nullptr) {
    lookup.rule = rule_of(*module, lookup.pc);
    return;
  }
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
  UnwindCache::Found found;
  if (!g_cache.find(pc ^ kNotOfAProgram, generation, found)) {
    const Undisturbed undisturbed;
    if (refresh_modules() != ModulesRefresh::kNotLooked) {
      g_cache.put(pc ^ kNotOfAProgram, generation, UnwindRule(CfaFrom::kNowhere), found);
    }
  }
}

bool is_outdated(UnwindRule rule) noexcept {
  return rule.cfa_from() == CfaFrom::kNoModule &&
         rule.cfa_offset() != static_cast<int32_t>(modules_version());
}

// Code that no module has was made at run time and may call as it likes.
bool may_be_code(uint64_t address) noexcept {
  constexpr uint64_t kLowest = 0x1000;
  if (address < kLowest || address >= kAddresses) {
    return false;
  }
  const Module* module = module_of(address);
  const Segment* segment = module != nullptr ? segment_of(*module, address) : nullptr;
  return module == nullptr || (segment != nullptr && segment->executable);
}

// Where a walk has come to: the registers that are followed, as they were in that frame.
struct Position {
  uint64_t pc;
  uint64_t sp;
  uint64_t fp;
  uint64_t after_call;  // 1: pc is a return address, 0: it is that of an interrupted instruction
  StackRange range;

  bool read(uint64_t address, uint64_t& value) noexcept {
    if (!range.holds_word(address) && (range.whole || !extend_to(range, address))) {
      return false;
    }
    value = word_at(address);
    return true;
  }
  bool read_pc(uint64_t address) noexcept {
    uint64_t word = 0;
    const bool known = read(address, word);
    pc = known ? code_at(word) : pc;
    return known;
  }
};

bool start(uint64_t frame, uint64_t cfa, Position& at) noexcept {
  at.sp = cfa;
  at.after_call = 1;
  return stack_around(frame, true, at.range) && at.read(frame, at.fp) && at.read_pc(frame + 8) &&
         at.pc != 0;
}

bool find_cfa(Position& at, UnwindRule rule, uint64_t& cfa) noexcept {
  switch (rule.cfa_from()) {
    case CfaFrom::kSp:
      cfa = at.sp + rule.cfa_offset();
      return true;
    case CfaFrom::kFp:
      cfa = at.fp + rule.cfa_offset();
      return true;
    case CfaFrom::kAtSp:
      return at.read(at.sp + rule.cfa_offset(), cfa);
    case CfaFrom::kAtFp:
      return at.read(at.fp + rule.cfa_offset(), cfa);
    default:
      return false;
  }
}

bool step_fp(Position& at, UnwindRule rule, uint64_t cfa) noexcept {
  switch (rule.fp_from()) {
    case FpFrom::kSame:
      return true;
    case FpFrom::kAtCfa:
      return at.read(cfa + rule.fp_offset(), at.fp);
    case FpFrom::kAtSp:
      return at.read(at.sp + rule.fp_offset(), at.fp);
    case FpFrom::kAtFp:
    case FpFrom::kRecordAtFp:
      return at.read(at.fp + rule.fp_offset(), at.fp);
    default:
      at.fp = 0;  // whoever needs it ends the walk
      return true;
  }
}

bool step_by_frame_pointer(Position& at) noexcept {
  // A frame so large is rarer than a register that happens to point to another stack.
  constexpr uint64_t kMaxFrameBytes = 64 << 10;
  const uint64_t frame = at.fp;
  if (frame - (at.sp & ~kSpUnknown) > kMaxFrameBytes || (frame & 7) != 0 ||
      !at.read_pc(frame + 8) || !may_be_code(at.pc) || !at.read(frame, at.fp)) {
    return false;
  }
  at.sp = (frame + 16) | kSpUnknown;
  at.after_call = 1;
  return true;
}

// Rules that count from a stack pointer which is not known give way to frame pointers.
UnwindRule usable(UnwindRule rule, uint64_t sp) noexcept {
  const bool needs_sp = rule.cfa_from() == CfaFrom::kSp || rule.cfa_from() == CfaFrom::kAtSp ||
                        rule.return_at_sp() || rule.fp_from() == FpFrom::kAtSp;
  return (sp & kSpUnknown) != 0 && needs_sp ? UnwindRule(CfaFrom::kFramePointer) : rule;
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
  const uint64_t return_at = rule.fp_from() == FpFrom::kRecordAtFp
                                 ? at.fp + rule.fp_offset() + 8
                                 : (rule.return_at_sp() ? at.sp : cfa) + rule.return_offset();
  if (!at.read_pc(return_at) || !step_fp(at, rule, cfa)) {
    return false;
  }
  // Interrupted code may have been on another stack.  Any other stack that does not get shorter is
  // damaged.
  if (rule.interrupted() ? !stack_around(cfa, false, at.range) : cfa <= at.sp) {
    return false;
  }
  at.sp = cfa;
  at.after_call = rule.interrupted() ? 0 : 1;
  return at.pc != 0;
}

size_t walk(WalkStart from, uint64_t generation, uint64_t* out, size_t max,
            NativeMemo::Walk& memo) noexcept {
  const auto frame = reinterpret_cast<uint64_t>(from.frame);
  Position at;
  memo.forget();
  if (max == 0 || !start(frame, reinterpret_cast<uint64_t>(from.cfa), at)) {
    return 0;
  }
  if (at.range.whole) {
    memo.begin(frame, generation);
    memo.add(frame + 8, word_at(frame + 8));
  }
  // Copies: what a function outside gets the address of does not stay in registers.
  uint64_t pc = at.pc, sp = at.sp, fp = at.fp, after_call = 1;
  // Most code keeps data in fp: what was saved of it decides nothing until a rule needs it.
  uint64_t fp_unused_from = frame;
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
    const UnwindRule rule = kSpUnknown != 0 ? usable(found.rule, sp) : found.rule;
    const uint64_t cfa = (rule.ordinary_from_fp() ? fp : sp) + rule.cfa_offset();
    const uint64_t saved_pc = cfa + rule.ordinary_return_offset();
    const uint64_t saved_fp = rule.ordinary_saves_fp() ? cfa + rule.fp_offset() : saved_pc;
    if (rule.is_ordinary() && cfa > sp && range.holds_word(saved_pc) &&
        range.holds_word(saved_fp)) {
      if (rule.ordinary_from_fp() && fp_unused_from != 0) {
        memo.add(fp_unused_from, fp);
        fp_unused_from = 0;
      }
      if (rule.ordinary_saves_fp()) {
        fp = word_at(saved_fp);
        fp_unused_from = saved_fp;
      }
      const uint64_t word = word_at(saved_pc);
      pc = code_at(word);
      memo.add(saved_pc, word);
      sp = cfa;
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
    at = {pc, sp, fp, after_call, range};
    if (!step(at, rule)) {
      doubt_end(instruction, generation);
      return count;
    }
    pc = at.pc, sp = at.sp, fp = at.fp, after_call = at.after_call;
    range = at.range;
  }
}

size_t walk_twice(WalkStart start, uint64_t* out, size_t max, NativeMemo::Walk& memo) noexcept {
  const uint64_t generation = modules_unloads();
  const size_t count = walk(start, generation, out, max, memo);
  if (generation == modules_unloads()) {
    return count;
  }
  // Unknown code or a doubtful end showed that a module went: known rules may have been those of
  // its code.
  return walk(start, modules_unloads(), out, max, memo);
}

}  // namespace

size_t native_frames(WalkStart start, uint64_t* out, size_t max) noexcept {
  NativeMemo::Walk nobody;
  return walk_twice(start, out, max, nobody);
}

bool native_hash_known(WalkStart start, const NativeMemo& memo, uint64_t& hash) noexcept {
  const auto frame = reinterpret_cast<uint64_t>(start.frame);
  const NativeMemo::Walk* const walk = memo.find(frame, word_at(frame + 8), modules_unloads());
  hash = walk != nullptr ? walk->hash() : 0;
  return walk != nullptr;
}

size_t native_frames(WalkStart start, uint64_t* out, size_t max, NativeMemo& memo,
                     uint64_t& hash) noexcept {
  const auto frame = reinterpret_cast<uint64_t>(start.frame);
  NativeMemo::Walk& walk = memo.replace(frame, word_at(frame + 8));
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
