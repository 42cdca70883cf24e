// Which known word was meant.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace traintrace {

// The most similar candidate; empty: none is similar enough to be worth saying.
std::string nearest(std::string_view word, std::span<const std::string> candidates);

// "; did you mean X?" or nothing.
std::string did_you_mean(std::string_view word, std::span<const std::string> candidates);

}  // namespace traintrace
