// Texts of others - names of threads, files, functions, kernels, hosts - made harmless where they
// are shown.  Who names a thread must not be able to move the cursor of whoever looks at it, hide
// what follows, or make a line of its own.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace traintrace {

// One line of UTF-8.  Control characters (C1 too), bidirectional overrides, invisible separators
// and bytes that are no UTF-8 become \n, \t, \x1b, \u202e.  Everything else is as it was.
std::string printable(std::string_view text);

// The same for text that is whole: lines stay lines, and so do tabs.
std::string printable_lines(std::string_view text);

// How many bytes of `text` from `at` on are one character that none of these would escape; 0: they
// would.
size_t harmless_bytes(std::string_view text, size_t at);

// JSON that is printed: what is control to a terminal becomes \u009b.  Only strings can hold it.
std::string printable_json(std::string json);

}  // namespace traintrace
