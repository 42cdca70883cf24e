#include "analyzer/reader/sections/layout.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string>

#include "analyzer/text/sizes.h"

namespace traintrace {
namespace {

using format::FileHeader;
using format::Section;

constexpr uint32_t kMaxElementBytes = 64 << 20;

// Its room is allocated before anything is written: zeros, of whatever length.
bool is_nothing(const TraceBytes& file) {
  std::vector<std::byte> part(64 << 10);
  constexpr uint64_t kLook = 1 << 20;  // the file may say that it is a terabyte
  const uint64_t bytes = std::min(file.bytes(), kLook);
  for (uint64_t offset = 0; offset < bytes; offset += part.size()) {
    const auto end = part.begin() + static_cast<std::ptrdiff_t>(file.read(offset, part));
    if (std::any_of(part.begin(), end, [](std::byte byte) { return byte != std::byte{0}; })) {
      return false;
    }
  }
  return true;
}

ReadError not_begun(const TraceBytes& file, uint64_t offset) {
  ReadError error =
      file.error(offset, "not begun: the process ended, or is, while its trace is set up");
  error.fatal = error.not_begun = true;
  return error;
}

Result<FileHeader> read_header(const TraceBytes& file) {
  const auto fatal = [&](uint64_t offset, std::string message) {
    return ReadError{file.path(), offset, std::move(message), true, false};
  };
  std::byte bytes[format::kHeaderBytes];
  const size_t got = file.read(0, bytes);
  const auto header = value_from<FileHeader>(std::span(bytes).first(got));
  if (got < sizeof header.magic ||
      std::memcmp(header.magic, format::kMagic, sizeof header.magic) != 0) {
    return file.path().ends_with(".trace") && is_nothing(file) ? not_begun(file, 0)
           : got == 0 ? fatal(0, "expected a trace, the file is empty")
                      : fatal(0, "neither a trace nor the text of `traintrace dump`");
  }
  if (got < sizeof header) {
    ReadError error = fatal(got, "the trace is truncated to " + file_size_text(got) +
                                     ", less than its header of " + file_size_text(sizeof header) +
                                     ": nothing can be said about its process");
    error.truncated = true;
    return error;
  }
  if (header.version < format::kOldestVersion || header.version > format::kVersion) {
    return fatal(offsetof(FileHeader, version), "expected format version " +
                                                    std::to_string(format::kOldestVersion) +
                                                    " to " + std::to_string(format::kVersion) +
                                                    ", found " + std::to_string(header.version) +
                                                    ": read it with the traintrace that wrote it");
  }
  if (header.ready != 1) {
    return not_begun(file, offsetof(FileHeader, ready));
  }
  if (header.section_count > format::kMaxSections) {
    return fatal(offsetof(FileHeader, section_count),
                 "expected at most " + std::to_string(format::kMaxSections) + " sections, found " +
                     std::to_string(header.section_count));
  }
  return header;
}

// What is wrong with a section by itself, or nothing.
std::string complaint_about(const Section& section, uint64_t header_bytes) {
  uint64_t end = 0;
  if (section.element_bytes == 0 || section.element_bytes > kMaxElementBytes) {
    return "an element of 1 byte to 64 MiB, found " + std::to_string(section.element_bytes);
  }
  if (__builtin_add_overflow(section.offset, section.bytes, &end)) {
    return "an end that fits 64 bits";
  }
  if (section.offset < header_bytes) {
    return "a section behind the header, found offset " + std::to_string(section.offset);
  }
  return "";
}

// Of what lies beyond nothing was ever touched, and a copy may lack it.
uint64_t ready_bytes(const FileHeader& header, uint32_t section) {
  const bool is_known = header.version >= 4 && header.ready_bytes[section] != 0;
  return is_known ? header.ready_bytes[section] : UINT64_MAX;
}

// Cuts what the file has no longer, and half elements.  Of a chunk the beginning is of use too.
void fit_into_file(const TraceBytes& file, uint64_t place, Section& section,
                   std::vector<ReadError>& problems) {
  const uint64_t there = section.offset < file.bytes() ? file.bytes() - section.offset : 0;
  if (section.bytes > there) {
    section.bytes = there;
  } else if (section.bytes % section.element_bytes != 0) {
    problems.push_back(file.error(place, "expected a multiple of the element's size"));
  }
  const bool chunks = section.kind == format::kEvents || section.kind == format::kDefinitions;
  section.bytes += chunks ? section.element_bytes - 1 : 0;
  section.bytes -= section.bytes % section.element_bytes;
}

// One error for the file, however many sections it lacks.
ReadError truncated(const TraceBytes& file, uint64_t whole_bytes, bool of_use) {
  ReadError error =
      file.error(file.bytes(), "the trace is truncated to " + file_size_text(file.bytes()) +
                                   " of " + file_size_text(whole_bytes) +
                                   (of_use ? "" : ": nothing can be said about its process"));
  error.truncated = true;
  error.fatal = !of_use;
  return error;
}

bool has_bytes(const Layout& layout, format::SectionKind kind) {
  const Section* const section = layout.section(kind);
  return section != nullptr && section->bytes != 0;
}

}  // namespace

const Section* Layout::section(format::SectionKind kind) const {
  for (const Section& section : sections) {
    if (section.kind == kind) {
      return &section;
    }
  }
  return nullptr;
}

Result<Layout> read_layout(const TraceBytes& file, std::vector<ReadError>& problems) {
  const Result<FileHeader> header = read_header(file);
  if (!header) {
    return header.error();
  }
  Layout layout{*header, {}};
  uint64_t whole_bytes = 0;
  const uint64_t header_bytes = std::max<uint64_t>(sizeof(FileHeader), header->header_bytes);
  for (uint32_t i = 0; i < header->section_count; ++i) {
    Section section = header->sections[i];
    const uint64_t place = offsetof(FileHeader, sections) + i * sizeof(Section);
    if (section.kind == format::kNoSection) {
      continue;
    }
    std::string complaint = complaint_about(section, header_bytes);
    for (const Section& other : layout.sections) {
      if (complaint.empty() && other.kind == section.kind) {
        complaint = "one section of kind " + std::to_string(section.kind);
      }
      if (complaint.empty() && section.offset < other.offset + other.bytes &&
          other.offset < section.offset + section.bytes) {
        complaint = "sections " + std::to_string(other.kind) + " and " +
                    std::to_string(section.kind) + " not to overlap";
      }
    }
    if (!complaint.empty()) {
      problems.push_back(file.error(place, "expected " + complaint));
      continue;
    }
    section.bytes = std::min(section.bytes, ready_bytes(*header, i));
    if (section.kind == format::kChunkStates) {
      continue;
    }
    whole_bytes = std::max(whole_bytes, section.offset + section.bytes);
    fit_into_file(file, place, section, problems);
    layout.sections.push_back(section);
  }
  if (whole_bytes > file.bytes()) {
    const bool of_use =
        has_bytes(layout, format::kThreads) || has_bytes(layout, format::kCommunicators);
    const ReadError error = truncated(file, whole_bytes, of_use);
    if (!of_use) {
      return error;
    }
    problems.push_back(error);
  }
  return layout;
}

}  // namespace traintrace
