# Text files as C++, packed by zstd: cmake -DOUTPUT=FILE.inc -DFILES=A.md,B.md -P EmbedText.cmake
# The file defines kEmbedded for analyzer/text/embedded.h.  A file that does not exist is left out.
cmake_minimum_required(VERSION 3.25)
string(REPLACE "," ";" files "${FILES}")
string(ASCII 12 form_feed)  # begins a file
file(REMOVE "${OUTPUT}.raw" "${OUTPUT}.zst")
file(WRITE "${OUTPUT}.raw" "")
foreach(file IN LISTS files)
  if(EXISTS "${file}")
    get_filename_component(name "${file}" NAME)
    file(READ "${file}" text)
    file(APPEND "${OUTPUT}.raw" "${form_feed}${name}\n${text}")
  endif()
endforeach()
file(SIZE "${OUTPUT}.raw" bytes)
file(ARCHIVE_CREATE OUTPUT "${OUTPUT}.zst" PATHS "${OUTPUT}.raw" FORMAT raw COMPRESSION Zstd COMPRESSION_LEVEL 9)
file(READ "${OUTPUT}.zst" packed HEX)
string(REGEX REPLACE "(................................)" "\\1\n" packed "${packed}")
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," packed "${packed}")
file(WRITE "${OUTPUT}" "constexpr unsigned char kPacked[] = {
${packed}};
constexpr traintrace::Embedded kEmbedded = {kPacked, ${bytes}};
")
file(REMOVE "${OUTPUT}.raw" "${OUTPUT}.zst")
