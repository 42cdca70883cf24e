// Functions of the driver that the driver itself hands out.
#pragma once

namespace traintrace {

// What is to be handed out instead of `real`, which the driver gave for `name`.  By address, never
// by name alone: one name stands for functions with different parameters.
void* entry_for_driver(const char* name, void* real) noexcept;

}  // namespace traintrace
