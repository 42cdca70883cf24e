#include "analyzer/text/event_printer.h"

#include <fnmatch.h>

#include <algorithm>
#include <map>

#include "analyzer/text/labels.h"
#include "analyzer/text/values.h"
#include "analyzer/text/words.h"

namespace traintrace {
namespace {

// An entry or a return, in the order in which its thread made them.
struct Moment {
  TimeNs time;
  uint32_t event;
  bool leave;
};

// The moments of one thread, whose events are given by enter time: calls nest.
void append_moments(const ProcessTrace& trace, const std::vector<uint32_t>& events,
                    std::vector<Moment>& moments) {
  std::vector<uint32_t> open;
  const auto close_until = [&](TimeNs time) {
    while (!open.empty() && trace.events[open.back()].leave <= time) {
      moments.push_back({trace.events[open.back()].leave, open.back(), true});
      open.pop_back();
    }
  };
  for (const uint32_t index : events) {
    const CallRecord& event = trace.events[index];
    close_until(event.enter);
    if (!event.enter_lost) {
      moments.push_back({event.enter, index, false});
    }
    if (event.returned && !event.moment) {
      open.push_back(index);
    }
  }
  close_until(std::numeric_limits<TimeNs>::max());
}

class EventPrinter {
 public:
  EventPrinter(const ProcessTrace& trace, const std::string& name, TimeNs start,
               const DumpOptions& options)
      : trace_(trace),
        process_(quoted(name)),
        start_(start),
        options_(options),
        communicators_(communicator_labels(trace)) {
    for (const CallSchema& call : trace.calls) {
      Call& row = calls_.emplace_back();
      row.name = quoted(call.name);
      row.shown = fnmatch(options.calls.c_str(), call.name.c_str(), 0) == 0;
      for (const FieldSchema& field : call.fields) {
        row.fields.push_back(
            {' ' + quoted(field.name) + '=', value_format(field.format), field.after_call});
      }
    }
    for (const auto& [id, stack] : trace.stacks) {
      std::string word = " @" + std::to_string(id);
      if (!stack.python.empty()) {
        word += '=' + python_frame_word(stack.python[0]);
        word = ' ' + quoted(word.substr(1));
      }
      stacks_.emplace(id, std::move(word));
    }
  }

  // In order of time; those of one thread keep their order.
  std::vector<Moment> moments() const {
    std::map<uint32_t, std::vector<uint32_t>> by_thread;
    uint64_t left = options_.limit;
    for (uint32_t i = 0; i < trace_.events.size() && left > 0; ++i) {
      const CallRecord& event = trace_.events[i];
      if (event.call < calls_.size() && calls_[event.call].shown && event.enter >= options_.since &&
          event.enter < options_.until) {
        by_thread[event.thread].push_back(i);
        --left;
      }
    }
    std::vector<Moment> all;
    for (const auto& [thread, events] : by_thread) {
      append_moments(trace_, events, all);
    }
    std::stable_sort(all.begin(), all.end(),
                     [](const Moment& a, const Moment& b) { return a.time < b.time; });
    return all;
  }

  void print(std::string& out, const Moment& moment) const {
    const CallRecord& event = trace_.events[moment.event];
    append_time(out, moment.time, start_);
    out += ' ';
    out += process_;
    out += '/';
    append_unsigned(out, event.thread);
    out += event.moment ? " * " : moment.leave ? " < " : " > ";
    out += calls_[event.call].name;
    if (moment.leave) {
      out += " =";
      append_result(out, trace_.calls[event.call].library, event.result);
    }
    if (!moment.leave || event.result == 0) {
      append_values(out, event, moment.leave);
    }
    if (!moment.leave) {
      append_place(out, event);
    }
    out += '\n';
  }

 private:
  struct Field {
    std::string key;  // " name="
    ValueFormat format;
    bool after_call;
  };
  struct Call {
    std::string name;
    bool shown;
    std::vector<Field> fields;
  };

  void append_values(std::string& out, const CallRecord& event, bool after_call) const {
    const auto values = trace_.values_of(event);
    const std::vector<Field>& fields = calls_[event.call].fields;
    for (size_t i = 0; i < fields.size() && i < values.size(); ++i) {
      if (fields[i].after_call != after_call) {
        continue;
      }
      const uint64_t value = values[i];
      if (fields[i].format == ValueFormat::kRange) {
        out += range_word(fields[i].key, value);
        continue;
      }
      if (fields[i].format == ValueFormat::kText) {
        out += text_word(fields[i].key, value);
        continue;
      }
      out += fields[i].key;
      if (fields[i].format == ValueFormat::kCommunicator && value - 1 < communicators_.size()) {
        out += communicators_[value - 1];
      } else {
        append_value(out, fields[i].format, value);
      }
    }
  }

  // ` range=3`, or ` "range=3=step 12"` where the name is known.
  std::string range_word(const std::string& key, uint64_t value) const {
    const auto found = trace_.ranges.find(static_cast<uint32_t>(value));
    std::string word = key.substr(1) + std::to_string(value);
    if (found != trace_.ranges.end()) {
      word += '=' + found->second.name;
    }
    return ' ' + quoted(word);
  }

  // ` text0=0x3132382d31313238=8211-821`; nothing for no text.
  static std::string text_word(const std::string& key, uint64_t value) {
    if (value == 0) {
      return "";
    }
    std::string word = key.substr(1);
    append_value(word, ValueFormat::kText, value);
    word += '=';
    for (; value != 0; value >>= 8) {
      word += static_cast<char>(value & 0xff);
    }
    return ' ' + quoted(word);
  }

  void append_place(std::string& out, const CallRecord& event) const {
    if (event.stack != 0) {
      const auto found = stacks_.find(event.stack);
      out += found != stacks_.end() ? found->second : " @" + std::to_string(event.stack);
    }
    if (event.device != format::kNoDevice) {
      out += " on-device=";
      append_unsigned(out, event.device);
    }
    if (event.caller != 0) {
      out += " caller=";
      append_hex(out, event.caller);
    }
    out += event.leave_lost ? " leave-lost" : "";
  }

  const ProcessTrace& trace_;
  std::string process_;
  TimeNs start_;
  const DumpOptions& options_;
  std::vector<std::string> communicators_;
  std::vector<Call> calls_;
  std::map<uint32_t, std::string> stacks_;
};

}  // namespace

void print_events(const ProcessTrace& trace, const std::string& name, TimeNs start,
                  const DumpOptions& options, const std::function<void(std::string_view)>& write) {
  constexpr size_t kBufferBytes = 1 << 16;
  const EventPrinter printer(trace, name, start, options);
  std::string out;
  for (const Moment& moment : printer.moments()) {
    printer.print(out, moment);
    if (out.size() > kBufferBytes) {
      write(out);
      out.clear();
    }
  }
  write(out);
}

}  // namespace traintrace
