#include "interpose/stacks/unwind_cfi.h"

#include "interpose/stacks/unwind_bytes.h"
#include "interpose/stacks/unwind_row.h"

namespace traintrace {
namespace {

struct Entry {
  UnwindCommonEntry common;
  uint64_t begin = 0;
  uint64_t end = 0;
  UnwindBytes instructions{1, 0};
};

UnwindBytes bytes_at(const Module& module, uint64_t address) {
  const Segment* segment = segment_of(module, address);
  return segment != nullptr && segment->readable ? UnwindBytes(address, segment->end)
                                                 : UnwindBytes(1, 0);
}

// What an entry holds behind its length.  No linker writes entries of 4 GiB.
UnwindBytes entry_body(UnwindBytes at) {
  const auto length = at.read<uint32_t>();
  return length == 0 || length == 0xFFFFFFFF ? UnwindBytes(1, 0) : at.take(length);
}

bool read_augmentation(UnwindBytes text, UnwindBytes& body, UnwindCommonEntry& into) {
  if (text.empty()) {
    return true;
  }
  if (text.read<char>() != 'z') {
    return false;
  }
  into.augmented = true;
  UnwindBytes data = body.take(body.uleb());
  while (!text.empty()) {
    switch (text.read<char>()) {
      case 'R':
        into.pointer_encoding = data.read<uint8_t>();
        break;
      case 'P': {
        const auto encoding = data.read<uint8_t>();
        data.encoded_number(encoding & 0x0F);
        break;
      }
      case 'L':
        data.read<uint8_t>();
        break;
      case 'S':
        into.signal_frame = true;
        break;
      case 'B':
      case 'G':
        break;
      default:
        return false;
    }
  }
  return data.ok();
}

bool read_common_entry(const Module& module, uint64_t address, UnwindCommonEntry& into) {
  UnwindBytes body = entry_body(bytes_at(module, address));
  const auto id = body.read<uint32_t>();
  const auto version = body.read<uint8_t>();
  const uint64_t text = body.position();
  while (body.read<char>() != '\0') {
  }
  if (!body.ok() || id != 0 || (version != 1 && version != 3)) {
    return false;
  }
  const UnwindBytes augmentation(text, body.position() - 1);
  into.code_factor = body.uleb();
  into.data_factor = body.sleb();
  const uint64_t return_register = version == 1 ? body.read<uint8_t>() : body.uleb();
  if (return_register != kDwarfReturnAddress || !read_augmentation(augmentation, body, into)) {
    return false;
  }
  into.instructions = body;
  return body.ok();
}

bool read_entry(const Module& module, uint64_t address, Entry& into) {
  UnwindBytes body = entry_body(bytes_at(module, address));
  const uint64_t here = body.position();
  const auto back = body.read<uint32_t>();
  if (!body.ok() || back == 0 || back > here ||
      !read_common_entry(module, here - back, into.common)) {
    return false;
  }
  into.begin = body.encoded(into.common.pointer_encoding);
  into.end = into.begin + body.encoded_number(into.common.pointer_encoding & 0x0F);
  if (into.common.augmented) {
    body.skip(body.uleb());
  }
  into.instructions = body;
  return body.ok();
}

// The entry that the sorted table names for `pc`; 0: none.
uint64_t find_entry(const Module& module, uint64_t pc) {
  // Linkers write the table as pairs of 32-bit offsets from its section, and nothing else.
  constexpr uint8_t kSortedPairs = 0x3B;
  const uint64_t hdr = module.eh_frame_hdr;
  UnwindBytes head(hdr, hdr + module.eh_frame_hdr_bytes);
  const auto version = head.read<uint8_t>();
  const auto pointer_encoding = head.read<uint8_t>();
  const auto count_encoding = head.read<uint8_t>();
  const auto table_encoding = head.read<uint8_t>();
  head.encoded_number(pointer_encoding & 0x0F);
  uint64_t count = head.encoded(count_encoding);
  const uint64_t table = head.position();
  if (!head.ok() || version != 1 || table_encoding != kSortedPairs ||
      count > (hdr + module.eh_frame_hdr_bytes - table) / 8) {
    return 0;
  }
  const auto word = [](uint64_t address) {
    int32_t value;
    memcpy(&value, reinterpret_cast<const void*>(address), sizeof value);
    return static_cast<uint64_t>(int64_t{value});
  };
  uint64_t low = 0;
  while (count > 0) {
    const uint64_t half = count / 2;
    if (hdr + word(table + 8 * (low + half)) <= pc) {
      low += half + 1;
      count -= half + 1;
    } else {
      count = half;
    }
  }
  return low == 0 ? 0 : hdr + word(table + 8 * (low - 1) + 4);
}

}  // namespace

UnwindRule rule_of_entry(const Module& module, uint64_t fde, uint64_t pc) noexcept {
  Entry entry;
  if (!read_entry(module, fde, entry)) {
    return UnwindRule(CfaFrom::kNowhere);
  }
  if (pc < entry.begin || pc >= entry.end) {
    return UnwindRule(CfaFrom::kFramePointer);
  }
  UnwindInterpreter interpreter(entry.common, entry.begin, pc);
  if (!interpreter.run(entry.common.instructions)) {
    return UnwindRule(CfaFrom::kNowhere);
  }
  interpreter.rows_start_here();
  if (!interpreter.run(entry.instructions)) {
    return UnwindRule(CfaFrom::kNowhere);
  }
  return rule_of_row(interpreter.row(), entry.common.signal_frame, pc);
}

UnwindRule rule_of(const Module& module, uint64_t pc) noexcept {
  const uint64_t entry = find_entry(module, pc);
  return entry == 0 ? UnwindRule(CfaFrom::kFramePointer) : rule_of_entry(module, entry, pc);
}

}  // namespace traintrace
