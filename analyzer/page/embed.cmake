# -DFROM=page.html -DTO=page_asset.cc: the file as a string of C++.  Without FROM an empty one.
set(bytes)
if(EXISTS ${FROM})
  file(READ ${FROM} bytes HEX)
  string(REGEX REPLACE "(................................)" "\\1\n" bytes "${bytes}")
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
endif()
file(WRITE ${TO} "#include \"analyzer/page/page_asset.h\"
namespace traintrace {
namespace {
constexpr unsigned char kBytes[] = {
${bytes}0};
}
std::string_view page_asset() {
  return {reinterpret_cast<const char*>(kBytes), sizeof(kBytes) - 1};
}
}  // namespace traintrace
")
