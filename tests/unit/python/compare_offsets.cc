// Compares our idea of an interpreter's structs with its own headers.
#include <cstdio>

#include "cpython/layout.h"
#include "offsets.h"

namespace {

int differences = 0;

void compare(const char* what, int ours, int headers) {
  if (ours == traintrace::PythonLayout::kNone) {
    ours = -1;
  }
  if (ours != headers) {
    std::printf("%s: %d, but the headers say %d\n", what, ours, headers);
    ++differences;
  }
}

}  // namespace

int main() {
  const HeaderOffsets& headers = header_offsets;
  const auto layout =
      headers.published != nullptr
          ? traintrace::published_python_layout(
                *static_cast<const traintrace::PublishedPythonTable*>(headers.published),
                headers.version)
          : traintrace::known_python_layout(headers.minor);
  if (!layout) {
    std::printf("no layout for 3.%d\n", headers.minor);
    return 1;
  }
#define COMPARE(name) compare(#name, static_cast<int>(layout->name), headers.name)
  COMPARE(minor);
  COMPARE(instruction_unit);
  COMPARE(runtime_finalizing);
  COMPARE(thread_id);
  COMPARE(thread_frame);
  COMPARE(cframe_frame);
  COMPARE(frame_type);
  COMPARE(frame_previous);
  COMPARE(frame_code);
  COMPARE(frame_instruction);
  COMPARE(frame_owner);
  COMPARE(code_first_line);
  COMPARE(code_file);
  COMPARE(code_name);
  COMPARE(code_line_table);
  COMPARE(code_version);
  COMPARE(code_bytecode);
#undef COMPARE
#define COMPARE(name) compare("object." #name, layout->object.name, headers.object_##name)
  COMPARE(type);
  COMPARE(size);
#undef COMPARE
#define COMPARE(name) compare("object." #name, layout->object.name, headers.name)
  COMPARE(bytes_data);
  COMPARE(text_length);
  COMPARE(text_state);
  COMPARE(text_ascii_data);
  COMPARE(text_other_data);
#undef COMPARE
  std::printf("CPython 3.%d: %d differences\n", headers.minor, differences);
  return differences == 0 ? 0 : 1;
}
