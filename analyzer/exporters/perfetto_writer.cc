#include "analyzer/exporters/perfetto_writer.h"

#include <algorithm>

namespace traintrace {
namespace {

// Numbers of fields, by message.
constexpr uint32_t kTracePacket = 1;
constexpr uint32_t kPacketTimestamp = 8, kPacketSequence = 10, kPacketEvent = 11,
                   kPacketDescriptor = 60;
constexpr uint32_t kTrackUuid = 1, kTrackName = 2, kTrackProcess = 3, kTrackParent = 5,
                   kTrackCounter = 8;
constexpr uint32_t kProcessPid = 1, kProcessName = 6;
constexpr uint32_t kCounterUnit = 3;
constexpr uint64_t kBytes = 3;  // a unit
constexpr uint32_t kEventType = 9, kEventTrack = 11, kEventName = 23, kEventValue = 30;
constexpr uint64_t kSliceBegin = 1, kSliceEnd = 2, kInstant = 3, kCounter = 4;  // types

void append_varint(std::string& out, uint64_t value) {
  for (; value >= 0x80; value >>= 7) {
    out += static_cast<char>(value | 0x80);
  }
  out += static_cast<char>(value);
}

void append(std::string& out, uint32_t field, uint64_t value) {
  append_varint(out, uint64_t{field} << 3);
  append_varint(out, value);
}

void append(std::string& out, uint32_t field, std::string_view bytes) {
  constexpr uint64_t kWithLength = 2;
  append_varint(out, uint64_t{field} << 3 | kWithLength);
  append_varint(out, bytes.size());
  out += bytes;
}

void append_packet(std::string& out, std::string_view packet) {
  append(out, kTracePacket, packet);
}

}  // namespace

uint64_t PerfettoWriter::describe(std::string_view name, uint64_t parent, uint32_t field,
                                  const std::string& about) {
  const uint64_t number = ++tracks_;
  std::string track;
  append(track, kTrackUuid, number);
  append(track, kTrackName, name);
  if (parent != 0) {
    append(track, kTrackParent, parent);
  }
  if (field != 0) {
    append(track, field, about);
  }
  std::string packet;
  append(packet, kPacketSequence, 1);
  append(packet, kPacketDescriptor, track);
  append_packet(out_, packet);
  return number;
}

uint64_t PerfettoWriter::process(std::string_view name, int pid) {
  std::string about;
  append(about, kProcessPid, static_cast<uint64_t>(std::max(pid, 0)));
  append(about, kProcessName, name);
  return describe(name, 0, kTrackProcess, about);
}

uint64_t PerfettoWriter::track(std::string_view name, uint64_t parent) {
  return describe(name, parent, 0, "");
}

uint64_t PerfettoWriter::counter_of_bytes(std::string_view name, uint64_t parent) {
  std::string about;
  append(about, kCounterUnit, kBytes);
  return describe(name, parent, kTrackCounter, about);
}

void PerfettoWriter::event(uint64_t track, TimeNs time, uint64_t type, std::string_view name,
                           const std::string& more) {
  std::string event;
  append(event, kEventType, type);
  append(event, kEventTrack, track);
  if (!name.empty()) {
    append(event, kEventName, name);
  }
  event += more;
  std::string packet;
  append(packet, kPacketTimestamp, static_cast<uint64_t>(std::max<TimeNs>(time, 0)));
  append(packet, kPacketSequence, 1);
  append(packet, kPacketEvent, event);
  append_packet(out_, packet);
}

void PerfettoWriter::count(uint64_t counter, TimeNs time, int64_t value) {
  std::string more;
  append(more, kEventValue, static_cast<uint64_t>(value));
  event(counter, time, kCounter, "", more);
}

void PerfettoWriter::instant(uint64_t track, TimeNs time, std::string_view name) {
  event(track, time, kInstant, name, "");
}

void PerfettoWriter::begin(uint64_t track, TimeNs time, std::string_view name) {
  event(track, time, kSliceBegin, name, "");
}

void PerfettoWriter::end(uint64_t track, TimeNs time) {
  event(track, time, kSliceEnd, "", "");
}

}  // namespace traintrace
