#include "analyzer/text/thread_now_lines.h"

#include "analyzer/text/key_printer.h"
#include "analyzer/text/key_reader.h"
#include "analyzer/text/labels.h"
#include "analyzer/text/records.h"

namespace traintrace {
namespace {

std::optional<int> tid_in(const std::string& word) {
  const auto number = parse_unsigned(word);
  return number && *number <= 0x7fffffff ? std::optional(static_cast<int>(*number)) : std::nullopt;
}

// "train.py:41:step,train.py:9:main", as of a stack.
bool read_python(std::string_view text, ThreadNow& thread) {
  StackText stack;
  for (bool more = true; more;) {
    const size_t comma = text.find(',');
    if (!parse_frame(text.substr(0, comma), stack) || !stack.native.empty()) {
      return false;
    }
    more = comma != text.npos;
    text.remove_prefix(more ? comma + 1 : text.size());
  }
  for (const PythonFrameText& frame : stack.python) {
    thread.python.push_back({frame.function, frame.file, frame.line, "", true});
  }
  return true;
}

void append_frame(std::string& out, const ProcessTrace& trace, TimeNs start, int tid,
                  const FrameNow& frame) {
  out += "frame-now ";
  append_unsigned(out, static_cast<uint64_t>(tid));
  out += frame.python ? " python " : " native ";
  out += quoted(frame.function);
  KeyPrinter keys(out, trace, start);
  records::frame_now_keys(keys, frame);
  out += '\n';
}

}  // namespace

bool read_thread_now(DraftSet& drafts, Draft& draft, std::span<const std::string> words) {
  const std::optional<int> tid = tid_in(words[1]);
  if (!tid) {
    return drafts.fail("thread-now TID ..");
  }
  KeyReader keys(words.subspan(2), &draft, drafts);
  ThreadNow& thread = draft.trace.now.emplace_back();
  thread.tid = *tid;
  thread.state = 'S';
  records::thread_now_keys(keys, thread);
  thread.steady = keys.take_word("steady");
  thread.ran = keys.take_word("ran");
  thread.timed = keys.take_word("timed");
  thread.holds_gil = keys.take_word("holds-gil");
  thread.python_is_whole = keys.take_word("whole");
  const auto python = keys.take_behind("@");
  if (python && !read_python(*python, thread)) {
    return drafts.fail("@file:line:function,.. instead of @" + *python);
  }
  return keys.finish();
}

bool read_frame_now(DraftSet& drafts, Draft& draft, std::span<const std::string> words) {
  if (draft.trace.now.empty() || tid_in(words[1]) != draft.trace.now.back().tid ||
      (words[2] != "python" && words[2] != "native")) {
    return drafts.fail("frame-now TID python|native FUNCTION .., below its thread-now");
  }
  KeyReader keys(words.subspan(4), &draft, drafts);
  FrameNow frame;
  frame.function = words[3];
  frame.python = words[2] == "python";
  records::frame_now_keys(keys, frame);
  ThreadNow& thread = draft.trace.now.back();
  (frame.python ? thread.python : thread.native).push_back(std::move(frame));
  return keys.finish();
}

void append_threads_now(std::string& out, const ProcessTrace& trace, TimeNs start) {
  for (const ThreadNow& thread : trace.now) {
    out += "thread-now ";
    append_unsigned(out, static_cast<uint64_t>(thread.tid));
    KeyPrinter keys(out, trace, start);
    records::thread_now_keys(keys, thread);
    out += thread.steady ? " steady" : "";
    out += thread.ran ? " ran" : "";
    out += thread.timed ? " timed" : "";
    out += thread.holds_gil ? " holds-gil" : "";
    out += thread.python_is_whole ? " whole" : "";
    out += '\n';
    for (const auto* frames : {&thread.python, &thread.native}) {
      for (const FrameNow& frame : *frames) {
        append_frame(out, trace, start, thread.tid, frame);
      }
    }
  }
}

}  // namespace traintrace
