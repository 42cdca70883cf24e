// From a module's unwind tables (.eh_frame_hdr, .eh_frame) to the rule for one of its instructions.
//
// Read are: the Linux Standard Base's .eh_frame with augmentations z, R, P, L, S (and B, G, which
// say nothing about the registers followed here), and all of DWARF's call frame instructions.
// Tables are taken as untrusted: whatever is damaged or not understood gives CfaFrom::kNowhere.
#pragma once

#include <cstdint>

#include "interpose/stacks/modules.h"
#include "interpose/stacks/unwind_rule.h"

namespace traintrace {

// The rule for the instruction that lies at `pc` in `module`, which must be mapped.  kFramePointer
// where the tables know no function there.
UnwindRule rule_of(const Module& module, uint64_t pc) noexcept;

// The same from one frame description entry at `fde`, for tests; `fde` lies in `module`.
UnwindRule rule_of_entry(const Module& module, uint64_t fde, uint64_t pc) noexcept;

}  // namespace traintrace
