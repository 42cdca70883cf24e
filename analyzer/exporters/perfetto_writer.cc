#include "analyzer/exporters/perfetto_writer.h"

#include <algorithm>
#include <bit>
#include <iterator>

namespace traintrace {
namespace {

// Numbers of fields, by message.
constexpr uint32_t kTracePacket = 1;
constexpr uint32_t kPacketTimestamp = 8, kPacketSequence = 10, kPacketEvent = 11,
                   kPacketInterned = 12, kPacketFlags = 13, kPacketDescriptor = 60;
constexpr uint64_t kNothingInterned = 1, kUsesInterned = 2;  // flags
constexpr uint32_t kInternedEventName = 2, kInternedNumber = 1, kInternedText = 2;
constexpr uint32_t kTrackUuid = 1, kTrackName = 2, kTrackProcess = 3, kTrackParent = 5,
                   kTrackCounter = 8;
constexpr uint32_t kProcessPid = 1, kProcessName = 6;
constexpr uint32_t kCounterUnit = 3;
constexpr uint64_t kBytes = 3;  // a unit
constexpr uint32_t kEventNote = 4, kEventType = 9, kEventNameNumber = 10, kEventTrack = 11,
                   kEventName = 23, kEventValue = 30, kEventReal = 44, kEventFlow = 47,
                   kEventFlowEnds = 48;
constexpr uint32_t kNoteText = 6, kNoteName = 10;
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

void append_fixed(std::string& out, uint32_t field, uint64_t value) {
  constexpr uint64_t kFixed64 = 1;
  append_varint(out, uint64_t{field} << 3 | kFixed64);
  for (int shift = 0; shift < 64; shift += 8) {
    out += static_cast<char>(value >> shift & 0xff);
  }
}

void append_notes(std::string& out, const PerfettoNotes& notes) {
  for (const auto& [name, text] : notes) {
    std::string note;
    append(note, kNoteText, text);
    append(note, kNoteName, name);
    append(out, kEventNote, note);
  }
}

void append_packet(std::string& out, std::string_view packet) {
  append(out, kTracePacket, packet);
}

}  // namespace

PerfettoWriter::PerfettoWriter() {
  std::string packet;
  append(packet, kPacketSequence, 1);
  append(packet, kPacketFlags, kNothingInterned);
  append_packet(out_, packet);
}

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

// Processes of several hosts may have the same number, which the viewer would take for one process.
uint64_t PerfettoWriter::process(std::string_view name, int pid) {
  int own = pid > 0 ? pid : beyond_pids_;
  while (!pids_.insert(own).second) {
    own = beyond_pids_++;
  }
  std::string about;
  append(about, kProcessPid, static_cast<uint64_t>(own));
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

uint64_t PerfettoWriter::counter(std::string_view name, uint64_t parent) {
  return describe(name, parent, kTrackCounter, "");
}

void PerfettoWriter::event(uint64_t track, TimeNs time, uint64_t type, const std::string& more,
                           const std::string& interned) {
  std::string event;
  append(event, kEventType, type);
  append(event, kEventTrack, track);
  event += more;
  std::string packet;
  append(packet, kPacketTimestamp, static_cast<uint64_t>(std::max<TimeNs>(time, 0)));
  append(packet, kPacketSequence, 1);
  append(packet, kPacketEvent, event);
  if (!interned.empty()) {
    append(packet, kPacketInterned, interned);
  }
  append(packet, kPacketFlags, kUsesInterned);
  append_packet(out_, packet);
}

void PerfettoWriter::count(uint64_t counter, TimeNs time, int64_t value) {
  std::string more;
  append(more, kEventValue, static_cast<uint64_t>(value));
  event(counter, time, kCounter, more);
}

void PerfettoWriter::count_real(uint64_t counter, TimeNs time, double value) {
  std::string more;
  append_fixed(more, kEventReal, std::bit_cast<uint64_t>(value));
  event(counter, time, kCounter, more);
}

void PerfettoWriter::instant(uint64_t track, TimeNs time, std::string_view name,
                             const PerfettoNotes& notes) {
  std::string more;
  append(more, kEventName, name);
  append_notes(more, notes);
  event(track, time, kInstant, more);
}

// Names of slices repeat: each is written once.
void PerfettoWriter::begin(uint64_t track, const PerfettoSlice& slice) {
  std::string more;
  std::string interned;
  const auto [name, is_new] = names_.try_emplace(slice.name, names_.size() + 1);
  if (is_new) {
    std::string text;
    append(text, kInternedNumber, name->second);
    append(text, kInternedText, slice.name);
    append(interned, kInternedEventName, text);
  }
  append(more, kEventNameNumber, name->second);
  append_notes(more, slice.notes);
  for (const uint64_t arrow : slice.begins) {
    append_fixed(more, kEventFlow, arrow);
  }
  if (slice.ends != 0) {
    append_fixed(more, kEventFlowEnds, slice.ends);
  }
  event(track, slice.start, kSliceBegin, more, interned);
}

void PerfettoWriter::close(Lane& lane, TimeNs until) {
  for (; !lane.ends.empty() && lane.ends.back() <= until; lane.ends.pop_back()) {
    if (lane.ends.back() != PerfettoSlice::kOpen) {
      event(lane.track, lane.ends.back(), kSliceEnd, "");
    }
  }
}

void PerfettoWriter::slices(std::string_view track, uint64_t parent,
                            std::vector<PerfettoSlice> slices) {
  std::stable_sort(slices.begin(), slices.end(), [](const auto& a, const auto& b) {
    return a.start != b.start ? a.start < b.start : a.end > b.end;
  });
  std::vector<Lane> lanes;
  for (const PerfettoSlice& slice : slices) {
    auto lane = lanes.begin();
    for (; lane != lanes.end(); ++lane) {
      close(*lane, slice.start);
      if (lane->ends.empty() || lane->ends.back() >= slice.end) {
        break;
      }
    }
    if (lane == lanes.end()) {
      const std::string beside = lanes.empty() ? "" : " (" + std::to_string(lanes.size()) + ")";
      lanes.push_back({this->track(std::string(track) + beside, parent), {}});
      lane = std::prev(lanes.end());
    }
    begin(lane->track, slice);
    lane->ends.push_back(std::max(slice.start, slice.end));
  }
  for (Lane& lane : lanes) {
    close(lane, PerfettoSlice::kOpen);
  }
}

}  // namespace traintrace
