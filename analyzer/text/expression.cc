#include "analyzer/text/expression.h"

#include <fmt/format.h>
#include <re2/re2.h>

namespace traintrace {
namespace {

re2::RE2::Options options_of_expressions() {
  re2::RE2::Options options;
  options.set_encoding(re2::RE2::Options::EncodingLatin1);
  options.set_log_errors(false);
  options.set_never_capture(true);
  options.set_max_mem(Expression::kMostMemory);
  return options;
}

}  // namespace

Expression::Expression(std::string_view expression, std::string& wrong) {
  if (expression.size() > kMostBytes) {
    wrong = fmt::format("expected at most {} bytes", kMostBytes);
    return;
  }
  compiled_ = std::make_shared<const re2::RE2>(
      re2::StringPiece(expression.data(), expression.size()), options_of_expressions());
  wrong = compiled_->error();  // empty: none
}

bool Expression::is_in(std::string_view text) const {
  return re2::RE2::PartialMatch(re2::StringPiece(text.data(), text.size()), *compiled_);
}

}  // namespace traintrace
