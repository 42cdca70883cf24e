// What NVTX 3 and its injection library say to each other, as in nvtx3/nvtxDetail/nvtxTypes.h and
// nvToolsExt.h of CUDA 13: neither half of it has changed since NVTX 2.
#pragma once

#include <cstddef>
#include <cstdint>

namespace traintrace::nvtx {

// The texts of all three sorts lie behind one pointer.
enum MessageType : int32_t { kNoMessage = 0, kAscii = 1, kUnicode = 2, kRegistered = 3 };
struct EventAttributes {
  uint16_t version;
  uint16_t size;
  uint32_t category;
  int32_t color_type;
  uint32_t color;
  int32_t payload_type;
  int32_t reserved;
  uint64_t payload;
  int32_t message_type;  // MessageType
  const void* message;
};
static_assert(sizeof(EventAttributes) == 48);

// nvtxPayloadType_t: 1 and 2 are integers of 64 bits, 3 is a double, 4 and 5 are integers of 32
// bits, 6 is a float.
inline constexpr int32_t kFirstPayload = 1;
inline constexpr int32_t kFirstPayloadOf32Bits = 4;
inline constexpr int32_t kLastPayload = 6;

inline constexpr int kNoPushPopTracking = -2;

using Function = void();
// Where NVTX keeps the function that a call goes to.
using FunctionTable = Function***;

enum ExportTable : uint32_t { kCallbacks = 1 };
struct Callbacks {
  size_t struct_size;
  int (*get_module)(uint32_t module, FunctionTable* table, unsigned* size);
};
using GetExportTable = const void*(uint32_t id);
using Initialize = int(GetExportTable* get);

// Of nvtxExtTypes.h.  A place holds a function, or a small number: nobody has come to it yet, or it
// is switched off.
struct ExtensionSegment {
  size_t id;
  size_t count;
  Function** places;
};
struct Extension {
  uint16_t version;
  uint16_t struct_size;
  uint16_t id;
  uint16_t compatibility;
  size_t segment_count;
  ExtensionSegment* segments;
  void* get_export;
  const void* info;
};
inline constexpr uint16_t kPayloadExtension = 2;
inline constexpr uint64_t kMostStates = 4;
using InitializeExtension = int(Extension* extension);

// The last one, of the extension, is no number of NVTX's.
enum Module : uint32_t { kCore = 1, kCore2 = 5, kPayload = 1000 };

}  // namespace traintrace::nvtx
