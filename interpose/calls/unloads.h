// What is remembered of callers by where they are holds as long as their code is there.
#pragma once

namespace traintrace {

// Forgets it where libraries were unloaded since this was asked last.  Some 100 ns.
void look_for_unloads() noexcept;

}  // namespace traintrace
