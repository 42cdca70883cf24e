// What is built of web/ (built/page.html), within the program.
#pragma once

#include <string_view>

namespace traintrace {

std::string_view page_asset();  // empty: it was not there when this was built

}  // namespace traintrace
