// Which device a driver context is on, as its creation said: asking the driver is not allowed while
// a call is recorded.
#pragma once

#include <cstdint>

#include "interpose/record/thread.h"

namespace traintrace {

void remember_context(uint64_t context, int device) noexcept;
uint8_t device_of_context(uint64_t context) noexcept;  // format::kNoDevice: not known

uint8_t device_or_none(int device) noexcept;

}  // namespace traintrace
