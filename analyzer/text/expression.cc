#include "analyzer/text/expression.h"

#include <algorithm>
#include <utility>

#include "analyzer/text/expression_parser.h"

namespace traintrace {

// From the end to the beginning: each part knows where it goes on.
class ExpressionCompiler {
 public:
  explicit ExpressionCompiler(Expression& into) : into_(into) {
    into_.states_.push_back({.step = Step::kFound});
  }

  uint32_t compile(const ExpressionNode& node, uint32_t next) {
    // An operand without states, repeated, would take time and no room.
    if (too_large() || ++compiled_ > 10 * Expression::kMostStates) {
      is_too_large_ = true;
      return next;
    }
    switch (node.kind) {
      case Kind::kSequence:
        for (auto part = node.parts.rbegin(); part != node.parts.rend(); ++part) {
          next = compile(*part, next);
        }
        return next;
      case Kind::kChoice:
        return choice(node, next);
      case Kind::kRepeat:
        return repeat(node, next);
      case Kind::kByte:
        into_.sets_.push_back(node.set);
        return add(Step::kByte, next, static_cast<uint32_t>(into_.sets_.size() - 1));
      case Kind::kBegin:
        return add(Step::kBegin, next);
      case Kind::kEnd:
        return add(Step::kEnd, next);
      case Kind::kAtWord:
        return add(Step::kAtWord, next);
      case Kind::kNotAtWord:
        return add(Step::kNotAtWord, next);
    }
    return next;
  }

  bool too_large() const { return is_too_large_ || into_.states_.size() > Expression::kMostStates; }

 private:
  using Step = Expression::Step;
  using Kind = ExpressionNode::Kind;

  uint32_t add(Step step, uint32_t next, uint32_t other = 0) {
    into_.states_.push_back({step, next, other});
    return static_cast<uint32_t>(into_.states_.size() - 1);
  }

  uint32_t choice(const ExpressionNode& node, uint32_t next) {
    uint32_t first = compile(node.parts.back(), next);
    for (auto part = std::next(node.parts.rbegin()); part != node.parts.rend(); ++part) {
      first = add(Step::kEither, compile(*part, next), first);
    }
    return first;
  }

  uint32_t repeat(const ExpressionNode& node, uint32_t next) {
    const ExpressionNode& part = node.parts.front();
    uint32_t first = next;
    uint32_t copies = node.fewest;
    if (node.most == kExpressionUnbounded) {
      first = add(Step::kPass, next);  // becomes the choice between once more and on
      const uint32_t again = compile(part, first);
      into_.states_[first] = {Step::kEither, again, next};
      if (copies > 0) {
        first = again;
        --copies;
      }
    } else {
      for (uint32_t i = node.fewest; i < node.most && !too_large(); ++i) {
        first = add(Step::kEither, compile(part, first), next);
      }
    }
    for (; copies > 0 && !too_large(); --copies) {
      first = compile(part, first);
    }
    return first;
  }

  Expression& into_;
  size_t compiled_ = 0;
  bool is_too_large_ = false;
};

Expression::Expression(std::string_view expression, std::string& wrong) {
  if (expression.size() > kMostBytes) {
    wrong = "expected at most " + std::to_string(kMostBytes) + " bytes";
    return;
  }
  const ExpressionNode all = parse_expression(expression, kMostNested, wrong);
  if (!wrong.empty()) {
    return;
  }
  ExpressionCompiler compiler(*this);
  first_ = compiler.compile(all, 0);
  if (compiler.too_large()) {
    wrong = "expected fewer characters, each counted as often as it is repeated: at most about " +
            std::to_string(kMostStates);
  }
}

// All the states that some beginning of a match is in, at one place of the text after the other.
class Expression::Search {
 public:
  Search(const Expression& of, std::string_view text)
      : of_(of), text_(text), added_at_(of.states_.size(), SIZE_MAX) {}

  bool run() {
    const size_t end = std::min(text_.size(), kSearchedBytes);
    add(of_.first_);
    while (!found_ && at_ < end) {
      here_.swap(waiting_);
      waiting_.clear();
      const auto byte = static_cast<unsigned char>(text_[at_++]);
      for (const uint32_t state : here_) {
        const State& one = of_.states_[state];
        if (of_.sets_[one.other][byte]) {
          add(one.next);
        }
      }
      add(of_.first_);  // a match may begin anywhere
    }
    return found_;
  }

 private:
  bool is_at_word() const {
    const bool before = at_ > 0 && is_word_byte(static_cast<unsigned char>(text_[at_ - 1]));
    const bool after = at_ < text_.size() && is_word_byte(static_cast<unsigned char>(text_[at_]));
    return before != after;
  }
  bool goes_on(Step step) const {
    switch (step) {
      case Step::kBegin:
        return at_ == 0;
      case Step::kEnd:
        return at_ == text_.size();
      case Step::kAtWord:
        return is_at_word();
      case Step::kNotAtWord:
        return !is_at_word();
      default:
        return true;
    }
  }

  // The state and all that are reached from it without a byte.
  void add(uint32_t from) {
    to_add_.push_back(from);
    while (!to_add_.empty()) {
      const uint32_t state = to_add_.back();
      to_add_.pop_back();
      if (std::exchange(added_at_[state], at_) == at_) {
        continue;
      }
      const State& one = of_.states_[state];
      if (one.step == Step::kByte) {
        waiting_.push_back(state);
      } else if (one.step == Step::kFound) {
        found_ = true;
      } else if (goes_on(one.step)) {
        to_add_.push_back(one.next);
        if (one.step == Step::kEither) {
          to_add_.push_back(one.other);
        }
      }
    }
  }

  const Expression& of_;
  std::string_view text_;
  size_t at_ = 0;
  bool found_ = false;
  std::vector<size_t> added_at_;  // by state
  std::vector<uint32_t> here_, waiting_, to_add_;
};

bool Expression::is_in(std::string_view text) const {
  return !states_.empty() && Search(*this, text).run();
}

}  // namespace traintrace
